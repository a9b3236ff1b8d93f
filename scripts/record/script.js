'use strict';
const body = document.querySelector('#rows tbody');
const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
const [query, kind, verdict, count] = ['q', 'kind', 'verdict', 'count'].map((id) => document.getElementById(id));
const scenarios = JSON.parse(document.getElementById('scenarios').textContent);

function filter() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { row, text } of rows) {
    const fits = (!kind.value || row.dataset.k === kind.value) && (!verdict.value || row.dataset.v === verdict.value);
    row.hidden = !(fits && words.every((word) => text.includes(word)));
    shown += row.hidden ? 0 : 1;
  }
  count.textContent = `${shown} of ${rows.length}`;
}

function sort(column, head) {
  const down = head.getAttribute('aria-sort') === 'ascending';
  for (const each of head.parentNode.cells) each.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = (row) => row.cells[column].dataset.o;
  const compare = (a, b) => {
    const [x, y] = [key(a.row), key(b.row)];
    if (x === '' || y === '') return (x === '') - (y === '');
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y, 'en', { numeric: true }) : x - y;
    return down ? -order : order;
  };
  rows.sort(compare);
  body.append(...rows.map(({ row }) => row));
}

/** What follows the # of the explorer's address: deflated JSON in URL-safe base 64. */
async function fragment(toml) {
  const stream = new Blob([JSON.stringify({ toml })]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  return `s=${text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}`;
}

async function link(event) {
  const place = event.target.closest?.('a[data-s]');
  if (place && !place.hash) place.href = `explorer/index.html#${await fragment(scenarios[place.dataset.s])}`;
}

document.getElementById('filter').addEventListener('input', filter);
document.getElementById('filter').addEventListener('submit', (event) => event.preventDefault());
document.querySelectorAll('#rows thead th').forEach((head, column) => {
  head.firstChild.addEventListener('click', () => sort(column, head));
});
// The address stands before the click, so that it can be copied or opened in another tab.
for (const kindOfEvent of ['pointerover', 'focusin', 'touchstart']) document.addEventListener(kindOfEvent, link, { passive: true });
document.addEventListener('click', async (event) => {
  const place = event.target.closest('a[data-s]');
  if (place && !place.hash) {
    event.preventDefault();
    await link(event);
    location.href = place.href;
  }
  if (event.target.tagName === 'CODE') await navigator.clipboard?.writeText(event.target.textContent);
  if (event.target.closest('.matrix a')) [query.value, kind.value, verdict.value] = ['', '', ''], filter();
});
query.value = new URLSearchParams(location.search).get('q') ?? '';
filter();
