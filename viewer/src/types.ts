// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What the server answers: see python/msprobe/viewer/api.py.

export type Side = 0 | 1;
/** "inf" and "-inf" stand for infinities, which JSON does not have. */
export type Value = number | "inf" | "-inf" | null;
export const UNMATCHED = -2;
export const NO_VALUE = -1;

export interface Below {
  nodes: number;
  counts: number[];
  unmatched: number;
  worst: Value;
  worstAt: number | null;
  strip: string; // a letter per piece: its class, "u" unmatched, "-" no value
}

export interface NodeRow {
  side: Side;
  pos: number | null;
  name: string;
  up?: number | null;
  depth: number;
  kind: number;
  children: number;
  micro: number;
  index: Value;
  overflow: number;
  peer: string | null;
  peerPos: number | null;
  how: string | null;
  links: number;
  merged: number;
  ulps: Value;
  value: Value;
  class: number;
  below?: Below;
}

export interface ChildList {
  side: Side;
  name: string;
  offset: number;
  nodes: NodeRow[];
  total: number | null;
}

export interface TreeAnswer {
  roots: (NodeRow | null)[];
  lists: ChildList[];
  ready: boolean;
  progress: number;
  whole?: boolean;
  revealed?: { side: Side; path: string[] }[];
  detail?: Detail; // of the node that is revealed
}

/** What depends on the colouring, of nodes that are known. `below`: of which of them, and what. */
export interface Coloured {
  classes: number[];
  values: Value[];
  below: [number, Below][];
}

export interface FileEntry {
  name: string;
  size: number;
  time: number;
}

export interface Scale {
  bounds: number[];
  classes: number;
  smallIsBad: boolean;
}

export interface Info {
  version: string;
  compare: boolean;
  task: string;
  steps: number[];
  ranks: number[];
  microSteps: number;
  models?: string[]; // classes of the models, of the target and the reference
  start?: [number, number] | null; // step and rank of the cause that the file names
  overflow: boolean;
  /** Overflow levels are known: from the file (`overflow`), or from its statistics. */
  levels: boolean;
  colours: string[];
  intervals: [number, number][];
  unmatchedColour: string;
  metrics: string[];
  scales: Record<string, Scale>;
  rounding: number;
  size: number;
  /** Only in an exported page: how many nodes it holds and how many there are. */
  exported?: { nodes: number; of: number; step: number; rank: number };
}

export interface Finding {
  node: string;
  side: Side;
  kind: string;
  value?: Value;
  before?: Value;
  sentence?: string;
  chinese?: string;
  /** What is allowed at the place and what was found, in lines. */
  sum?: string;
}

export type Cell = Record<string, string>;

export interface TensorRow {
  group: "input" | "weight" | "gradient" | "output";
  name: string;
  peer: string;
  target: Cell | null;
  reference: Cell | null;
  ulps: Value;
}

export interface Link {
  rank: number;
  node: string;
  text: string;
  kind: string;
}

/** Where a tensor of a node comes from, or goes to. `around`: the modules around the other node, from the root. */
export interface FlowEnd {
  port: string;
  into: boolean;
  node: string;
  around: string[];
}

export interface NodeDetail {
  name: string;
  side: Side;
  kind: number;
  up: string;
  index: number | null;
  overflow: string | null;
  folder: string | null;
  stack: string[];
  merged: string[];
  links: Link[];
  flow: FlowEnd[];
  how?: string | null;
  reason?: string | null;
}

export interface Detail {
  target: NodeDetail | null;
  reference: NodeDetail | null;
  rows: TensorRow[];
  total: number;
}

export interface OverviewCell {
  step: number;
  rank: number;
  nodes: number;
  unmatched: number;
  worst: Value;
  overflow: number;
  counts: number[];
  ulps: Value;
}

export interface CommunicationCell {
  from: number;
  to: number;
  count: number;
  worst: number | null;
  node: string | null;
}

export interface Matches {
  pairs: [string, string | null][];
  count: number;
  undo: number;
  redo: number;
  matched?: number;
  cancelled?: number;
  failed?: string[];
}

export interface Colour {
  by: string;
  bounds?: number[];
}

/** A list of nodes: search, filter and ranking in one. */
export interface Wanted {
  text?: string;
  within?: "name" | "regex" | "shape" | "stack";
  side?: Side;
  kind?: number;
  classes?: number[];
  only?: string;
  sort?: string;
  ascending?: boolean;
  offset?: number;
  limit?: number;
}
