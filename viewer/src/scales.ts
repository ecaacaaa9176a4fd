// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What nodes can be coloured by, and how its classes are called.
import { boundsOf } from "./colours";
import { cellNumber, short } from "./names";
import { isOwn } from "./own_data";
import * as state from "./state";
import { t } from "./state";
import type { Info } from "./types";
import type { Word } from "./words";

const NAMED: Record<string, Word> = {
  index: "byIndex",
  difference: "byDifference",
  outputs: "byOutputs",
  inputs: "byInputs",
  weights: "byWeights",
  gradients: "byGradients",
  overflow: "byOverflow",
  kind: "byKind",
};

export function scaleName(by: string): string {
  if (!isOwn(by)) return NAMED[by] ? t(NAMED[by]) : by;
  const own = state.ownData.value.find(({ key }) => by === `own:${key}`);
  return own ? `${t("byOwn")} (${own.name})` : t("byOwn");
}

export function colourNames(info: Info, now: string): [string, string][] {
  const names = [...Object.keys(info.scales), ...state.ownData.value.filter(({ bounds }) => bounds !== null).map(({ key }) => `own:${key}`)];
  if (!names.includes(now)) names.push(now);
  return names.map((by) => [by, scaleName(by)]);
}

export const OVERFLOW_WORDS: Word[] = ["none", "medium", "high", "critical"];

/** What a class holds, for the legend. */
export function className(number: number): string {
  const { by, bounds } = state.colour.value;
  const info = state.info.value!;
  if (by === "kind") return t((["module", "api", "byCommunication", "collection"] as Word[])[number] ?? "module");
  if (by === "overflow") return t(OVERFLOW_WORDS[number] ?? "none");
  if (by === "index" && !bounds?.length && info.intervals.length) {
    const [low, high] = info.intervals[number]!;
    return low === high ? short(low) : `${short(low)} – ${short(high)}`;
  }
  const scale = state.scale.value;
  const ends = scale.bounds;
  if (ends[0] === 0 && number === 0) return t("classEqual");
  const [above, below] = scale.smallIsBad ? ["<", "≥"] : [">", "≤"];
  if (number === 0) return `${below} ${short(ends[0]!)}`;
  if (number === ends.length) return `${above} ${short(ends[number - 1]!)}`;
  const isGuarded = ends[number] === info.rounding && ends[0] === 0 && number === 1;
  return isGuarded ? t("classRounding") : `${below} ${short(ends[number]!)}`;
}

export function boundsText(): string {
  const { by, bounds } = state.colour.value;
  const ofFile = by === "index" ? boundsOf(state.info.value?.intervals ?? []) : [];
  return (bounds ?? (ofFile.length ? ofFile : state.scale.value.bounds)).join(" ");
}

export const parseBounds = (text: string): number[] =>
  text.split(/[\s,;]+/).filter(Boolean).map(Number).filter(Number.isFinite).slice(0, 9);

/** Beside a communication stands the precision index of the other node; other programs may write other words. */
export function linkText(link: { text: string }): string {
  if (/^nan$/i.test(link.text.trim())) return ""; // the reference side has no index of its own
  const value = cellNumber(link.text);
  return Number.isNaN(value) ? link.text : `${t("index")} ${short(value)}`;
}
