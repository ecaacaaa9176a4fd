// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// Where each of many ranks stands: in rows from left to right. Along the innermost axis of the job, as tensor parallelism,
// ranks are side by side with a gap behind each block; what the outermost axis sets apart, as stages of a pipeline, is one
// below the other.
export class RankGrid {
  static GAP = 4;

  // ranks: their numbers in order. axes: [name, size] of each, the innermost first, "" without a name; empty: not known.
  constructor(ranks, axes = []) {
    const world = axes.reduce((product, [, size]) => product * size, 1);
    this.axes = axes.length && ranks.at(-1) < world ? axes : [];
    this.ranks = ranks;
    this.places = new Map(ranks.map((rank, index) => [rank, this.axes.length ? rank : index]));
    this.count = this.axes.length ? world : ranks.length;   // places, those of ranks without a record among them
    this.cell = this.count > 4096 ? 6 : 14;
    const sizes = this.axes.map(([, size]) => size), side = 2 ** Math.ceil(Math.log2(this.count) / 2);   // about as many columns as rows
    this.block = sizes.length > 1 ? sizes[0] : this.count;
    this.stage = sizes.length > 2 ? this.count / sizes.at(-1) : this.count;
    this.columns = Math.min(this.block < this.count ? Math.ceil(side / this.block) * this.block : side, this.stage);
    this.rows = Math.ceil(this.stage / this.columns);   // of a stage
  }

  get width() { return this.#x(this.columns - 1) + this.cell; }
  get height() { return this.#stageHeight * (this.count / this.stage); }
  get #stageHeight() { return this.rows * this.cell + (this.stage < this.count ? RankGrid.GAP : 0); }

  // [left, top] of a rank.
  at(rank) {
    const place = this.places.get(rank) ?? rank, within = place % this.stage;
    return [this.#x(within % this.columns), Math.floor(place / this.stage) * this.#stageHeight + Math.floor(within / this.columns) * this.cell];
  }

  // The rank at a point, or undefined.
  rankAt(x, y) {
    const stage = Math.floor(y / this.#stageHeight), row = Math.floor((y - stage * this.#stageHeight) / this.cell);
    let column = 0;
    while (column < this.columns && this.#x(column) + this.cell <= x) column++;
    if (column >= this.columns || x < this.#x(column) || stage < 0 || row < 0 || row >= this.rows) return undefined;
    const within = row * this.columns + column, place = stage * this.stage + within;
    return within >= this.stage || place >= this.count ? undefined : this.axes.length ? place : this.ranks[place];
  }

  // [rank, top] of the first of each row.
  get labels() {
    return Array.from({length: this.count / this.stage * this.rows}, (_, row) => {
      const place = Math.floor(row / this.rows) * this.stage + row % this.rows * this.columns, rank = this.axes.length ? place : this.ranks[place];
      return [rank, this.at(rank)[1]];
    });
  }

  // "tp 3, dp 0", of the axes that have a name.
  coordinates(rank) {
    let rest = rank;
    return this.axes.map(([name, size]) => {
      const text = name ? `${name} ${rest % size}` : "";
      rest = Math.floor(rest / size);
      return text;
    }).filter(Boolean).join(", ");
  }

  get sentence() {
    const [inner, outer] = [this.axes[0], this.axes.at(-1)].map(axis => axis && (axis[0] || "a process group"));
    return `A row is ${this.columns} ranks` + (this.block < this.count ? `, with a gap behind each ${this.block} that are neighbours in ${inner}` : "") +
      (this.stage < this.count ? `, and one below each ${this.stage} of the same place in ${outer}` : "") + ".";
  }

  #x(column) { return column * this.cell + Math.floor(column / this.block) * RankGrid.GAP; }
}
