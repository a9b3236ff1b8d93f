"""Access links under a kernel's TCP: the table is what the kept rows and today's simulator give."""

from tailback_validation import links


def test_the_table_is_what_the_kept_rows_and_todays_simulator_give() -> None:
    found = links.judged(links.KERNEL)
    assert [each.cell for each in found] == list(links.CELLS)
    page = links.PAGE.read_text(encoding="utf-8")
    made = links.with_table(page, links.table(links.KERNEL, found))
    assert made == page, "python -m tailback_validation.links 'debian-6.1*2' writes it"
