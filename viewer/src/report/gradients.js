// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {$, css, element, hideTip, plural, showHead, showTiles, showTip, svg, visible, whole} from "./dom.js";
import {dark, Palette, Rank, SCALES} from "./gradient_cells.js";

export const html = `
  <header class="card top">
    <span id="badge" class="badge"></span>
    <h1 id="sentence"></h1>
    <p id="reason" class="soft"></p>
    <dl class="tiles" id="tiles"></dl>
    <dl class="inputs" id="inputs"></dl>
  </header>

  <section class="card" aria-labelledby="chart-title">
    <div class="bar">
      <h2 id="chart-title">Similarity of all gradients, step by step</h2>
      <label>Rank <select id="rank"></select></label>
    </div>
    <div class="chart" id="chart"></div>
    <div class="keys" id="keys"></div>
  </section>

  <section class="card" aria-labelledby="map-title">
    <div class="bar">
      <h2 id="map-title">Every parameter at every step</h2>
      <label><span class="unseen">Search</span><input id="search" type="search" placeholder="Search parameters"></label>
      <label><input id="only" type="checkbox"> suspicious only</label>
      <label>Order <select id="order">
        <option value="model">as in the model</option>
        <option value="lowest">lowest similarity first</option>
        <option value="earliest">earliest finding first</option>
      </select></label>
      <label>Colour <select id="mode">
        <option value="similarity">similarity</option>
        <option value="change">change to the step before</option>
      </select></label>
    </div>
    <div class="legend">
      <div class="scale"><canvas id="scale" width="600" height="24"></canvas><div id="ticks"></div></div>
      <span class="swatch"><i id="missing-swatch"></i>could not be compared</span>
      <span class="swatch"><i id="absent-swatch"></i>no gradient in either run</span>
      <span class="swatch"><i class="dot"></i>a finding</span>
    </div>
    <div class="mapframe" id="frame">
      <div class="map" id="map" tabindex="0" role="application" aria-roledescription="heat map"
           aria-label="Heat map of parameters and steps. Arrow keys move from cell to cell." aria-describedby="live">
        <canvas id="cells"></canvas><div id="extent"></div>
      </div>
      <canvas class="overview" id="overview" aria-hidden="true"></canvas>
    </div>
    <p class="note hidden" id="empty"></p>
    <p class="picked soft" id="picked"></p>
    <div class="unseen" id="live" aria-live="polite"></div>
  </section>

  <section class="card" aria-labelledby="findings-title">
    <div class="bar"><h2 id="findings-title">Findings</h2><span class="soft" id="findings-count"></span></div>
    <div class="tablebox"><table>
      <thead><tr id="heads"></tr></thead>
      <tbody id="rows"></tbody>
    </table></div>
    <p class="note hidden" id="no-findings">Nothing suspicious.</p>
    <p style="margin-top:12px"><button id="more" class="hidden" type="button"></button></p>
  </section>`;

