// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
export const html = `
  <header class="card top">
    <span id="badge" class="badge"></span>
    <h1 id="sentence"></h1>
    <p id="noise" class="soft"></p>
    <ul id="notes" class="notes"></ul>
    <dl class="tiles" id="tiles"></dl>
    <dl class="inputs" id="inputs"></dl>
  </header>

  <section class="card" id="blame" aria-labelledby="blame-title">
    <h2 id="blame-title">Where to look</h2>
    <ol id="culprits"></ol>
  </section>

  <section class="card" id="map-card" aria-labelledby="map-title">
    <div class="bar">
      <h2 id="map-title">Worst difference of each rank and step</h2>
      <span class="legend" id="map-legend"></span>
    </div>
    <div class="map" id="map"><canvas id="cells" role="img" aria-label="Heat map of ranks and steps. The list below names the same pairs."></canvas></div>
    <p class="soft hint" id="map-note"></p>
  </section>

  <section class="card" aria-labelledby="line-title">
    <div class="bar">
      <h2 id="line-title">Differences in the order of execution</h2>
      <button id="whole" type="button" class="hidden">Show all</button>
      <label>Step and rank <select id="pair"></select></label>
    </div>
    <p id="cut" class="soft"></p>
    <div class="line"><canvas id="line" role="img" aria-label="Differences in the order of execution, on a logarithmic scale. The table below has the same rows."></canvas></div>
    <div class="legend" id="legend"></div>
    <p class="soft hint">1 is a rounding error of the tensor's type, relative to the size of the tensor. Click a point to see its row; drag to look closer.</p>
  </section>

  <section class="card" aria-labelledby="table-title">
    <div class="bar">
      <h2 id="table-title">Rows</h2>
      <label><span class="unseen">Search</span><input id="search" type="search" placeholder="Search names, types, messages"></label>
      <label>Show <select id="kind">
        <option value="all">all</option>
        <option value="differs">that differ</option>
        <option value="beyond">beyond rounding</option>
        <option value="fails">that fail a threshold</option>
        <option value="alone">without a counterpart</option>
        <option value="renamed">paired under another name or place</option>
      </select></label>
      <label>Part <select id="part">
        <option value="">any</option>
        <option value="input">inputs</option>
        <option value="output">outputs</option>
        <option value="parameter">parameters</option>
        <option value="gradient">gradients of parameters</option>
      </select></label>
      <label>Direction <select id="way">
        <option value="">both</option>
        <option value="forward">forward</option>
        <option value="backward">backward</option>
      </select></label>
      <label>Order <select id="order">
        <option value="run">as it ran</option>
        <option value="worst">worst first</option>
      </select></label>
    </div>
    <p class="soft" id="found" aria-live="polite"></p>
    <div class="rows" id="rows" tabindex="0" role="table" aria-label="Rows of the result table">
      <div class="head row" role="row" id="head"></div>
      <div id="extent"><div id="window"></div></div>
    </div>
    <dl class="detail" id="detail"></dl>
  </section>`;
