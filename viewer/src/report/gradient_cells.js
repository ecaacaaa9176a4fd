// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The similarities of a rank, and their colours.
import {visible} from "./dom.js";

export const dark = matchMedia("(prefers-color-scheme: dark)");

// ---- colours

// Stops of a scale: [value, red, green, blue]. Two stops at one value make the edge that the rule draws.
export const SCALES = {
  similarity: {
    from: 0.5, to: 1, ticks: [[0.5, "\u2264 0.5"], [0.7, "0.7"], [0.85, "0.85"], [0.97, "0.97"], [1.009, "1"]],
    place: v => v < 0.97 ? (v - 0.5) / 0.47 * 0.78 : 0.78 + (v - 0.97) / 0.03 * 0.22,
    light: [[0.5, 92, 8, 74], [0.7, 176, 26, 66], [0.85, 226, 84, 38], [0.97, 250, 186, 84], [0.97, 138, 178, 228], [1, 231, 240, 251]],
    dark: [[0.5, 255, 122, 190], [0.7, 244, 62, 104], [0.85, 240, 106, 46], [0.97, 250, 190, 92], [0.97, 66, 110, 168], [1, 30, 44, 64]],
  },
  change: {
    from: -0.3, to: 0.3, ticks: [[-0.3, "\u2264 \u22120.3"], [-0.1, "\u22120.1"], [-0.03, "\u22120.03"], [0.03, "+0.03"], [0.3, "\u2265 +0.3"]],
    place: v => v < -0.03 ? (v + 0.3) / 0.27 * 0.45 : v < 0.03 ? 0.45 + (v + 0.03) / 0.06 * 0.25 : 0.7 + (v - 0.03) / 0.27 * 0.3,
    light: [[-0.3, 92, 8, 74], [-0.1, 208, 54, 48], [-0.03, 250, 186, 84], [-0.03, 240, 236, 226], [0, 246, 247, 249], [0.03, 226, 236, 248], [0.3, 70, 124, 200]],
    dark: [[-0.3, 255, 122, 190], [-0.1, 242, 84, 74], [-0.03, 250, 190, 92], [-0.03, 48, 44, 40], [0, 36, 41, 50], [0.03, 38, 52, 72], [0.3, 110, 168, 244]],
  },
};

function colourOf(stops, value) {
  if (value <= stops[0][0]) return stops[0].slice(1);
  for (let i = 1; i < stops.length; i++) {
    const [a, ...from] = stops[i - 1], [b, ...to] = stops[i];
    if (value < b || (i === stops.length - 1 && value <= b)) {
      const share = (value - a) / (b - a);
      return from.map((part, k) => Math.round(part + (to[k] - part) * share));
    }
  }
  return stops[stops.length - 1].slice(1);
}

// Colours by code: one look-up for each cell.
export class Palette {
  constructor(mode) {
    const scale = SCALES[mode], stops = scale[dark.matches ? "dark" : "light"];
    this.mode = mode;
    this.colours = [];
    for (let i = 0; i <= 2000; i++) {
      const value = mode === "similarity" ? i / 2000 : (i - 1000) / 1000;
      this.colours.push(colourOf(stops, value));
    }
    this.absent = dark.matches ? [24, 28, 35] : [255, 255, 255];
    this.missing = dark.matches ? [112, 120, 134] : [150, 157, 168];
  }
  // Rounded away from the rule's edge, so that 0.96999 and a fall of 0.03001 are on its other side.
  of(value) {
    const at = this.mode === "similarity" ? value * 2000 + 0.001 : value * 1000 + 1000 + 0.001;
    return this.colours[Math.max(0, Math.min(2000, Math.floor(at)))];
  }
}

// ---- data

export class Rank {
  constructor(raw, data) {
    this.data = data;
    Object.assign(this, raw);
    this.names = raw.names.map(visible);
    this.places = new Map(raw.names.map((name, index) => [name, index]));
    this.stepPlaces = new Map(raw.steps.map((step, index) => [step, index]));
    this.marks = new Set();          // name * steps + step of each difference
    this.firstFinding = new Map();   // name -> place of its first difference
    this.suspicious = new Set();
    for (const [kind, rank, step, parameter] of data.findings) {
      const name = rank === raw.rank ? this.places.get(parameter) : undefined;
      if (name === undefined) continue;
      this.suspicious.add(name);
      if (kind === "missing") continue;
      const place = this.stepPlaces.get(step);
      this.marks.add(name * raw.steps.length + place);
      this.firstFinding.set(name, Math.min(place, this.firstFinding.get(name) ?? Infinity));
    }
  }
  // 16-bit little-endian codes; decoded when the rank is first shown.
  get codes() {
    if (!this.decoded) {
      const bytes = Uint8Array.from(atob(this.cells), char => char.charCodeAt(0));
      this.decoded = new Uint16Array(bytes.buffer);
      this.cells = "";
    }
    return this.decoded;
  }
  code(name, step) { return this.codes[name * this.steps.length + step]; }
  value(name, step) {
    const code = this.code(name, step);
    return code > this.data.one ? null : code / this.data.one;
  }
  // Against the compared step before, as the rule sees it.
  change(name, step) {
    const value = this.value(name, step);
    for (let s = step - 1; value !== null && s >= 0; s--) {
      const before = this.value(name, s);
      if (before !== null) return value - before;
    }
    return null;
  }
  lowest(name) {
    let least = this.data.one;
    for (let s = 0; s < this.steps.length; s++) least = Math.min(least, this.code(name, s));
    return least;
  }
  line(name) { return this.steps.map((_, s) => this.value(name, s)); }
  colour(name, step, palette) {
    const code = this.code(name, step);
    if (code === this.data.absent) return palette.absent;
    if (code === this.data.missing) return palette.missing;
    if (palette.mode === "similarity") return palette.of(code / this.data.one);
    return palette.of(this.change(name, step) ?? 0);
  }
}
