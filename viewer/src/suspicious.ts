// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Which nodes are suspicious: what n and p walk through where the legend has no filter.
import type { Info } from "./types";

/** The filter of the nodes; null: nothing is known of this file that makes a node suspicious. */
export function suspicious(info: Pick<Info, "compare" | "task" | "levels">, by: string): "overflowing" | "added" | "suspicious" | null {
  if (info.levels && (by === "overflow" || !info.compare)) return "overflowing";
  if (!info.compare) return null;
  return info.task === "structure" ? "added" : "suspicious";
}
