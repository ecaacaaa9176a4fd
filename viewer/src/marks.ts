// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What a row says of a node in one character, whatever the graph is coloured by.
import type { Notes } from "./own_data";
import type { NodeRow } from "./types";

export const BY_HAND = "✎";
export const ADDED = "+";
export const REMOVED = "−";
export const NOTE = "※";

/** Communication, merged, only on this side, matched by hand, moved, with a note. */
export function marksOf(node: NodeRow, compare: boolean, notes?: Notes): string[] {
  const alone = compare && node.peer === null && node.depth > 0;
  const marks = [node.links && "⇄", node.merged && "Σ", alone && (node.side === 0 ? ADDED : REMOVED), node.how === "manual" && BY_HAND, node.how === "moved" && "⇅", notes?.has(node.name) && NOTE];
  return marks.filter((mark) => typeof mark === "string");
}
