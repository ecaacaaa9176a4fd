// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {$, digits, element, showHead, tableRow} from "./dom.js";

export const html = `
  <header class="card top">
    <span id="badge" class="badge"></span>
    <h1 id="sentence"></h1>
    <dl class="inputs" id="inputs"></dl>
    <ul id="notes" class="notes"></ul>
  </header>
  <section class="card" id="only-card"><h2>Only on one side</h2><div class="scroll" id="only" tabindex="0"></div></section>
  <section class="card">
    <h2>Layers and kinds of parameters</h2>
    <p class="soft">Colour: l2 distance in units of the norm. Click a cell to see its parameters. <span id="keys"></span></p>
    <div class="scroll" tabindex="0"><table class="map" id="map"></table></div>
  </section>
  <section class="card">
    <h2>Parameters</h2>
    <p><input id="filter" placeholder="part of a name" aria-label="part of a name">
      <label><input type="checkbox" id="all"> also equal ones</label> <span class="soft" id="count"></span></p>
    <div class="scroll" tabindex="0"><table class="rows"><thead><tr id="head"></tr></thead><tbody id="body"></tbody></table></div>
  </section>`;

// A row of the data, by place.
const [NAME, LAYER, KIND, EQUAL, DISTANCE, L2, COS, ABSOLUTE, RELATIVE, SHARE, MEANS, NANS, INFS, SHAPE, DTYPE] = Array(15).keys();
// From 1e-8 to 1 and beyond, on a logarithmic scale.
const STEPS = [[0, "equal", "#4c9f70"], [1e-6, "below 1e-6", "#c9e2a6"], [1e-4, "below 1e-4", "#f2e394"],
  [1e-2, "below 0.01", "#f2b15c"], [1, "below 1", "#e0683c"], [Infinity, "1 and more, or not comparable", "#a3123a"]];
const COLUMNS = [["parameter", row => row[NAME]], ["l2 / norm", row => row[DISTANCE]], ["l2", row => row[L2]],
  ["cos", row => row[COS]], ["max abs", row => row[ABSOLUTE]], ["max rel", row => row[RELATIVE]], ["equal", row => row[SHARE]],
  ["mean, reference", row => row[MEANS][0]], ["mean, target", row => row[MEANS][1]], ["NaN", row => row[NANS]],
  ["Inf", row => row[INFS]], ["shape", row => JSON.stringify(row[SHAPE])], ["dtype", row => row[DTYPE]]];
const MOST_ROWS = 2000;

const size = value => value === null || typeof value === "string" ? Infinity : value; // NaN and infinities are words
const badness = row => row[EQUAL] ? 0 : Math.max(size(row[DISTANCE]), 1e-300);
const colour = distance => STEPS.find(([limit]) => distance === 0 ? limit === 0 : limit > 0 && (distance < limit || limit === Infinity))[2];
const percent = share => share === null ? digits(share) : `${share === 1 ? "100" : Math.min(share * 100, 99.9).toFixed(1)}%`;

export function show(data) {
  showHead(data.same ? "equal" : data.failing ? "differ" : "within the limits", data.failing ? "differ" : "agree", data.sentence,
    data.sides.map((side, i) => [i ? "target" : "reference", side.path, element("span", {className: "soft", textContent: ` (${aboutSide(side)})`})]));
  const notes = [...data.notes, ...data.sides.flatMap(side => side.warnings),
    ...data.sides.flatMap(side => side.leftOut.map(one => `${one[0]} is not compared: ${one[1]}`))];
  $("notes").append(...notes.map(note => element("li", {textContent: note})));
  $("only-card").hidden = !(data.onlyTotal[0] + data.onlyTotal[1]);
  data.only.forEach((names, i) => {
    if (!names.length) return;
    $("only").append(element("p", {className: "soft", textContent: `${i ? "target: " : "reference: "}${data.onlyTotal[i]} parameters`}),
      element("ul", {}, ...names.map(name => element("li", {}, element("code", {textContent: name})))));
  });
  for (const [, text, shade] of STEPS) {
    const key = element("span", {className: "key"});
    key.style.background = shade;
    $("keys").append(key, text);
  }
  const table = new Parameters(data);
  showMap(data, table);
  table.show();
}

function aboutSide(side) {
  const sizes = ["TP", "PP", "EP", "VPP"].map((name, k) => side.sizes[k] > 1 ? name + side.sizes[k] : "").filter(Boolean);
  const about = [side.kind, ...sizes, `${side.parameters} parameters`];
  if (side.iteration !== null) about.push(`iteration ${side.iteration}`);
  return about.join(", ");
}

// The worst parameter of each layer and kind.
function showMap(data, table) {
  const cells = new Map();
  for (const row of data.rows) {
    const key = `${row[LAYER]}\n${row[KIND]}`, known = cells.get(key);
    if (!known || badness(row) > badness(known)) cells.set(key, row);
  }
  const kinds = [...new Set(data.rows.map(row => row[KIND]))];
  $("map").append(element("thead", {}, tableRow(["layer", ...kinds], [], "", "th")));
  $("map").append(element("tbody", {}, ...[...new Set(data.rows.map(row => row[LAYER]))].map(layer =>
    element("tr", {}, element("th", {textContent: layer}), ...kinds.map(kind => {
      const row = cells.get(`${layer}\n${kind}`), cell = element("td", {});
      if (row) {
        cell.style.background = colour(badness(row));
        cell.title = row[NAME] + (row[EQUAL] ? ": equal" : `: l2 / norm ${digits(row[DISTANCE])}`);
        cell.onclick = () => table.find(`${layer}.`);
      }
      return cell;
    })))));
}

class Parameters {
  constructor(data) {
    this.data = data;
    this.column = null; // the worst first
    this.descending = true;
    $("filter").oninput = $("all").onchange = () => this.show();
    $("head").append(...COLUMNS.map(([title], i) => {
      const cell = element("th", {textContent: title, className: i === 0 ? "name" : ""});
      cell.onclick = () => this.sortBy(i);
      return cell;
    }));
  }
  sortBy(column) {
    this.descending = this.column === column ? !this.descending : column > 0;
    this.column = column;
    this.show();
  }
  find(text) {
    $("filter").value = text;
    $("all").checked = true;
    this.show();
  }
  key(row) {
    if (this.column === null) return badness(row);
    const found = COLUMNS[this.column][1](row);
    return found === null ? -Infinity : found === "NaN" || found === "Infinity" ? Infinity : found;
  }
  show() {
    const filter = $("filter").value, all = $("all").checked, way = this.descending ? -1 : 1;
    const found = this.data.rows.filter(row => (all || !row[EQUAL]) && row[NAME].includes(filter)).map(row => [this.key(row), row]);
    found.sort(([a], [b]) => a < b ? -way : a > b ? way : 0);
    $("count").textContent = `${found.length} of ${this.data.rowTotal}${found.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown` : ""}`;
    $("body").replaceChildren(...found.slice(0, MOST_ROWS).map(([, row]) => tableRow(COLUMNS.map(([title, get], i) =>
      i === 0 || i > 10 ? get(row) : title === "equal" ? percent(get(row)) : digits(get(row))), ["name"], row[EQUAL] ? "equal" : "")));
  }
}
