// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {$, digits, element, showHead, svg, tableRow} from "./dom.js";

export const html = `
  <header class="card top">
    <span id="badge" class="badge"></span>
    <h1 id="sentence"></h1>
    <div id="culprits" class="scroll" tabindex="0"></div>
  </header>
  <section class="card">
    <h2>Error of each call, over the kind of its operator</h2>
    <p><label>Measure <select id="measure"></select></label> <span class="soft" id="meaning"></span></p>
    <div class="scroll" tabindex="0"><svg id="chart" role="img" aria-label="Error of each call over the kind of its operator"></svg></div>
    <p id="picked" class="soft" aria-live="polite">Point at a dot, or step to it with the tabulator key, to see its call.</p>
  </section>
  <section class="card">
    <h2>Calls</h2>
    <p><label>Search <input id="search" type="search" placeholder="softmax"></label> <span class="soft" id="shown"></span></p>
    <div class="scroll" tabindex="0"><table id="calls"></table></div>
  </section>
  <section class="card" id="skipped-card">
    <h2>Not run again</h2>
    <div class="scroll" tabindex="0"><table id="skipped"></table></div>
  </section>`;

// Key, name, meaning, and the limit that a chart shows.
const MEASURES = [
  ["excess", "share of the a-priori bound", "largest error over its bound, from the dtype, the accumulator and the number of terms; above 1 it is not explained by rounding", 1],
  ["ratio", "times the trusted implementation", "error over that of a trusted implementation in the same dtype on the CPU", null],
  ["relative", "relative error", "2-norm of the error over that of the truth", null],
  ["ulp99", "ULP, 99th percentile", "units in the last place that 99 of 100 values stay within", null],
  ["ulp", "ULP, worst", "units in the last place, the worst value", null],
];
const MOST_ROWS = 500;
const TEXTS = new Set(["name", "place", "dtype", "reason"]);

export function show(data) {
  showHead(data.status === "good" ? "rounding" : "differ", data.status === "good" ? "agree" : "differ", data.sentence);
  if (data.operators.length) {
    $("culprits").append(element("table", {}, tableRow(["operator", "calls", "worst call", "why"], [], "", "th"),
      ...data.operators.map(one => tableRow([one.name, `${one.bad} of ${one.checked}`, one.call, one.reason], ["", "", "name"], "bad"))));
  }
  const choice = $("measure");
  for (const [key, title] of MEASURES) {
    if (data.calls.some(call => call[key] !== null)) choice.append(element("option", {value: key, textContent: title}));
  }
  choice.onchange = () => drawChart(data, choice.value);
  if (choice.options.length) drawChart(data, choice.value);
  $("search").oninput = () => showCalls(data, $("search").value);
  showCalls(data, "");
  $("skipped-card").hidden = !data.skipped.length;
  $("skipped").append(...data.skipped.map(([reason, count, first]) => tableRow([count, reason, first], ["number", "name", "name soft"])));
  $("footer").textContent = data.foot;
}

function drawChart(data, measure) {
  const [key, , meaning, limit] = MEASURES.find(one => one[0] === measure);
  $("meaning").textContent = meaning;
  const kinds = [...new Set(data.calls.map(call => call.operator))];
  const left = 70, right = 20, top = 12, below = 150, height = 360;
  const room = $("chart").parentElement.clientWidth - left - right; // as wide as the card, where names keep their place
  const step = Math.max(16, room / Math.max(1, kinds.length));
  const width = left + right + step * kinds.length;
  const values = data.calls.map(call => call[key]).filter(value => typeof value === "number" && value > 0);
  const logs = values.map(Math.log10).concat(limit ? [Math.log10(limit)] : []);
  const low = logs.length ? Math.floor(Math.min(...logs)) - 1 : -1;
  const high = logs.length ? Math.ceil(Math.max(...logs)) + (Math.max(...logs) % 1 === 0 ? 1 : 0) : 1;
  const atPower = power => top + (height - top) * (1 - (Math.max(low, power) - low) / (high - low));
  const y = value => value === "Infinity" ? top : atPower(typeof value === "number" && value > 0 ? Math.log10(value) : low);
  const chart = $("chart");
  chart.replaceChildren();
  chart.setAttribute("viewBox", `0 0 ${width} ${height + below}`);
  chart.style.minWidth = `${Math.min(width, 1200)}px`;
  chart.style.maxWidth = `${Math.max(width, 400)}px`;
  const every = Math.max(1, Math.round((high - low) / 8));
  for (let power = low; power <= high; power += every) {
    const at = atPower(power);
    const text = power === low ? "0" : power >= -3 && power <= 3 ? String(+(10 ** power).toPrecision(1)) : `1e${power}`;
    chart.append(svg("line", {class: "axis", x1: left, x2: width - right, y1: at, y2: at}),
      svg("text", {x: left - 8, y: at + 4, "text-anchor": "end"}, text));
  }
  if (limit) chart.append(svg("line", {class: "limit", x1: left, x2: width - right, y1: y(limit), y2: y(limit)}));
  kinds.forEach((kind, column) => {
    const x = left + step * (column + 0.5);
    chart.append(svg("text", {x, y: height + 14, "text-anchor": "end", transform: `rotate(-50 ${x} ${height + 14})`}, kind));
    const here = data.calls.filter(call => call.operator === kind && call[key] !== null);
    here.forEach((call, index) => {
      const spread = here.length > 1 ? (index / (here.length - 1) - 0.5) * step * 0.6 : 0;
      const dot = svg("circle", {cx: x + spread, cy: y(call[key]), r: call.bad ? 5 : 3.5, class: call.bad ? "bad" : "", tabindex: 0, role: "img", "aria-label": call.name});
      dot.onmouseenter = dot.onfocus = () => {
        $("picked").textContent = `${call.name}, step ${call.step}, rank ${call.rank}, ${call.place} ${call.dtype} [${call.shape.join(", ")}]: ${digits(call[key], "")}. ${call.reason}`;
      };
      chart.append(dot);
    });
  });
}

function showCalls(data, search) {
  const columns = [["call", "name"], ["place", "place"], ["dtype", "dtype"], ["relative error", "relative"], ["times trusted", "ratio"],
    ["of bound", "excess"], ["ULP worst", "ulp"], ["ULP 99 %", "ulp99"]];
  if (data.shares) columns.push(["introduced", "introduced"], ["inherited", "inherited"]);
  columns.push(["why", "reason"]);
  const kinds = columns.map(([, key]) => TEXTS.has(key) ? "name" : "number");
  const found = data.calls.filter(call => call.name.toLowerCase().includes(search.toLowerCase()));
  $("calls").replaceChildren(tableRow(columns.map(([title]) => title), kinds.map(kind => kind === "number" ? kind : ""), "", "th"),
    ...found.slice(0, MOST_ROWS).map(call =>
      tableRow(columns.map(([, key]) => TEXTS.has(key) ? call[key] ?? "" : digits(call[key], "")), kinds, call.bad ? "bad" : "")));
  const left = data.callsTotal - data.calls.length;
  $("shown").textContent = `${Math.min(found.length, MOST_ROWS)} of ${data.callsTotal} calls, the worst first` +
    (left > 0 ? `; ${left} with small errors are in calls.csv only` : "");
}
