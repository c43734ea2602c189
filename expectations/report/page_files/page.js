"use strict";
// The drawer, arrow keys in the heat maps, and a label where one points at a chart. The page is read without any of it.

const details = new Map(JSON.parse(document.getElementById("details").textContent).map((one) => [one.id, one]));
const drawer = document.getElementById("drawer");
const part = (name) => document.getElementById(`drawer-${name}`);

function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

function rowsAsTable(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  columns.forEach((column) => (element("th", column, head).scope = "col"));
  const body = table.createTBody();
  rows.forEach((row) => {
    const line = body.insertRow();
    columns.forEach((column) => element("td", row[column] ?? "", line));
  });
  return table;
}

function reason(why) {
  const made = document.createElement(why.tree ? "details" : "p");
  element("code", why.command, why.tree ? element("summary", "", made) : made);
  if (why.tree) element("pre", why.tree, made).tabIndex = 0;
  return made;
}

function show(id) {
  const one = details.get(id);
  if (!one) return;
  const count = (n) => (n === null ? "unknown" : n.toLocaleString("en"));
  part("where").textContent = `${one.node}, epoch ${one.epoch.toLocaleString("en")}`;
  part("title").textContent = one.invariant;
  part("state").textContent = one.state;
  part("state").className = `worst ${one.look.replace(" ", "-")}`;
  part("sentence").textContent = one.sentence;
  part("source").textContent = one.source;
  part("facts").replaceChildren();
  const facts = {
    violations: count(one.violations), "rows checked": count(one.checked), judged: one.judged,
    severity: one.severity + (one.blocking ? ", blocks the commit" : ""), seconds: one.seconds, run: one.run,
  };
  for (const [name, value] of Object.entries(facts)) {
    element("dt", name, part("facts"));
    element("dd", value, part("facts"));
  }
  part("error").hidden = !one.error;
  part("error").querySelector("pre").textContent = one.error ?? "";
  const rows = one.sample;
  part("sample").hidden = !rows.length;
  const all = rows.length === one.violations ? "" : ` of ${count(one.violations)}`;
  part("sample").querySelector("h3").textContent = `Bad rows: ${rows.length}${all}`;
  part("sample").querySelector(".scroll").replaceChildren(rowsAsTable(rows));
  part("why").hidden = !one.why.length;
  part("why").querySelector("div").replaceChildren(...one.why.map(reason));
  part("sql").hidden = !one.sql;
  part("sql").querySelector("pre").textContent = one.sql;
  part("sql").querySelector(".copy").textContent = "Copy";
  drawer.showModal();
  drawer.scrollTop = 0;
}

part("sql").querySelector(".copy").addEventListener("click", async (event) => {
  const text = part("sql").querySelector("pre");
  try {
    await navigator.clipboard.writeText(text.textContent);
    event.target.textContent = "Copied";
  } catch {
    // Not every browser allows a page from disk to use the clipboard.
    getSelection().selectAllChildren(text);
    event.target.textContent = "Selected: press Ctrl+C";
  }
});
drawer.addEventListener("click", (event) => event.target === drawer && drawer.close());

// A heat map is one stop of the Tab key; arrows move within it.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
for (const map of document.querySelectorAll(".heat-map")) {
  const grid = [...map.querySelectorAll("tbody tr")].map((row) => [...row.cells].slice(1).map((c) => c.querySelector("button")));
  const buttons = grid.flat().filter(Boolean);
  const first = map.querySelector(".critical, .warning, .info, .not-evaluated") ?? buttons.at(-1);
  if (first) first.tabIndex = 0;
  map.addEventListener("focusin", (event) => {
    buttons.forEach((button) => (button.tabIndex = button === event.target ? 0 : -1));
  });
  map.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    let y = grid.findIndex((row) => row.includes(event.target));
    if (!step || y < 0) return;
    let x = grid[y].indexOf(event.target);
    event.preventDefault();
    do [y, x] = [y + step[0], x + step[1]];
    while (grid[y] && x in grid[y] && !grid[y][x]);
    grid[y]?.[x]?.focus();
  });
  map.addEventListener("click", (event) => {
    const cell = event.target.closest("button");
    if (!cell) return;
    cell.focus();
    show(cell.id);
  });
}

const tip = document.getElementById("tip");
document.addEventListener("pointerover", (event) => {
  const mark = event.target.closest?.(".chart [role='graphics-symbol'][aria-roledescription='bar']");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.getAttribute("aria-label").replace(/; (place|panel): [^;]*/g, "");
  const at = mark.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(at.left, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, at.top - tip.offsetHeight - 6)}px`;
});
addEventListener("scroll", () => (tip.hidden = true), { passive: true });

// A link to a node unfolds it, one to a cell opens that.
function follow() {
  const to = decodeURIComponent(location.hash.slice(1));
  const linked = document.getElementById(to);
  linked?.querySelector(".body")?.setAttribute("open", "");
  linked?.focus();
  show(to);
}
addEventListener("hashchange", follow);
follow();
