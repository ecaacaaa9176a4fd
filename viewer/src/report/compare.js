// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {INFINITE, NONE, ONLY_IN_REFERENCE, Rows} from "./compare_rows.js";
import {RankGrid} from "./rank_grid.js";
import {$, css, element, hideTip, lines, plural, showHead, showTiles, showTip, visible, whole} from "./dom.js";

export {html} from "./compare_html.js";

export function show(data) {
  const MATCHES = {1: "same name and place", 2: "aligned: another name, the same place", 3: "moved: same name, another place", 4: "fuzzy", 5: "mapped",
                   0: "no counterpart", [-1]: "no such call in the reference", [-2]: "the call has no such item in the reference",
                   [-3]: "another shape in the reference", [-4]: "a dtype that is not compared with this one",
                   [ONLY_IN_REFERENCE]: "only the reference has it"};
  const FAR = 10000;   // rounding errors; where the warm colour becomes a hot one
  const CLASSES = [
    ["equal", "equal"], ["rounding", `up to ${data.small} rounding errors`], ["beyond", "up to 10,000"], ["far", "more"],
    ["unmeasured", "differs without a measure (NaN on one side, flags, integers)"], ["alone", "no counterpart"],
  ];

  // ---- small things

  const short = value => value >= 1e6 || (value > 0 && value < 1e-3) ? value.toExponential(1) : (+value.toPrecision(3)).toLocaleString("en-US", {maximumFractionDigits: 6});
  const classOf = error => error === NONE ? 5 : error === INFINITE ? 4 : error === 0 ? 0 : error < data.small ? 1 : error < FAR ? 2 : 3;
  const pairName = pair => `step ${pair.step}, rank ${pair.rank}${pair.debug ? ", debug" : ""}`;

  function colours() {
    return CLASSES.map(([name]) => css(`--${name}`));
  }

  function legend(box, classes) {
    box.replaceChildren(...classes.map(([name, text]) => {
      const mark = element("i", {});
      mark.style.background = `var(--${name})`;
      return element("span", {}, mark, text);
    }));
  }

  // A canvas as sharp as the screen; returns its context in pixels of the page.
  function prepared(canvas, width, height) {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    return context;
  }

  // ---- rows

  const decoded = new Map();   // by block; the last few only, for memory
  function rowsOf(pair) {
    if (pair.block === null) return null;
    if (!decoded.has(pair.block)) {
      if (decoded.size >= 4) decoded.delete(decoded.keys().next().value);
      decoded.set(pair.block, new Rows(pair.block, data.small));
    }
    return decoded.get(pair.block);
  }

  // `fitting`: rows that pass the filters, in order; `order`: the same as the table shows them; `from`, `to`: what the
  // chart shows, of the rows in order; `blamed`: the rows of culprits.
  const state = {pair: null, rows: null, fitting: new Uint32Array(0), order: new Uint32Array(0), from: 0, to: 1, picked: -1, blamed: []};

  // ---- header

  function showHeader() {
    const agree = data.status === "equal" || data.status === "rounding";
    document.title = `${agree ? "The runs agree" : "The runs differ"} \u2013 comparison`;
    showHead(data.status, agree ? "agree" : "differ", data.sentence, [["reference", data.inputs.reference], ["target", data.inputs.target]]);
    $("noise").textContent = data.noisy ? "Rounding makes results differ a little in many places. What is named below stands out of it." : "";
    if (agree) $("noise").textContent = data.noisy ? "Rounding makes results differ a little; nothing stands out of it." : "";
    const notes = [...data.notes, ...data.leftOut.map(([what, reason]) => `Not compared: ${what} (${reason})`)];
    if (data.leftOutTotal > data.leftOut.length) notes.push(`Not compared: ${whole(data.leftOutTotal - data.leftOut.length)} more, see verdict.json`);
    $("notes").append(...notes.map(note => element("li", {textContent: visible(note)})));
    const counts = data.counts;
    showTiles([["items of both", counts.matched], ["only in the target", counts.unmatched], ["only in the reference", counts.only_in_reference],
                   ["fail a threshold", counts.failing], [counts.steps === 1 ? "step" : "steps", counts.steps], [counts.ranks === 1 ? "rank" : "ranks", counts.ranks]]);
    $("footer").textContent = `Made by msprobe ${data.version}. All values are in the result tables; verdict.json has the answer for programs.`;
  }

  function showCulprits() {
    $("blame").classList.toggle("hidden", data.culprits.length === 0);
    $("culprits").append(...data.culprits.map(culprit => {
      const node = element("li", {},
        element("b", {textContent: visible(culprit.plain)}),
        element("span", {className: "soft", textContent: `step ${culprit.step}, rank ${culprit.rank}, confidence ${Math.round(culprit.confidence * 100)} %`}),
        element("span", {textContent: visible(culprit.reason)}));
      const metrics = Object.entries(culprit.metrics).map(([key, value]) =>
        `${METRICS[key] ?? key.replaceAll("_", " ")}: ${typeof value === "number" ? `${short(+(100 * value).toPrecision(2))} % of its size` : typeof value === "object" ? JSON.stringify(value) : value}`);
      if (metrics.length) node.append(element("span", {className: "soft", textContent: visible(metrics.join(" \u00b7 "))}));
      if (culprit.replay) node.append(element("span", {textContent: visible(`replay: ${culprit.replay.answer}: ${culprit.replay.reason}`)}));
      if (culprit.sumText) {
        node.append(element("details", {}, element("summary", {textContent: "Why: the sum"}), element("pre", {textContent: culprit.sumText, tabIndex: 0})));
      }
      if (culprit.stack.length) node.append(element("pre", {tabIndex: 0, textContent: culprit.stack.map(frameText).join("\n")}));
      const place = placeOf(culprit);
      if (place) {
        const button = element("button", {type: "button", textContent: "Show its row"});
        button.onclick = () => goTo(place, rows => rowOf(rows, culprit));
        node.append(button);
      }
      return node;
    }));
  }
  const METRICS = {distance: "differs by", explained: "explained by what goes in"};
  const frameText = frame => visible(frame.file === null ? frame.code
    : `${frame.file}:${frame.line} in ${frame.function}${frame.code ? `   ${frame.code}` : ""}`);
  const placeOf = culprit => (culprit.record || culprit.name) && data.pairs.find(pair =>
    pair.block !== null && pair.step === culprit.step && pair.rank === culprit.rank && !pair.debug);

  // The worst result of a culprit's record.
  function rowOf(rows, culprit) {
    const name = visible(culprit.record || culprit.name), ofReference = culprit.ofReference;
    let best = -1, weight = -3;
    for (let i = 0; i < rows.count; i++) {
      const own = rows.strings[rows.record[i]];
      if (own !== name && rows.name(i) !== name || rows.isOfReference(i) !== ofReference) continue;
      if (rows.weight(i) > weight) { weight = rows.weight(i); best = i; }
    }
    return best;
  }

  // ---- heat map

  const map = {left: 74, top: 22, steps: [], ranks: [], cell: 18, wide: 26, pairs: new Map(), grid: null, across: 1};

  function arrangeMap() {
    const sorted = key => [...new Set(data.pairs.map(pair => pair[key]))].sort((a, b) => a - b);
    map.steps = sorted("step");
    map.ranks = sorted("rank");
    map.pairs.clear();
    for (const pair of data.pairs) {
      const key = `${pair.step} ${pair.rank}`, other = map.pairs.get(key);
      if (!other || mapWeight(pair) > mapWeight(other)) map.pairs.set(key, pair);
    }
    $("map-card").classList.toggle("hidden", data.pairs.length < 2);
    map.grid = data.grid ? new RankGrid(map.ranks, data.axes) : null;
    $("map-note").classList.toggle("hidden", !map.grid);
    legend($("map-legend"), CLASSES.slice(0, 5));
    if (map.grid) {
      map.cell = map.wide = map.grid.cell;
      map.across = Math.max(1, Math.floor((Math.max($("map").clientWidth, 400) - 8) / gridWidth()));
      $("map-note").textContent = visible(map.grid.sentence) + (data.culprits[0] ? " What began has a frame; what is pale came with it or behind it." : "");
      return;
    }
    // A canvas has a largest size: thousands of steps get thin columns.
    map.cell = 18;
    map.wide = Math.max(1, Math.min(26, Math.floor(10000 / map.steps.length)));
  }
  const gridWidth = () => map.left + map.grid.width + 16, gridHeight = () => map.top + map.grid.height + 14;
  // Of the step with this number among all of them, and a rank.
  function cellAt(x, rank) {
    if (!map.grid) return [map.left + x * map.wide, map.top + map.ranks.indexOf(rank) * map.cell];
    const [left, top] = map.grid.at(rank);
    return [map.left + x % map.across * gridWidth() + left, map.top + Math.floor(x / map.across) * gridHeight() + top];
  }
  const hasBegun = pair => {
    const first = data.culprits[0];
    return first !== undefined && pair.step === first.step && (pair.rank === first.rank || (first.ranks ?? []).includes(pair.rank));
  };
  const isBehind = pair => data.culprits.length > 0 && pair.step >= data.culprits[0].step && !hasBegun(pair);
  const mapWeight = pair => pair.worst > 0 ? pair.worst : pair.unmeasured ? 1e-9 : 0;

  // The colours of the classes, deeper within a class the larger the difference. Integers and flags that differ are many in
  // some runs: what has a measure decides, where there is any.
  function heat(pair, palette, deepest) {
    if (!(pair.worst > 0)) return palette[pair.unmeasured ? 4 : pair.rows && !pair.matched ? 5 : 0];
    const own = classOf(pair.worst), size = Math.log10(pair.worst);
    if (own < 2) return palette[1];
    const [from, to, low, high] = own === 2 ? [palette[2], palette[3], Math.log10(data.small), Math.log10(FAR) + 1] : [palette[3], deepest, Math.log10(FAR), 9];
    return mixed(from, to, Math.min((size - low) / (high - low), 1));
  }
  function mixed(from, to, share) {
    const part = (colour, at) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
    return `rgb(${[0, 1, 2].map(at => Math.round(part(from, at) + (part(to, at) - part(from, at)) * share)).join(",")})`;
  }

  function drawMap() {
    if (data.pairs.length < 2) return;
    const canvas = $("cells"), palette = colours(), deepest = css("--deepest");
    const width = map.grid ? Math.min(map.steps.length, map.across) * gridWidth() : map.left + map.steps.length * map.wide + 32;
    const height = map.grid ? Math.ceil(map.steps.length / map.across) * gridHeight() : map.top + map.ranks.length * map.cell + 2;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = prepared(canvas, width, height), gap = map.cell > 4 ? 1 : 0;
    context.fillStyle = css("--soft");
    const labels = map.grid ? map.grid.labels : map.ranks.map(rank => [rank, cellAt(0, rank)[1] - map.top]);
    const every = Math.ceil(14 / map.cell), everyStep = map.grid ? 1 : Math.ceil(40 / map.wide);
    map.steps.forEach((step, x) => {
      const [left, top] = map.grid ? [map.left + x % map.across * gridWidth(), map.top + Math.floor(x / map.across) * gridHeight()] : [map.left + x * map.wide, map.top];
      context.textAlign = "left";
      if (x % everyStep === 0) context.fillText(x && !map.grid ? step : `step ${step}`, left, top - map.top + 14);
      context.textAlign = "right";
      if (x && !map.grid) return;
      labels.forEach(([rank, down], y) => y % every === 0 && context.fillText(`rank ${rank}`, left - 6, top + down + Math.min(map.cell, 14) - (map.grid ? 3 : 0)));
    });
    const framed = [];
    map.steps.forEach((step, x) => map.ranks.forEach(rank => {
      const pair = map.pairs.get(`${step} ${rank}`);
      if (!pair) return;
      const [left, top] = cellAt(x, rank);
      context.fillStyle = heat(pair, palette, deepest);
      context.globalAlpha = map.grid ? isBehind(pair) ? 0.4 : 1 : pair.block === null ? 0.5 : 1;
      context.fillRect(left, top, Math.max(map.wide - gap, 1), Math.max(map.cell - gap, 1));
      context.globalAlpha = 1;
      const began = map.grid && hasBegun(pair);
      if (began || pair.step === state.pair?.step && pair.rank === state.pair?.rank) framed.push([left, top, began]);
    }));
    for (const [left, top, began] of framed) {   // over their neighbours
      context.strokeStyle = css("--text");
      context.lineWidth = began ? 3 : 2;
      const out = began ? 2 : -1;
      context.strokeRect(left - out, top - out, Math.max(map.wide - gap + 2 * out, 1), Math.max(map.cell - gap + 2 * out, 1));
    }
  }

  function pairAt(event) {
    const box = $("cells").getBoundingClientRect(), x = event.clientX - box.left - map.left, y = event.clientY - box.top - map.top;
    if (!map.grid) return map.pairs.get(`${map.steps[Math.floor(x / map.wide)]} ${map.ranks[Math.floor(y / map.cell)]}`);
    const over = Math.floor(x / gridWidth()), down = Math.floor(y / gridHeight());
    if (over < 0 || over >= map.across || down < 0) return undefined;
    return map.pairs.get(`${map.steps[down * map.across + over]} ${map.grid.rankAt(x - over * gridWidth(), y - down * gridHeight())}`);
  }

  // ---- chart

  const chart = {left: 86, right: 12, top: 8, bottom: 22, band: 24, decades: 8, width: 0, height: 0};
  const LOW = -2;   // log10 of the lowest difference on the scale

  function chartX(row) { return chart.left + (row - state.from) / Math.max(state.to - state.from, 1) * (chart.width - chart.left - chart.right); }
  function chartRow(x) { return state.from + (x - chart.left) / (chart.width - chart.left - chart.right) * (state.to - state.from); }
  function chartY(error) {
    const bottom = chart.height - chart.bottom;
    if (error === 0) return bottom - chart.band / 4;
    if (error === NONE) return chart.top + chart.band * 0.4;
    if (error === INFINITE) return chart.top + chart.band * 1.3;
    const share = (Math.min(Math.max(Math.log10(error), LOW), chart.decades) - LOW) / (chart.decades - LOW);
    return bottom - chart.band - share * (bottom - chart.top - 3.5 * chart.band);
  }

  function firstAt(row) {   // index into `fitting` of the first row from there on
    let low = 0, high = state.fitting.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (state.fitting[middle] < row) low = middle + 1; else high = middle;
    }
    return low;
  }

  function drawChart() {
    const canvas = $("line");
    chart.width = canvas.clientWidth;
    chart.height = canvas.clientHeight;
    [canvas.dataset.from, canvas.dataset.to] = [state.from, state.to];
    const context = prepared(canvas, chart.width, chart.height);
    $("whole").classList.toggle("hidden", !state.pair || (state.from === 0 && state.to >= (state.rows?.count ?? 0)));
    if (!state.rows) return;
    chart.decades = Math.max(4, Math.ceil(Math.log10(Math.max(state.pair.worst, 1))));
    drawScale(context);
    drawBackward(context);
    drawPoints(context);
    drawMarks(context);
  }

  function drawScale(context) {
    const line = css("--line"), soft = css("--soft"), right = chart.width - chart.right;
    context.textAlign = "right";
    const mark = (y, text) => {
      context.fillStyle = line;
      context.fillRect(chart.left, y, right - chart.left, 1);
      context.fillStyle = soft;
      context.fillText(text, chart.left - 7, y + 4);
    };
    const every = Math.ceil((chart.decades - LOW) / 7);
    for (let power = LOW; power <= chart.decades; power += every) mark(chartY(10 ** power), power >= -2 && power <= 4 ? whole(10 ** power) : `1e${power}`);
    mark(chartY(0), "equal");
    mark(chartY(INFINITE), "no measure");
    mark(chartY(NONE), "alone");
    context.strokeStyle = soft;
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(chart.left, chartY(data.small));
    context.lineTo(right, chartY(data.small));
    context.stroke();
    context.setLineDash([]);
  }

  // A shade behind what ran backward: from the first such row to the last, forward calls in between left out.
  function drawBackward(context) {
    const rows = state.rows, end = chart.height - chart.bottom;
    context.fillStyle = css("--soft");
    context.textAlign = "left";
    let start = -1;
    const shade = (from, to) => {
      const x = Math.max(chartX(from), chart.left), width = Math.min(chartX(to), chart.width - chart.right) - x;
      if (width <= 0) return;
      context.globalAlpha = 0.09;
      context.fillRect(x, chart.top, width, end - chart.top);
      context.globalAlpha = 1;
      if (width > 70) context.fillText("backward", x + 4, chart.height - 6);
    };
    for (let i = 0; i < rows.count; i++) {
      const backward = rows.backward(i);
      if (backward && start < 0) start = i;
      if (!backward && start >= 0) { shade(start, i); start = -1; }
    }
    if (start >= 0) shade(start, rows.count);
    if (!rows.count || rows.backward(0)) return;
    context.fillText("forward", chart.left + 4, chart.height - 6);
  }

  // Each spot of the picture is painted once, however many rows fall on it.
  function drawPoints(context) {
    const rows = state.rows, palette = colours(), width = Math.ceil(chart.width), height = Math.ceil(chart.height);
    const painted = new Uint8Array(width * height);
    const first = firstAt(state.from), last = firstAt(state.to + 1), size = last - first > 2000 ? 3 : 5;
    let class_ = -1;
    for (let at = first; at < last; at++) {
      const i = state.fitting[at], error = rows.error[i];
      const x = Math.round(chartX(i)), y = Math.round(chartY(error)), place = y * width + x;
      const own = classOf(error) + 1;
      if (painted[place] === own) continue;
      painted[place] = own;
      if (own !== class_) { class_ = own; context.fillStyle = palette[own - 1]; }
      context.fillRect(x - size / 2, y - size / 2, size, size);
    }
  }

  function drawMarks(context) {
    const rows = state.rows;
    context.fillStyle = css("--culprit");
    for (const i of state.blamed) {
      const x = Math.round(chartX(i));
      if (x >= chart.left && x <= chart.width - chart.right) context.fillRect(x, chart.top, 1, chart.height - chart.top - chart.bottom);
    }
    if (state.picked >= 0 && state.picked >= state.from && state.picked <= state.to) {
      const x = chartX(state.picked), y = chartY(rows.error[state.picked]);
      context.strokeStyle = css("--text");
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(x, y, 6, 0, 2 * Math.PI);
      context.stroke();
    }
    if (drag && Math.abs(drag.to - drag.from) > 4) {
      context.fillStyle = css("--accent");
      context.globalAlpha = 0.18;
      context.fillRect(Math.min(drag.from, drag.to), chart.top, Math.abs(drag.to - drag.from), chart.height - chart.top - chart.bottom);
      context.globalAlpha = 1;
    }
  }

  function pointAt(event) {
    if (!state.rows) return -1;
    const box = $("line").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, reach = 12;
    const last = firstAt(chartRow(x + reach));
    let best = -1, least = reach * reach;
    for (let at = firstAt(chartRow(x - reach)); at < last; at++) {
      const i = state.fitting[at];
      const distance = (chartX(i) - x) ** 2 + (chartY(state.rows.error[i]) - y) ** 2;
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  }

  let drag = null;
  function chartDown(event) {
    const x = event.clientX - $("line").getBoundingClientRect().left;
    drag = {from: x, to: x};
    $("line").setPointerCapture(event.pointerId);
  }
  function chartMove(event) {
    if (drag) {
      drag.to = event.clientX - $("line").getBoundingClientRect().left;
      drawChart();
      return;
    }
    const i = pointAt(event);
    if (i < 0) { hideTip(); return; }
    showTip(event.clientX, event.clientY, ...lines([state.rows.name(i), errorText(state.rows.error[i])]));
  }
  function chartUp(event) {
    const moved = drag;
    drag = null;
    if (!moved) return;
    if (Math.abs(moved.to - moved.from) > 4) {
      const [from, to] = [moved.from, moved.to].sort((a, b) => a - b).map(chartRow);
      zoom(Math.max(0, Math.floor(from)), Math.min(state.rows.count, Math.ceil(to)));
      return;
    }
    const i = pointAt(event);
    if (i >= 0) pick(i);
  }
  function zoom(from, to) {
    state.from = from;
    state.to = Math.max(to, from + 1);
    drawChart();
  }

  // ---- table

  const ROW = 28;   // pixels, as in the style
  const COLUMNS = ["", "row", "name", "type and shape", "difference", "relative", "result", "message"];

  const errorText = error => error === NONE ? "no counterpart" : error === INFINITE ? "differs without a measure"
    : error === 0 ? "equal" : `${short(error)} rounding error${error === 1 ? "" : "s"}`;
  const errorCell = error => error === NONE ? "alone" : error === INFINITE ? "no measure" : error === 0 ? "equal" : short(error);
  const relativeCell = value => value === NONE ? "" : value === INFINITE ? "infinite" : short(value);

  // Which rows pass the filters. Runs over all rows once; only the rows in sight become elements.
  function filter() {
    const rows = state.rows;
    if (rows) {
      const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      const kind = $("kind").value, part = $("part").value, way = $("way").value;
      const fitting = new Uint32Array(rows.count);
      let count = 0;
      for (let i = 0; i < rows.count; i++) {
        if (!rows.fits(i, kind) || (part && rows.part(i) !== part) || (way && rows.backward(i) !== (way === "backward"))) continue;
        if (words.every(word => rows.contains(i, word))) fitting[count++] = i;
      }
      state.fitting = fitting.subarray(0, count);
    } else {
      state.fitting = new Uint32Array(0);
    }
    arrange();
  }

  function arrange() {
    const rows = state.rows;
    state.order = state.fitting;
    if ($("order").value === "worst" && rows) {
      const compare = (a, b) => rows.weight(a) === rows.weight(b) ? a - b : rows.weight(b) > rows.weight(a) ? 1 : -1;
      state.order = Uint32Array.from(state.fitting).sort(compare);
    }
    $("found").textContent = rows ? `${whole(state.order.length)} of ${plural(rows.count, "row")}` : "The rows of this pair are not in the page.";
    $("extent").style.height = `${state.order.length * ROW}px`;
    drawChart();
    showRows();
  }

  function showRows() {
    const box = $("rows"), many = Math.ceil(box.clientHeight / ROW) + 10;
    const first = Math.max(0, Math.min(Math.floor(box.scrollTop / ROW) - 5, state.order.length - many));
    const last = Math.min(state.order.length, first + many);
    const nodes = [];
    for (let at = first; at < last; at++) nodes.push(rowNode(state.order[at]));
    $("window").style.transform = `translateY(${first * ROW}px)`;
    $("window").replaceChildren(...nodes);
  }

  function rowNode(i) {
    const rows = state.rows, mark = element("i", {});
    mark.style.background = `var(--${CLASSES[classOf(rows.error[i])][0]})`;
    const node = element("div", {className: i === state.picked ? "row picked" : "row"}, mark,
      cell(rows.isOfReference(i) ? "" : whole(rows.row[i] + 1), "number soft"), cell(rows.name(i), "mono"), cell(rows.strings[rows.type[i]], "mono"), cell(errorCell(rows.error[i]), "number"),
      cell(relativeCell(rows.relative[i]), "number"), cell(rows.strings[rows.result[i]]), cell(rows.strings[rows.message[i]]));
    node.setAttribute("role", "row");
    node.onclick = () => pick(i);
    return node;
  }
  function cell(text, className = "") {
    const node = element("span", {textContent: text, className, title: text});
    node.setAttribute("role", "cell");
    return node;
  }

  function showDetail() {
    const rows = state.rows, i = state.picked, box = $("detail");
    box.replaceChildren();
    if (i < 0) return;
    const lines = [["Name", rows.isOfReference(i) ? "none" : rows.name(i)], ["Reference", rows.otherName(i) || "none"], ["Found by", MATCHES[rows.match[i]]],
      ["Type and shape", rows.strings[rows.type[i]]], ["In the reference", rows.otherTypeName(i)], ["Difference", errorText(rows.error[i])],
      ["Largest relative error", relativeCell(rows.relative[i])], ["Result", rows.strings[rows.result[i]]], ["Message", rows.strings[rows.message[i]]],
      ["Row of the table", rows.isOfReference(i) ? "none" : `${whole(rows.row[i] + 1)}${state.pair.table ? ` of ${visible(state.pair.table)}` : ""}`]];
    for (const [term, text] of lines) {
      if (text) box.append(element("dt", {textContent: term}), element("dd", {}, element("code", {textContent: text})));
    }
  }

  // Selects a row and brings it into sight, past the filters if need be.
  function pick(i) {
    state.picked = i;
    let at = state.order.indexOf(i);
    if (at < 0) {
      $("search").value = "";
      for (const id of ["kind", "part", "way"]) $(id).selectedIndex = 0;
      filter();
      at = state.order.indexOf(i);
    }
    if (i < state.from || i > state.to) zoom(0, state.rows.count);
    const box = $("rows"), top = at * ROW;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 3 * ROW) box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    drawChart();
    showRows();
    showDetail();
  }

  // ---- pairs

  function choose(pair) {
    state.pair = pair;
    state.rows = rowsOf(pair);
    state.picked = -1;
    const here = data.culprits.filter(culprit => placeOf(culprit) === pair);
    state.blamed = here.map(culprit => rowOf(state.rows, culprit)).filter(i => i >= 0);
    state.from = 0;
    state.to = Math.max(state.rows?.count ?? 0, 1);
    $("pair").value = data.pairs.indexOf(pair);
    $("cut").textContent = pair.block === null && pair.rows ? `The page has the rows of the ranks with a finding and of one beside them. Those of this pair, ${whole(pair.rows)}, are in ${pair.table ? visible(pair.table) : `the table that msprobe compare --steps ${pair.step} --ranks ${pair.rank} writes`}.`
      : pair.shown < pair.items ? `Shown are ${whole(pair.shown)} of ${whole(pair.items)} rows: the first that differ and those that are farthest off. All are in ${visible(pair.table ?? "the result table")}.` : "";
    $("rows").scrollTop = 0;
    showDetail();
    filter();
    drawMap();
  }

  function goTo(pair, find) {
    if (state.pair !== pair) choose(pair);
    const i = state.rows ? find(state.rows) : -1;
    if (i >= 0) pick(i);
    $("line-title").scrollIntoView({block: "start"});
  }

  function showPairs() {
    $("pair").append(...data.pairs.map((pair, index) => element("option", {
      value: index,
      textContent: pairName(pair) + (pair.differing ? ` (${plural(pair.differing, "row")} differ${pair.differing === 1 ? "s" : ""})` : ""),
    })));
    $("pair").parentElement.classList.toggle("hidden", data.pairs.length < 2);
  }

  // ---- start

  // At most one redraw for each picture of the screen.
  function soon(action) {
    let waiting = false;
    return () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; action(); });
    };
  }

  showHeader();
  showCulprits();
  showPairs();
  arrangeMap();
  legend($("legend"), CLASSES);
  $("head").append(...COLUMNS.map((text, at) => element("span", {textContent: text, className: [1, 4, 5].includes(at) ? "number" : "", role: text ? "columnheader" : "presentation"})));
  const fromTop = action => () => { $("rows").scrollTop = 0; action(); };
  $("search").oninput = soon(fromTop(filter));
  for (const id of ["kind", "part", "way"]) $(id).onchange = fromTop(filter);
  $("order").onchange = fromTop(arrange);
  $("rows").onscroll = soon(showRows);
  $("pair").onchange = () => choose(data.pairs[$("pair").value]);
  $("whole").onclick = () => zoom(0, Math.max(state.rows?.count ?? 0, 1));
  $("line").onpointerdown = chartDown;
  $("line").onpointermove = chartMove;
  $("line").onpointerup = chartUp;
  $("line").onpointercancel = () => { drag = null; drawChart(); };
  $("line").onpointerleave = hideTip;
  $("cells").onpointermove = event => {
    const pair = pairAt(event);
    if (!pair) { hideTip(); return; }
    const worst = pair.worst > 0 ? `worst difference: ${errorText(pair.worst)}` : pair.unmeasured ? "differs without a measure" : "nothing differs";
    showTip(event.clientX, event.clientY, ...lines([pairName(pair), ...(map.grid?.coordinates(pair.rank) ? [visible(map.grid.coordinates(pair.rank))] : []), worst, `${whole(pair.differing)} of ${plural(pair.rows, "row")} differ`]));
  };
  $("cells").onpointerleave = hideTip;
  $("cells").onclick = event => {
    const pair = pairAt(event);
    if (pair) goTo(pair, rows => rows.worst);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawMap(); drawChart(); });
  addEventListener("resize", soon(() => { arrangeMap(); drawMap(); drawChart(); showRows(); }));
  const blamed = data.culprits.length ? placeOf(data.culprits[0]) : null;
  const start = blamed ?? data.pairs.find(pair => pair.block !== null && pair.differing) ?? data.pairs.find(pair => pair.block !== null) ?? data.pairs[0];
  if (start) choose(start);
  if (state.blamed.length) pick(state.blamed[0]);
}
