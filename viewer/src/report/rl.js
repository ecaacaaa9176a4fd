// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {$, digits, element, showHead, tableRow} from "./dom.js";

export const html = `
  <header class="card top">
    <span id="badge" class="badge"></span><h1 id="sentence"></h1>
    <dl class="inputs" id="inputs"></dl><ul id="notes" class="notes"></ul>
  </header>
  <section class="card" id="findings-card"><h2>Findings</h2><div class="scroll" tabindex="0"><ul id="findings"></ul></div></section>
  <section class="card" id="keys-card">
    <h2>Keys</h2><div class="scroll" tabindex="0"><table id="keys"></table></div>
    <h2>Steps</h2><p class="soft">Elements beyond the tolerance: none, some. Point at a cell for its numbers.</p>
    <div class="scroll" tabindex="0"><table class="steps" id="steps"></table></div>
  </section>
  <div id="log-probs"></div>
  <section class="card" id="weights-card"><h2>Weights</h2><p id="weights-sentence"></p><ul id="weights-notes"></ul>
    <div class="scroll" tabindex="0"><table id="weights"></table></div></section>`;

const share = value => value === 0 || value === 1 ? `${100 * value}%` : `${Math.min(Math.max(100 * value, 1e-4), 99.99).toPrecision(3)}%`;
const place = at => `step ${at.step}, rank ${at.rank}, micro-step ${at.micro_step}${at.entry ? `, entry ${at.entry}` : ""}`;
const items = texts => texts.map(text => element("li", {textContent: text}));
const table = (head, rows) => [element("thead", {}, tableRow(head, ["name"], "", "th")), element("tbody", {}, ...rows)];

export function show(data) {
  const agrees = ["same", "equal", "agree", "within"].some(word => String(data.verdict).startsWith(word));
  showHead(data.verdict, agrees ? "agree" : "differ", data.sentence, data.inputs);
  $("notes").append(...items(data.notes));
  $("findings-card").hidden = data.findings.length === 0;
  $("findings").append(...items(data.findings.map(([, text]) => text)));
  if (data.findingTotal > data.findings.length) $("findings").append(...items([`and ${data.findingTotal - data.findings.length} more in verdict.json`]));
  $("keys-card").hidden = data.keys.length === 0;
  $("keys").append(...table(["key", "compared as", "arrays", "differ", "equal", "beyond", "max abs", "max rel", "first", "table"], data.keys.map(keyRow)));
  $("steps").append(...data.keys.map(key => element("tr", {}, element("th", {textContent: key.key, className: "name"}), ...key.by_step.map(([step, beyond, most]) => {
    const cell = element("td", {title: `${key.key}, step ${step}: ${beyond} elements beyond, largest error ${digits(most)}`});
    cell.style.background = beyond ? "#e0683c" : "#4c9f70";
    return cell;
  }))));
  $("log-probs").append(...data.logProbs.map(one => logProbs(one, data)));
  $("weights-card").hidden = data.weights === null;
  if (!data.weights) return;
  $("weights-sentence").textContent = data.weights.sentence;
  $("weights-notes").append(...items(data.weights.notes));
  if (data.weights.rows.length) $("weights").append(...table(["parameter", "difference"], data.weights.rows.map(row => tableRow(row, ["name"]))));
}

function keyRow(key) {
  const first = key.first ? `${place(key.first.place)} [${key.first.index.join(", ")}]: ${digits(key.first.reference)}, ${digits(key.first.target)}` : "";
  return tableRow([key.key, key.kind.replace("_", " "), key.arrays, key.differing_arrays, share(key.same / Math.max(key.elements, 1)),
    share(key.beyond / Math.max(key.elements, 1)), digits(key.max_absolute), digits(key.max_relative), first, key.table || ""],
    ["name"], key.differing_arrays ? "bad" : "");
}

function logProbs(one, data) {
  const at = found => `${place(found.place)}, sample ${found.sample}, token ${found.token}: ${digits(found.reference)} and ${digits(found.target)}`;
  const lines = [
    `${one.tokens} tokens${one.masked ? `, ${one.masked} left out by ${one.mask}` : ""}`,
    `${share(one.share)} beyond ${data.tolerance}; mean ${digits(one.mean_absolute)}, largest ${digits(one.max_absolute)}`,
    `KL ${digits(one.k3)} (k3), ${digits(one.k1)} (k1); effective sample share ${digits(one.effective_share)}`,
    `probabilities: mean difference ${digits(one.mean_probability_difference)}, largest ${digits(one.max_probability_difference)}, correlation ${digits(one.correlation)}`,
    ...(one.first ? [`first beyond: ${at(one.first)}`] : []),
    ...(one.worst ? [`largest: ${at(one.worst)}`] : []),
  ];
  const total = Math.max(one.ratio_counts.reduce((a, b) => a + b, 0), 1), most = Math.max(...one.ratio_counts, 1);
  const bars = one.ratio_counts.map((count, i) => {
    const bar = element("span", {className: "bar"});
    bar.style.width = `calc(min(400px, 38vw) * ${count / most})`;
    return tableRow([data.ratioLabels[i], share(count / total), bar], ["", "", "name"]);
  });
  return element("section", {className: "card"}, element("h2", {textContent: `${one.reference} next to ${one.target}`}), element("ul", {}, ...items(lines)),
    element("table", {}, ...bars), element("p", {className: "soft", textContent: "Ratio of the probabilities, the second by the first."}));
}
