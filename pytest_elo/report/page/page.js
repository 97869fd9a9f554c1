"use strict";
// Everything from the run is set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const LETTERS = {
  correct: "✓", wrong: "W", partial: "P", no_answer: "N", truncated: "T", empty: "O", refused: "R", filtered: "L",
  context_exceeded: "C", limit_exceeded: "X", infra_error: "E", config_error: "E", unfaithful: "U",
};
const DROPPED = new Set(["infra_error", "config_error", "unfaithful"]);
const CHUNK = 300;

function element(name, text, properties) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  return Object.assign(made, properties || {});
}

// rows: one an item, cells by strategy, each a list of outcome numbers (one a repeat)
const rows = data.items.map(([task, item], number) => ({ number, task, item, cells: data.strategies.map(() => []) }));
data.outcomes.forEach(([item, strategy], number) => rows[item].cells[strategy].push(number));

const statusOf = (number) => data.statuses[data.outcomes[number][3]];
const scoreOf = (number) => data.outcomes[number][4];
const tokensOf = (number) => data.outcomes[number][5];
const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => (values.length ? sum(values) / values.length : null);
const scored = (cell) => cell.filter((number) => !DROPPED.has(statusOf(number)));

for (const row of rows) {
  const means = row.cells.map((cell) => mean(scored(cell).map(scoreOf))).filter((value) => value !== null);
  row.score = means.length ? mean(means) : -1;
  row.differ = means.some((value) => value !== means[0]);
  row.tokens = sum(row.cells.flat().map(tokensOf));
  row.text = [data.tasks[row.task], row.item, ...row.cells.flat().map(caseText)].join("\n").toLowerCase();
}

function caseText(number) {
  const found = data.cases[number];
  if (!found) return "";
  const said = (found.attempts || []).map((values) => values[6]);
  return [found.answer, found.expected, found.detail, found.output, ...said].filter(Boolean).join("\n");
}

let shown = [];
let drawn = 0;

function chosen() {
  const task = byId("task").value, status = byId("status").value, words = byId("find").value.trim().toLowerCase();
  const differ = byId("differ").checked;
  const found = rows.filter((row) =>
    (task === "" || row.task === Number(task)) &&
    (status === "" || row.cells.some((cell) => cell.some((number) => data.outcomes[number][3] === Number(status)))) &&
    (!differ || row.differ) &&
    (words === "" || row.text.includes(words)));
  const order = byId("order").value;
  if (order === "score") found.sort((a, b) => a.score - b.score || a.number - b.number);
  if (order === "tokens") found.sort((a, b) => b.tokens - a.tokens || a.number - b.number);
  return found;
}

function update() {
  shown = chosen();
  drawn = 0;
  byId("map").tBodies[0].replaceChildren();
  drawMore();
  byId("shown").textContent = `${shown.length} of ${rows.length} items, ${data.outcomes.length} outcomes`;
}

function drawMore() {
  const body = byId("map").tBodies[0];
  for (const row of shown.slice(drawn, drawn + CHUNK)) body.append(drawRow(row));
  drawn = Math.min(drawn + CHUNK, shown.length);
  const more = byId("more");
  more.hidden = drawn >= shown.length;
  more.textContent = `Show ${Math.min(CHUNK, shown.length - drawn)} of ${shown.length - drawn} more items`;
}

function drawRow(row) {
  const line = element("tr");
  const name = data.tasks.length > 1 ? `${data.tasks[row.task]}/${row.item}` : row.item;
  line.append(element("th", name, { scope: "row", title: name }));
  row.cells.forEach((cell, strategy) => line.append(drawCell(row, cell, strategy, name)));
  return line;
}

function drawCell(row, cell, strategy, name) {
  const place = element("td");
  if (!cell.length) return place;
  const score = mean(scored(cell).map(scoreOf));
  const kind = score === null ? "sx" : score === 1 ? "s1" : score === 0 ? "s0" : "s5";
  const label = cell.length === 1 ? LETTERS[statusOf(cell[0])] || "?" : score === null ? "E" : score.toFixed(2);
  const said = cell.map((number) => statusOf(number).replace("_", " ")).join(", ");
  const button = element("button", label, { type: "button", className: kind, tabIndex: -1 });
  button.setAttribute("aria-label", `${name}, ${data.strategies[strategy]}: ${said}`);
  button.title = `${data.strategies[strategy]}: ${said}`;
  button.addEventListener("click", () => openReader(row, strategy));
  place.append(button);
  return place;
}

// One stop for the tab key; arrows move within the map.
function cellButtons() { return [...byId("map").tBodies[0].rows].map((line) => [...line.querySelectorAll("td")]); }
byId("map").addEventListener("keydown", (event) => {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!(event.key in moves) || event.target.tagName !== "BUTTON") return;
  event.preventDefault();
  const grid = cellButtons(), cell = event.target.closest("td");
  const y = cell.parentElement.sectionRowIndex, x = grid[y].indexOf(cell);
  const [dy, dx] = moves[event.key];
  const target = grid[y + dy]?.[x + dx]?.querySelector("button");
  if (target) { event.target.tabIndex = -1; target.tabIndex = 0; target.focus(); }
});
byId("map").addEventListener("focusin", (event) => {
  for (const other of byId("map").querySelectorAll('button[tabindex="0"]')) other.tabIndex = -1;
  event.target.tabIndex = 0;
});

