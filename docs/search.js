// The guide's search. The index is a script beside the pages, so it works from a folder, without a server.
"use strict";

// Entries of `index` that hold every word of `query`, best first: [{ page, heading, anchor, text, score }].
// A page is { title, url, kind, rank, sections: [[anchor, heading, text], …] }; `rank` is 3 for tutorials and reference.
function search(index, query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_+-]+/gu) || [];
  if (!words.length) return [];
  const points = (text, word, whole, part) => {
    const found = text.toLowerCase().match(/[\p{L}\p{N}_+-]+/gu) || [];
    if (found.includes(word)) return whole;
    return found.some((each) => each.startsWith(word)) ? part : 0;
  };
  const hits = [];
  for (const page of index) {
    let best = null;
    let total = 0;
    let all = true;
    for (const word of words) {
      let most = points(page.title, word, 12, 8);
      let mentions = 0;
      for (const section of page.sections) {
        const count = mentioned(section[2], word);
        const score = points(section[1], word, 9, 6) + Math.min(count, 4) / 2;
        mentions += count;
        if (score > most) most = score;
        if (score > 0 && (!best || score > best.score)) best = { score, section };
      }
      if (!most) all = false;
      total += most + Math.min(mentions, 20) / 10;
    }
    if (!all) continue;
    const section = best ? best.section : page.sections[0];
    hits.push({
      page,
      anchor: section[0],
      heading: section[1],
      text: snippet(section[2], words),
      score: total * (1 + page.rank / 4),
    });
  }
  return hits.sort((a, b) => b.score - a.score || a.page.title.localeCompare(b.page.title));
}

// How often `text` has a word; one that only begins like it counts a quarter.
function mentioned(text, word) {
  let count = 0;
  for (const each of text.toLowerCase().match(/[\p{L}\p{N}_+-]+/gu) || []) {
    if (each.startsWith(word)) count += each === word ? 1 : 0.25;
  }
  return count;
}

// The part of `text` around the first of `words`.
function snippet(text, words) {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const near = Math.max(0, (places.length ? Math.min(...places) : 0) - 40);
  const start = near ? text.indexOf(" ", near) + 1 : 0;
  return (start ? "…" : "") + text.slice(start, start + 140) + (start + 140 < text.length ? "…" : "");
}

if (typeof module !== "undefined") module.exports = { search };

if (typeof document !== "undefined") {
  const root = document.currentScript.src.replace(/search\.js.*$/, "");
  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    Object.assign(made, attributes);
    made.append(...children);
    return made;
  };

  const load = () =>
    new Promise((done, failed) => {
      if (window.guideIndex) return done(window.guideIndex);
      const script = element("script", { src: root + "search-index.js" });
      script.onload = () => done(window.guideIndex);
      script.onerror = () => failed(new Error("search-index.js is missing"));
      document.head.append(script);
    });

  const theme = () =>
    document.documentElement.dataset.theme ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const remembered = () => {
    try {
      return localStorage.getItem("guide-theme");
    } catch {
      return null;
    }
  };
  if (remembered()) document.documentElement.dataset.theme = remembered();

  document.addEventListener("DOMContentLoaded", () => {
    const side = document.querySelector(".wy-side-nav-search");
    if (!side) return;
    const input = element("input", { type: "search", placeholder: "Search", autocomplete: "off" });
    input.setAttribute("aria-label", "Search the guide");
    const results = element("ol", { className: "found", hidden: true });
    results.setAttribute("aria-live", "polite");
    const show = async () => {
      const query = input.value.trim();
      results.hidden = !query;
      if (!query) return;
      let hits;
      try {
        hits = search(await load(), query);
      } catch (error) {
        results.replaceChildren(element("li", {}, error.message));
        return;
      }
      if (query !== input.value.trim()) return;
      const items = hits.slice(0, 12).map((hit) =>
        element(
          "li",
          {},
          element(
            "a",
            { href: root + hit.page.url + (hit.anchor ? "#" + hit.anchor : "") },
            element("b", {}, hit.page.title),
            element("i", {}, hit.page.kind),
            element("span", {}, (hit.heading === hit.page.title ? "" : hit.heading + ": ") + hit.text),
          ),
        ),
      );
      results.replaceChildren(...(items.length ? items : [element("li", {}, "Nothing found.")]));
    };
    input.addEventListener("input", show);
    input.addEventListener("focus", () => load().catch(() => {}));
    input.addEventListener("keydown", (event) => {
      const first = results.querySelector("a");
      if (event.key === "Enter" && first) location.href = first.href;
      if (event.key === "Escape") {
        input.value = "";
        results.hidden = true;
      }
    });
    const button = element("button", { type: "button", className: "theme" }, theme() === "dark" ? "Light" : "Dark");
    button.addEventListener("click", () => {
      const other = theme() === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = other;
      button.textContent = other === "dark" ? "Light" : "Dark";
      try {
        localStorage.setItem("guide-theme", other);
      } catch {
        // A page from a folder may have no storage; then the choice lasts for this page.
      }
    });
    side.append(input, results, button);
    input.value = new URLSearchParams(location.search).get("q") || "";
    show();
  });
}