export function show(data) {
  const LEAST = 0.97, DROP = 0.03, EPSILON = 1e-9;
  const KINDS = {low_at_first_step: "low at first step", drop: "drop", missing: "not compared", unreadable: "rank unreadable"};

  // ---- small things

  const fixed = value => value === null ? "" : value === 1 ? "1" : value.toFixed(4);
  const signed = value => (value > 0 ? "+" : value < 0 ? "\u2212" : "\u00b1") + Math.abs(value).toFixed(4);
  const rankName = rank => rank === null ? "" : `rank ${rank}`;

  const ranks = data.ranks.map(raw => new Rank(raw, data));
  let palette;
  const state = {rank: ranks[0], order: [], row: 0, step: 0, cursor: false, picked: null};

  // ---- header

  function showHeader() {
    document.title = `${KINDS_OF_VERDICT[data.verdict]} \u2013 gradient comparison`;
    $("reason").textContent = data.first ? visible(data.first.reason) : "Rule: similarity of at least 0.97 at the first step, no fall by more than 0.03.";
    const most = list => list.reduce((a, b) => Math.max(a, b), 0);
    showTiles([
      ["suspicious parameters", data.suspicious],
      ["findings", data.findingsTotal],
      ["gradients compared", data.ranks.reduce((sum, rank) => sum + rank.compared, 0)],
      ["parameters", most(data.ranks.map(rank => rank.parameters))],
      ["steps", most(data.ranks.map(rank => rank.steps.length))],
      ["ranks", data.ranks.length],
    ]);
    const rows = [["reference", data.inputs.reference], ["target", data.inputs.target]];
    for (const side of [1, 2]) {
      const alone = data[`onlyIn${side}`] ? [`${data[`onlyIn${side}`]} (not compared)`] : [];
      const parameters = most(data.ranks.map(rank => rank[`parametersOnlyIn${side}`]));
      if (parameters) alone.push(plural(parameters, "parameter"));
      if (alone.length) rows.push([`Only in the ${side === 1 ? "reference" : "target"}`, `${alone.join(", ")}; verdict.json names all`]);
    }
    showHead(...BADGES[data.verdict], data.sentence, rows);
    $("footer").textContent = `Made by msprobe ${data.version}. Exact values are in similarities.csv of each rank and in verdict.json.`;
  }
  const BADGES = {same: ["equal", "agree"], differs: ["differ", "differ"], incomplete: ["incomplete", "incomplete"]};
  const KINDS_OF_VERDICT = {same: "The runs agree", differs: "The runs differ", incomplete: "Not all could be compared"};

  function showRanks() {
    $("rank").append(...ranks.map((rank, index) => element("option", {
      value: index,
      textContent: (rank.rank === null ? "the only one" : rank.rank) + (rank.problem ? " (unreadable)"
        : rank.findings ? ` (${plural(rank.findings, "finding")})` : ""),
    })));
    $("rank").parentElement.classList.toggle("hidden", ranks.length < 2);
  }

  // ---- chart

  const chart = {left: 54, right: 14, top: 10, bottom: 26};

  function showChart() {
    const box = $("chart"), width = box.clientWidth, height = box.clientHeight, steps = state.rank.steps;
    box.replaceChildren();
    $("keys").replaceChildren();
    if (!steps.length) {
      box.append(element("p", {className: "note", textContent: visible(state.rank.problem ?? "Nothing to show.")}));
      return;
    }
    const lines = ranks.filter(rank => rank !== state.rank && rank.steps.length)
      .map(rank => ({steps: rank.steps, values: rank.summary, colour: css("--quiet-line"), width: 1}));
    lines.push({steps, values: state.rank.summary, colour: css("--accent"), width: 2.25,
                label: ranks.length > 1 ? `all parameters, rank ${state.rank.rank}` : "all parameters"});
    if (ranks.length > 1) lines[0].label = "all parameters, other ranks";
    if (state.picked !== null) {
      lines.push({steps, values: state.rank.line(state.picked), colour: css("--bad"), width: 2.25, label: state.rank.names[state.picked]});
    }
    const known = lines.flatMap(line => line.values).filter(value => value !== null);
    const least = known.reduce((a, b) => Math.min(a, b), 1);
    const low = [0.96, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0].find(edge => edge <= least + EPSILON) ?? 0;
    const first = lines.reduce((a, line) => Math.min(a, line.steps[0]), Infinity);
    const last = lines.reduce((a, line) => Math.max(a, line.steps[line.steps.length - 1]), -Infinity);
    const x = step => last === first ? (chart.left + width - chart.right) / 2
      : chart.left + (step - first) / (last - first) * (width - chart.left - chart.right);
    const y = value => chart.top + (1 - value) / (1 - low) * (height - chart.top - chart.bottom);
    const root = svg("svg", {role: "img", "aria-label": "Line chart of the similarity over the steps. The heat map and the table below give the values."});
    for (let i = 0; i <= 4; i++) {
      const value = low + (1 - low) * i / 4;
      root.append(svg("line", {x1: chart.left, x2: width - chart.right, y1: y(value), y2: y(value), stroke: css("--grid")}),
                  svg("text", {x: chart.left - 8, y: y(value) + 4, "text-anchor": "end"}, +value.toFixed(4)));
    }
    if (LEAST > low) {
      root.append(svg("line", {x1: chart.left, x2: width - chart.right, y1: y(LEAST), y2: y(LEAST), stroke: css("--soft"), "stroke-dasharray": "4 4"}));
    }
    for (const step of niceSteps(first, last, Math.max(2, Math.floor((width - 80) / 70)))) {
      root.append(svg("text", {x: x(step), y: height - 6, "text-anchor": "middle"}, step));
    }
    for (const line of lines) {
      root.append(svg("path", {d: pathOf(line, x, y), fill: "none", stroke: line.colour, "stroke-width": line.width,
                               "stroke-linejoin": "round", "stroke-linecap": "round"}));
      if (line.steps.length <= 40 && line.width > 1) {
        line.steps.forEach((step, i) => line.values[i] !== null
          && root.append(svg("circle", {cx: x(step), cy: y(line.values[i]), r: 3, fill: line.colour})));
      }
      if (line.label) {
        const key = element("i", {});
        key.style.color = line.colour;
        $("keys").append(element("span", {}, key, visible(line.label)));
      }
    }
    if (LEAST > low) {
      const key = element("i", {});
      key.style.borderTopStyle = "dashed";
      $("keys").append(element("span", {}, key, "0.97, the least at the first step"));
    }
    const cross = svg("line", {y1: chart.top, y2: height - chart.bottom, stroke: css("--soft"), visibility: "hidden"});
    root.append(cross);
    root.onpointermove = event => {
      const at = (event.clientX - root.getBoundingClientRect().left - chart.left) / (width - chart.left - chart.right);
      const step = steps.reduce((a, b) => Math.abs(b - first - at * (last - first)) < Math.abs(a - first - at * (last - first)) ? b : a);
      const i = state.rank.stepPlaces.get(step);
      cross.setAttribute("x1", x(step)); cross.setAttribute("x2", x(step)); cross.setAttribute("visibility", "visible");
      const shown = lines.filter(line => line.width > 1)
        .map(line => element("div", {}, `${line.values[i] === null ? "not compared" : fixed(line.values[i])}  ${visible(line.label)}`));
      showTip(event.clientX, event.clientY, element("b", {textContent: `step ${step}`}), ...shown);
    };
    root.onpointerleave = () => { cross.setAttribute("visibility", "hidden"); hideTip(); };
    box.append(root);
  }

  function pathOf(line, x, y) {
    let path = "", pen = "M";
    line.values.forEach((value, i) => {
      if (value === null) { pen = "M"; return; }
      path += `${pen}${x(line.steps[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    return path;
  }

  function niceSteps(first, last, most) {
    const raw = Math.max(1, (last - first) / most), power = 10 ** Math.floor(Math.log10(raw));
    const stride = Math.max(1, [1, 2, 5, 10].map(m => m * power).find(s => s >= raw));
    const result = [];
    for (let step = Math.ceil(first / stride) * stride; step <= last; step += stride) result.push(step);
    return result;
  }

  // ---- heat map

  const ROW = 20, HEAD = 26;
  const map = $("map"), cells = $("cells"), overview = $("overview");
  const layout = {label: 0, cell: 0, width: 0, height: 0};

  function arrange() {
    const rank = state.rank, wanted = $("search").value.trim().toLowerCase();
    let order = rank.names.map((_, index) => index).filter(name =>
      (!wanted || rank.names[name].toLowerCase().includes(wanted)) && (!$("only").checked || rank.suspicious.has(name)));
    if ($("order").value === "lowest") {
      const lowest = order.map(name => [rank.lowest(name), name]);
      order = lowest.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(pair => pair[1]);
    } else if ($("order").value === "earliest") {
      order.sort((a, b) => (rank.firstFinding.get(a) ?? 1e9) - (rank.firstFinding.get(b) ?? 1e9) || a - b);
    }
    state.order = order;
    state.row = Math.max(0, order.indexOf(state.picked));
    state.cursor = order.includes(state.picked);
    state.step = Math.min(state.step, Math.max(0, rank.steps.length - 1));
    map.scrollTop = 0;
    $("frame").classList.toggle("hidden", !order.length);
    $("empty").classList.toggle("hidden", order.length > 0);
    $("empty").textContent = rank.problem ? visible(rank.problem)
      : !rank.names.length ? "This page leaves out the cells of this rank to stay fast; its similarities.csv has them."
      : "No parameter matches.";
    measure();
  }

  function measure() {
    if (!state.order.length) return;
    const pen = cells.getContext("2d"), steps = state.rank.steps.length;
    pen.font = `12px ${css("--mono")}`;
    const longest = state.order.reduce((a, name) => Math.max(a, state.rank.names[name].length), 0);
    const outer = map.clientWidth || 600;
    layout.label = Math.ceil(Math.min(outer * 0.42, longest * pen.measureText("m").width + 22));
    layout.cell = Math.max(4, Math.min(80, Math.floor((outer - layout.label - 12) / steps)));
    const total = HEAD + state.order.length * ROW;
    map.style.height = `${Math.max(90, Math.min(total + 20, innerHeight * 0.72))}px`;
    layout.width = map.clientWidth;
    layout.height = map.clientHeight;
    const scale = devicePixelRatio || 1;
    cells.width = layout.width * scale; cells.height = layout.height * scale;
    cells.style.width = `${layout.width}px`; cells.style.height = `${layout.height}px`;
    $("extent").style.width = `${layout.label + steps * layout.cell + 8}px`;
    $("extent").style.height = `${total + 4}px`;
    paint();
    paintOverview();
  }

  let waiting = false;
  function paintSoon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); paintWindow(); });
  }

  const fill = colour => `rgb(${colour[0]} ${colour[1]} ${colour[2]})`;

  function paint() {
    if (!state.order.length) return;
    const pen = cells.getContext("2d"), scale = devicePixelRatio || 1, rank = state.rank;
    const {label, cell, width, height} = layout, gap = cell >= 8 ? 1 : 0;
    const firstRow = Math.floor(map.scrollTop / ROW), firstStep = Math.floor(map.scrollLeft / cell);
    const lastRow = Math.min(state.order.length, firstRow + Math.ceil(height / ROW) + 1);
    const lastStep = Math.min(rank.steps.length, firstStep + Math.ceil((width - label) / cell) + 1);
    const xOf = step => label + step * cell - map.scrollLeft, yOf = row => HEAD + row * ROW - map.scrollTop;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = css("--card");
    pen.fillRect(0, 0, width, height);
    for (let row = firstRow; row < lastRow; row++) {
      const name = state.order[row];
      for (let step = firstStep; step < lastStep; step++) {
        pen.fillStyle = fill(rank.colour(name, step, palette));
        pen.fillRect(xOf(step), yOf(row), cell - gap, ROW - 1);
        if (rank.marks.has(name * rank.steps.length + step)) mark(pen, xOf(step), yOf(row), cell - gap);
      }
    }
    if (state.cursor) {
      pen.strokeStyle = css("--text"); pen.lineWidth = 2;
      pen.strokeRect(xOf(state.step) - 1, yOf(state.row) - 1, cell - gap + 2, ROW + 1);
    }
    paintLabels(pen, firstRow, lastRow, yOf);
    paintSteps(pen, firstStep, lastStep, xOf);
  }

  // A light dot with a dark rim is seen on every colour.
  function mark(pen, x, y, width) {
    if (width < 7) return;
    pen.beginPath();
    pen.arc(x + width / 2, y + (ROW - 1) / 2, 3, 0, 7);
    pen.fillStyle = "#fff"; pen.fill();
    pen.lineWidth = 1; pen.strokeStyle = "rgb(20 20 30)"; pen.stroke();
  }

  function paintLabels(pen, firstRow, lastRow, yOf) {
    pen.fillStyle = css("--card");
    pen.fillRect(0, 0, layout.label, layout.height);
    pen.font = `12px ${css("--mono")}`;
    pen.textAlign = "right"; pen.textBaseline = "middle";
    const fits = Math.floor((layout.label - 18) / pen.measureText("m").width);
    for (let row = firstRow; row < lastRow; row++) {
      const name = state.order[row], text = state.rank.names[name];
      if (name === state.picked) {
        pen.fillStyle = css("--accent-soft");
        pen.fillRect(0, yOf(row), layout.label - 4, ROW - 1);
      }
      pen.fillStyle = css(state.rank.firstFinding.has(name) ? "--text" : "--soft");
      pen.fillText(text.length > fits ? "\u2026" + text.slice(1 - fits) : text, layout.label - 10, yOf(row) + ROW / 2);
    }
  }

  function paintSteps(pen, firstStep, lastStep, xOf) {
    pen.fillStyle = css("--card");
    pen.fillRect(0, 0, layout.width, HEAD);
    pen.fillStyle = css("--soft");
    pen.font = `12px system-ui, sans-serif`;
    pen.textAlign = "center"; pen.textBaseline = "middle";
    const steps = state.rank.steps;
    const every = Math.max(1, Math.ceil((pen.measureText(steps[steps.length - 1]).width + 14) / layout.cell));
    const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500].find(s => s >= every) ?? every;
    for (let step = Math.ceil(firstStep / stride) * stride; step < lastStep; step += stride) {
      const x = xOf(step) + layout.cell / 2;
      if (x > layout.label) pen.fillText(steps[step], x, HEAD / 2);
    }
    pen.textAlign = "right";
    pen.fillStyle = css("--card");
    pen.fillRect(0, 0, layout.label - 2, HEAD);
    pen.fillStyle = css("--soft");
    pen.fillText("step", layout.label - 10, HEAD / 2);
  }

  // The whole matrix, worst cell of each pixel, with a frame around the part in view.
  let overviewImage = null;
  function paintOverview() {
    const rank = state.rank, rows = state.order.length, steps = rank.steps.length;
    const width = Math.min(86, steps), height = Math.min(Math.round(layout.height), rows);
    const worst = new Float64Array(width * height).fill(Infinity), picks = new Int32Array(width * height);
    for (let row = 0; row < rows; row++) {
      const y = Math.floor(row * height / rows), name = state.order[row];
      for (let step = 0; step < steps; step++) {
        const pixel = y * width + Math.floor(step * width / steps), code = rank.code(name, step);
        // Of what lies under one pixel the lowest similarity shows, then what could not be compared, then what is absent.
        const weight = palette.mode === "change" && code <= data.one ? rank.change(name, step) ?? 0 : code;
        const order = code > data.one ? code : weight;
        if (order < worst[pixel]) { worst[pixel] = order; picks[pixel] = row * steps + step; }
      }
    }
    const image = new ImageData(width, height);
    picks.forEach((pick, pixel) => image.data.set([...rank.colour(state.order[Math.floor(pick / steps)], pick % steps, palette), 255], pixel * 4));
    overviewImage = new OffscreenCanvas(width, height);
    overviewImage.getContext("2d").putImageData(image, 0, 0);
    paintWindow();
  }

  function paintWindow() {
    if (!overviewImage || !state.order.length) return;
    const scale = devicePixelRatio || 1, width = 86, height = map.offsetHeight - 2;
    overview.width = width * scale; overview.height = height * scale;
    overview.style.height = `${height + 2}px`;
    const pen = overview.getContext("2d");
    pen.scale(scale, scale);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(overviewImage, 0, 0, width, height);
    const rows = state.order.length * ROW, columns = state.rank.steps.length * layout.cell;
    const w = Math.min(1, (layout.width - layout.label) / columns), h = Math.min(1, (layout.height - HEAD) / rows);
    if (w < 1 || h < 1) {
      pen.strokeStyle = css("--text"); pen.lineWidth = 1.5;
      pen.strokeRect(map.scrollLeft / columns * width + 1, map.scrollTop / rows * height + 1,
                     Math.max(6, w * width - 2), Math.max(6, h * height - 2));
    }
  }

  function cellAt(event) {
    const box = map.getBoundingClientRect();
    const x = event.clientX - box.left - map.clientLeft, y = event.clientY - box.top - map.clientTop;
    if (y < HEAD || y > layout.height || x > layout.width) return null;
    const row = Math.floor((y - HEAD + map.scrollTop) / ROW);
    const step = x < layout.label ? -1 : Math.floor((x - layout.label + map.scrollLeft) / layout.cell);
    return row < state.order.length && step < state.rank.steps.length ? {row, step} : null;
  }

  function describe(name, step) {
    const rank = state.rank, code = rank.code(name, step);
    if (code === data.absent) return "no gradient in either run";
    if (code === data.missing) return "could not be compared";
    const change = rank.change(name, step);
    return `similarity ${fixed(code / data.one)}` + (change === null ? "" : `, ${signed(change)} against the step before`);
  }

  map.addEventListener("scroll", () => { hideTip(); paintSoon(); });
  map.addEventListener("pointermove", event => {
    const at = cellAt(event);
    if (!at) return hideTip();
    const name = state.order[at.row], text = element("b", {textContent: state.rank.names[name]});
    if (at.step < 0) return showTip(event.clientX, event.clientY, text);
    showTip(event.clientX, event.clientY, text,
            element("div", {textContent: `step ${state.rank.steps[at.step]}${state.rank.rank === null ? "" : `, rank ${state.rank.rank}`}`}),
            element("div", {textContent: describe(name, at.step)}));
  });
  map.addEventListener("pointerleave", hideTip);
  map.addEventListener("click", event => {
    const at = cellAt(event);
    if (at) select(at.row, Math.max(0, at.step));
  });
  map.addEventListener("keydown", event => {
    const page = Math.max(1, Math.floor((layout.height - HEAD) / ROW) - 1);
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-page, 0],
                   PageDown: [page, 0], Home: [0, -1e9], End: [0, 1e9]};
    const move = moves[event.key];
    if (!move || !state.order.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(state.row + move[0], state.step + move[1]);
  });
  overview.addEventListener("click", event => {
    const box = overview.getBoundingClientRect();
    map.scrollTo((event.clientX - box.left) / box.width * state.rank.steps.length * layout.cell - (layout.width - layout.label) / 2,
                 (event.clientY - box.top) / box.height * state.order.length * ROW - layout.height / 2);
  });

  function select(row, step) {
    const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
    state.row = clamp(row, state.order.length);
    state.step = clamp(step, state.rank.steps.length);
    state.cursor = true;
    state.picked = state.order[state.row];
    const top = state.row * ROW, left = state.step * layout.cell, {height, width, label, cell} = layout;
    map.scrollTop = keepInView(map.scrollTop, top, ROW, height - HEAD);
    map.scrollLeft = keepInView(map.scrollLeft, left, cell, width - label);
    const text = `step ${state.rank.steps[state.step]}: ${describe(state.picked, state.step)}`;
    $("picked").replaceChildren(element("code", {textContent: state.rank.names[state.picked]}), ` \u2013 ${text}`);
    $("live").textContent = `${state.rank.names[state.picked]}, ${text}`;
    paint();
    paintWindow();
    showChart();
  }

  // Where to scroll to: by as little as needed for the next cell, to the middle for one far away.
  function keepInView(scroll, start, size, room) {
    if (start < scroll - 2 * size || start > scroll + room + size) return start - room / 2;
    return Math.min(Math.max(scroll, start + size - room), start);
  }

  function showLegend() {
    const scale = SCALES[$("mode").value], canvas = $("scale"), pen = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x++) {
      const share = x / (canvas.width - 1);
      let low = scale.from, high = scale.to;    // the value at this place: `place` only grows
      for (let i = 0; i < 30; i++) {
        const middle = (low + high) / 2;
        if (scale.place(middle) <= share) low = middle; else high = middle;
      }
      pen.fillStyle = fill(palette.of(high));
      pen.fillRect(x, 0, 1, canvas.height);
    }
    $("ticks").replaceChildren(...scale.ticks.map(([value, text]) => {
      const tick = element("span", {textContent: text});
      if (value > scale.from) tick.style.left = `${Math.min(1, scale.place(value)) * 100}%`;
      return tick;
    }));
    $("missing-swatch").style.background = fill(palette.missing);
    $("absent-swatch").style.background = fill(palette.absent);
  }

  // ---- findings

  // A key of null stands at the end, whichever way the column is sorted.
  const COLUMNS = [
    {label: "Step", key: f => f[2], number: true},
    {label: "Rank", key: f => f[1], number: true},
    {label: "Parameter", key: f => f[3]},
    {label: "What", key: f => KINDS[f[0]]},
    {label: "Similarity", key: f => f[4], number: true},
    {label: "Before", key: f => f[5], number: true},
    {label: "Change", key: f => f[4] === null ? null : f[4] - (f[5] ?? 1), number: true},
    {label: "Reason", key: f => f[6], className: "reason"},
  ];
  const table = {column: null, down: false, limit: 100};

  function showHeads() {
    $("heads").replaceChildren(...COLUMNS.map((column, index) => {
      const button = element("button", {type: "button", textContent: column.label});
      button.onclick = () => {
        table.down = table.column === index && !table.down;
        table.column = index;
        showFindings();
      };
      const head = element("th", {scope: "col", className: `${column.number ? "number" : ""} ${column.className ?? ""}`}, button);
      if (table.column === index) head.ariaSort = table.down ? "descending" : "ascending";
      return head;
    }));
  }

  function showFindings() {
    showHeads();
    const wanted = $("search").value.trim().toLowerCase();
    const found = data.findings.filter(f => !wanted || (f[3] ?? "").toLowerCase().includes(wanted));
    if (table.column !== null) {
      const key = COLUMNS[table.column].key, way = table.down ? -1 : 1;
      found.sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return x < y ? -way : x > y ? way : 0;
      });
    }
    $("rows").replaceChildren(...found.slice(0, table.limit).map(findingRow));
    $("no-findings").classList.toggle("hidden", found.length > 0);
    $("no-findings").textContent = wanted && data.findings.length ? "No finding matches the search." : "Nothing suspicious.";
    $("more").classList.toggle("hidden", found.length <= table.limit);
    $("more").textContent = `Show more (${whole(found.length - table.limit)} left)`;
    $("findings-count").textContent = !data.findings.length ? "" : data.findingsTotal > data.findings.length
      ? `the first ${whole(data.findings.length)} of ${whole(data.findingsTotal)}; verdict.json has all` : plural(found.length, "finding");
  }

  function findingRow(finding) {
    const [kind, rank, step, parameter, similarity, previous, reason] = finding;
    const number = text => element("td", {className: "number", textContent: text});
    const jump = element("button", {type: "button", textContent: visible(parameter ?? "all"), title: "show in the heat map"});
    jump.onclick = () => goTo(rank, parameter, step);
    return element("tr", {}, number(step ?? ""), number(rank ?? ""), element("td", {className: "parameter"}, jump),
      element("td", {className: "kind", textContent: KINDS[kind]}), number(fixed(similarity)), number(fixed(previous)),
      number(similarity === null ? "" : signed(COLUMNS[6].key(finding))),
      element("td", {className: "reason soft", textContent: visible(reason)}));
  }

  function goTo(rank, parameter, step) {
    const index = ranks.findIndex(one => one.rank === rank);
    if (ranks[index] !== state.rank) { $("rank").value = index; changeRank(); }
    const name = state.rank.places.get(parameter);
    if (name !== undefined && !state.order.includes(name)) {
      $("search").value = "";
      $("only").checked = false;
      showFindings();
      arrange();
    }
    if (name !== undefined) select(state.order.indexOf(name), state.rank.stepPlaces.get(step));
    $("map-title").scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
    map.focus({preventScroll: true});
  }

  // ---- together

  function changeRank() {
    state.rank = ranks[$("rank").value];
    state.picked = null;
    $("picked").textContent = "";
    arrange();
    showChart();
  }

  function recolour() {
    palette = new Palette($("mode").value);
    showLegend();
    measure();
    showChart();
  }

  $("rank").onchange = changeRank;
  $("search").oninput = () => { table.limit = 100; arrange(); showFindings(); };
  $("only").onchange = arrange;
  $("order").onchange = arrange;
  $("mode").onchange = recolour;
  $("more").onclick = () => { table.limit += 500; showFindings(); };
  dark.addEventListener("change", recolour);
  addEventListener("resize", () => { measure(); showChart(); });

  palette = new Palette("similarity");
  showHeader();
  showRanks();
  if (data.first) $("rank").value = Math.max(0, ranks.findIndex(rank => rank.rank === data.first.rank));
  if (!state.rank.suspicious.size && !ranks.some(rank => rank.suspicious.size)) $("only").parentElement.classList.add("hidden");
  showLegend();
  changeRank();
  const firstName = data.first ? state.rank.places.get(data.first.parameter) : undefined;
  if (firstName !== undefined) {
    select(firstName, state.rank.stepPlaces.get(data.first.step));
  } else {
    $("picked").textContent = "Click a cell, or use the arrow keys, to see a parameter in the chart above.";
  }
  showFindings();
}
