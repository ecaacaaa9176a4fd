// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import {$, visible} from "./dom.js";

// Codes of the native report_rows().
export const SAME = -1, NONE = -2, INFINITE = -1, EXACT = 1, ONLY_IN_REFERENCE = -5;

// The rows of one pair, decoded when they are first looked at.
export class Rows {
  constructor(block, small) {
    this.small = small;
    const raw = JSON.parse($(`rows${block}`).textContent);
    this.strings = raw.strings.map(visible);
    this.lower = this.strings.map(text => text.toLowerCase());
    this.count = raw.row.length;
    this.row = Int32Array.from(raw.row);   // of the result table; where it stands in the picture is its place in these lists
    for (let i = 1; i < this.count; i++) this.row[i] += this.row[i - 1];
    for (const name of ["record", "item", "otherRecord", "otherItem", "type", "otherType", "result", "message", "match", "colour"]) {
      this[name] = Int32Array.from(raw[name]);
    }
    this.error = Float64Array.from(raw.error);
    this.relative = Float64Array.from(raw.relative);
    this.isBackward = this.strings.map(text => /\.(backward|parameters_grad)(\.|$)/.test(text));
    this.isGradient = this.strings.map(text => text.includes(".parameters_grad"));
    this.parts = this.strings.map(text => text.startsWith(".input") ? "input" : text.startsWith(".output") ? "output"
      : text.startsWith(".parameters") ? "parameter" : "");
  }
  name(i) { return this.strings[this.record[i]] + this.strings[this.item[i]]; }
  otherName(i) {
    if (this.isOfReference(i)) return this.name(i);
    if (this.otherRecord[i] === NONE) return "";
    return this.other("record", "otherRecord", i) + this.other("item", "otherItem", i);
  }
  otherTypeName(i) { return this.otherType[i] === NONE ? "" : this.other("type", "otherType", i); }
  other(own, other, i) { return this.strings[this[other][i] === SAME ? this[own][i] : this[other][i]]; }
  isOfReference(i) { return this.match[i] === ONLY_IN_REFERENCE; }
  part(i) { return this.isGradient[this.record[i]] ? "gradient" : this.parts[this.item[i]]; }
  backward(i) { return this.isBackward[this.record[i]] || this.isBackward[this.item[i]]; }
  // Where a number for "worst first" is needed: what has no measure is worst, what has no counterpart is last.
  weight(i) { return this.error[i] === INFINITE ? Infinity : this.error[i]; }
  contains(i, word) {
    return (this.lower[this.record[i]] + this.lower[this.item[i]]).includes(word) || this.lower[this.type[i]].includes(word)
      || this.lower[this.message[i]].includes(word) || this.lower[this.result[i]].includes(word)
      || (this.otherRecord[i] >= 0 && this.otherName(i).toLowerCase().includes(word));
  }
  fits(i, kind) {
    const error = this.error[i];
    if (kind === "differs") return error !== 0 && error !== NONE;
    if (kind === "beyond") return error === INFINITE || error >= this.small;
    if (kind === "fails") return this.colour[i] > 0 || ["Warning", "Different", "No"].includes(this.strings[this.result[i]]);
    if (kind === "alone") return error === NONE;
    return kind !== "renamed" || this.match[i] > EXACT;
  }
  get worst() {
    let best = -1, weight = 0;
    for (let i = 0; i < this.count; i++) {
      if (this.weight(i) > weight) { weight = this.weight(i); best = i; }
    }
    return best;
  }
}
