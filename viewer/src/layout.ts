// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where the boxes stand. Modules hold what is inside them, in order of execution from top to bottom, and a node stands
// at the height of its counterpart on the other side: so one scroll position, one zoom and one jump fit both sides.
// Runs in a worker; nothing here knows the page.

export interface LayoutInput {
  roots: number[]; // target, reference; -1: none
  children: Record<number, number[]>; // of opened modules
  peers: Record<number, number>;
  before: Record<number, number>; // children that are not loaded, before and after those that are
  after: Record<number, number>;
}

/** Parents before what they hold, otherwise from top to bottom. Lengths in pixels at zoom 1. */
export interface Layout {
  id: Int32Array; // node; of a row "more": the node whose children it stands for
  side: Uint8Array;
  kind: Uint8Array; // ROW, OPEN, MORE_BEFORE, MORE_AFTER
  depth: Uint16Array;
  y: Float64Array;
  height: Float64Array;
  total: number;
}

export const ROW = 0;
export const OPEN = 1;
export const MORE_BEFORE = 2;
export const MORE_AFTER = 3;

export const ROW_HEIGHT = 26;
export const GAP = 3;
export const INDENT = 9;
const FOOT = 5;
const TOP = 8;

type Pair = [number, number];

/**
 * Children of two opened modules side by side: counterparts in one row, the rest alone. Where the order differs, a
 * node stands alone on each side.
 */
export function align(left: number[], right: number[], peers: Record<number, number>): Pair[] {
  const place = new Map(right.map((id, index) => [id, index]));
  const wanted = new Set<number>();
  for (const id of left) {
    const peer = peers[id];
    if (peer !== undefined && place.has(peer)) wanted.add(peer);
  }
  const pairs: Pair[] = [];
  let next = 0;
  for (const id of left) {
    const peer = peers[id];
    const at = peer === undefined ? undefined : place.get(peer);
    if (at === undefined || at < next) {
      pairs.push([id, -1]);
      continue;
    }
    while (next < at) {
      const other = right[next]!;
      if (wanted.has(other)) break;
      pairs.push([-1, other]);
      next += 1;
    }
    // Where the other side has a node first whose counterpart comes later here, both stand alone.
    if (next < at) {
      wanted.delete(peer!);
      pairs.push([id, -1]);
      continue;
    }
    pairs.push([id, peer!]);
    next += 1;
  }
  for (; next < right.length; next += 1) pairs.push([-1, right[next]!]);
  return mergeAlone(pairs, peers);
}

/** Rows that were left alone though both are there, in the same order: put together again. */
function mergeAlone(pairs: Pair[], peers: Record<number, number>): Pair[] {
  const result: Pair[] = [];
  for (const pair of pairs) {
    const last = result[result.length - 1];
    if (last && pair[0] < 0 && last[1] < 0 && peers[last[0]] === pair[1]) last[1] = pair[1];
    else result.push([...pair]);
  }
  return result;
}

export function layOut(input: LayoutInput): Layout {
  const id: number[] = [];
  const side: number[] = [];
  const kind: number[] = [];
  const depth: number[] = [];
  const y: number[] = [];
  const height: number[] = [];

  function emit(node: number, at: number, what: number, level: number, top: number, high: number): number {
    id.push(node);
    side.push(at);
    kind.push(what);
    depth.push(level);
    y.push(top);
    height.push(high);
    return id.length - 1;
  }

  function more(pair: Pair, count: Record<number, number>, what: number, level: number, top: number): number {
    let used = 0;
    for (const at of [0, 1] as const) {
      if (pair[at] >= 0 && input.children[pair[at]] && count[pair[at]]) {
        emit(pair[at], at, what, level, top, ROW_HEIGHT);
        used = ROW_HEIGHT + GAP;
      }
    }
    return used;
  }

  function place(pair: Pair, level: number, top: number): number {
    const open = pair.map((node) => (node >= 0 ? input.children[node] : undefined));
    const boxes = pair.map((node, at) =>
      node < 0 ? -1 : emit(node, at, open[at] ? OPEN : ROW, level, top, ROW_HEIGHT),
    );
    if (!open[0] && !open[1]) return ROW_HEIGHT;
    let bottom = top + ROW_HEIGHT + GAP;
    bottom += more(pair, input.before, MORE_BEFORE, level + 1, bottom);
    for (const inner of align(open[0] ?? [], open[1] ?? [], input.peers)) {
      bottom += place(inner, level + 1, bottom) + GAP;
    }
    bottom += more(pair, input.after, MORE_AFTER, level + 1, bottom);
    const high = bottom - top + FOOT - GAP;
    for (const at of [0, 1] as const) {
      if (boxes[at]! >= 0 && open[at]) height[boxes[at]!] = high;
    }
    return high;
  }

  const [left = -1, right = -1] = input.roots;
  const total = left < 0 && right < 0 ? 0 : place([left, right], 0, TOP) + 2 * TOP;
  return {
    id: Int32Array.from(id),
    side: Uint8Array.from(side),
    kind: Uint8Array.from(kind),
    depth: Uint16Array.from(depth),
    y: Float64Array.from(y),
    height: Float64Array.from(height),
    total,
  };
}