let open = null;

function openReader(row, strategy) {
  open = { row, strategy };
  byId("reader-head").textContent = `${data.tasks[row.task]}/${row.item} under ${data.strategies[strategy]}`;
  byId("reader-body").replaceChildren(...row.cells[strategy].map(drawCase));
  if (!byId("reader").open) byId("reader").showModal();
  byId("reader").scrollTop = 0;
  byId("reader-head").focus();
}

function drawCase(number) {
  const [, , repeat, , score, tokens] = data.outcomes[number];
  const found = data.cases[number] || {};
  const box = element("section");
  const list = element("dl");
  const facts = [
    ["repeat", repeat], ["status", statusOf(number).replace("_", " ")], ["score", score], ["answer", found.answer],
    ["expected", found.expected], ["detail", found.detail], ["ended by", found.finish_reason],
    ["marks", (found.marks || []).join(", ")], ["tokens", tokens.toLocaleString("en")],
  ];
  for (const [name, value] of facts) {
    if (value !== undefined && value !== "" && value !== null) list.append(element("dt", name), element("dd", String(value)));
  }
  box.append(list);
  if (found.output) {
    box.append(element("h3", found.cut ? `Raw output (the first ${found.output.length} of ${found.cut} characters)` : "Raw output"));
    box.append(element("pre", found.output, { className: "output", tabIndex: 0 }));
  } else if (statusOf(number) !== "correct") {
    box.append(element("p", "No output is kept on this page; failures.jsonl has what there was."));
  }
  if (found.attempts) box.append(element("h3", "Samples and attempts"), drawAttempts(found.attempts));
  return box;
}

function drawAttempts(attempts) {
  const holder = element("div", null, { className: "wide" }), table = element("table", null, { className: "numbers" });
  const head = element("tr");
  for (const name of ["for", "sample", "attempt", "ended", "tokens", "used"]) head.append(element("th", name, { scope: "col" }));
  table.append(element("thead"), element("tbody"));
  table.tHead.append(head);
  for (const values of attempts) {
    const line = element("tr");
    values.slice(0, 6).forEach((value, column) => {
      const text = column === 5 ? (value === true ? "yes" : value === false ? "discarded" : "") : String(value ?? "");
      line.append(element(column ? "td" : "th", text));
    });
    table.tBodies[0].append(line);
  }
  holder.append(table);
  for (const [role, sample, , , , kept, text] of attempts) {
    if (text) holder.append(drawSample(`${role}, sample ${sample}${kept === false ? ", discarded" : ""}`, text));
  }
  return holder;
}

function drawSample(name, text) {
  const box = element("details");
  const output = element("pre", text, { className: "output", tabIndex: 0 });
  box.append(element("summary", `${name} (${text.length} characters)`), output);
  return box;
}

function step(by) {
  const places = shown.flatMap((row) => row.cells.map((cell, strategy) => ({ row, strategy, cell })))
    .filter(({ cell }) => cell.some((number) => statusOf(number) !== "correct"));
  const at = places.findIndex(({ row, strategy }) => row === open.row && strategy === open.strategy);
  const start = at >= 0 ? at + by : by > 0 ? places.findIndex(({ row }) => row.number >= open.row.number) : places.length - 1;
  const target = places[start];
  if (target) openReader(target.row, target.strategy);
}

byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => byId("reader").close());
byId("reader").addEventListener("keydown", (event) => {
  if (event.target.closest("pre, input")) return;
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
byId("more").addEventListener("click", drawMore);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["task", "status", "order", "differ"]) byId(id).addEventListener("change", update);
byId("find").addEventListener("input", update);

data.tasks.forEach((name, code) => byId("task").append(element("option", name, { value: code })));
data.statuses.forEach((name, code) => byId("status").append(element("option", name.replace("_", " "), { value: code })));
const head = element("tr");
head.append(element("th", "item", { scope: "col" }), ...data.strategies.map((name) => element("th", name, { scope: "col" })));
byId("map").tHead.append(head);
const legend = [["s1", "right"], ["s5", "in part"], ["s0", "not right"], ["sx", "no doing of the model"]];
for (const [kind, text] of legend) byId("legend").append(element("span", "", { className: kind }), `${text} `);
const letters = data.statuses.map((name) => `${LETTERS[name] || "?"} ${name.replace("_", " ")}`).join(", ");
byId("legend").append(document.createTextNode(` ${letters}. Arrow keys move between cells, Enter opens one.`));
if (data.cases_left_out) byId("legend").append(document.createTextNode(` ${data.cases_left_out} failed cases have no details here; failures.jsonl has them all.`));
update();
const first = byId("map").querySelector("button");
if (first) first.tabIndex = 0;
