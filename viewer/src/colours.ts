// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Colours of classes, from good to bad, in both themes.
import { numberOf } from "./names";
import { NO_VALUE, UNMATCHED, type Info, type OverviewCell } from "./types";

// Differences and metrics: equal, rounding, beyond it, far, farthest.
const LIGHT = ["#e3f1e8", "#dbe9fb", "#ffe39a", "#ffb057", "#f0674a"];
const DARK = ["#1c3529", "#1f3a59", "#6b5416", "#8f560f", "#a93a26"];
// The colours of mindstudio-probe, for a dark page.
const DARK_INDEX = ["#20262f", "#453d22", "#6a5716", "#886207", "#b5432b"];
// Overflow: none, medium, high, critical.
const OVERFLOW_LIGHT = ["#e9eef5", "#c5d5f7", "#8fb0f5", "#4f7be8"];
const OVERFLOW_DARK = ["#232c38", "#2c4370", "#3560b4", "#5b8cf5"];

// Module, call, communication, collection.
const KIND_LIGHT = ["#e4ecfa", "#ffffff", "#d9f0e4", "#f1e8f7"];
const KIND_DARK = ["#223049", "#1c222a", "#1d3a2c", "#33263f"];

// Where the difference begins: no class has this colour.
const CULPRIT_LIGHT = "#7b2fc9";
const CULPRIT_DARK = "#9d5cf0";
const PALE = 0.5; // of the colours of what follows from it, mixed with the page

export const culpritColour = (dark: boolean): string => (dark ? CULPRIT_DARK : CULPRIT_LIGHT);

/** Colours of a graph of which is known where the difference begins: the rest follows from there. */
export function paled(colours: Palette, dark: boolean): Palette {
  return { ...colours, classes: colours.classes.map((one) => mix(one, dark ? "#1a1f26" : "#ffffff", PALE)) };
}

export interface Palette {
  classes: string[];
  unmatched: string;
  none: string;
}

export function palette(info: Info, by: string, classes: number, dark: boolean): Palette {
  const unmatched = dark ? "#474d57" : info.unmatchedColour;
  const none = dark ? "#262b33" : "#f4f5f8";
  if (by === "kind") return { classes: dark ? KIND_DARK : KIND_LIGHT, unmatched, none };
  if (by === "overflow") return { classes: dark ? OVERFLOW_DARK : OVERFLOW_LIGHT, unmatched, none };
  if (by === "index" && info.colours.length === classes) {
    return { classes: dark ? spread(DARK_INDEX, classes) : info.colours, unmatched, none };
  }
  return { classes: spread(dark ? DARK : LIGHT, classes), unmatched, none };
}

/** The colour of a class; NO_VALUE and UNMATCHED too. */
export function colourOf(colours: Palette, number: number): string {
  if (number === UNMATCHED) return colours.unmatched;
  if (number === NO_VALUE) return colours.none;
  return colours.classes[number] ?? colours.none;
}

/** Of the colours of the file, by its precision index. */
export function classOf(info: Info, value: number | null): number {
  if (value === null) return NO_VALUE;
  const top = Math.max(...info.intervals.map(([, high]) => high));
  return info.intervals.findIndex(([low, high]) => (value >= low && value < high) || (value === high && (high === low || high === top)));
}

/** The limits between the intervals of the file; none where there are gaps between them, as with checksums. */
export function boundsOf(intervals: [number, number][]): number[] {
  const bounds = intervals.slice(1).map(([low]) => low);
  return bounds.every((bound, at) => bound === intervals[at]![1]) ? bounds : [];
}

/** The index of noise may be the worst there is: a graph that differs by rounding alone is no alarm. */
export function isOnlyRounding(info: Info, cell: OverviewCell): boolean {
  return cell.worst !== null && numberOf(cell.ulps) <= info.rounding;
}

/** So many colours of a list, the first and the last always. */
function spread(colours: string[], count: number): string[] {
  if (count <= 1) return colours.slice(0, 1);
  return Array.from({ length: count }, (_, i) => colours[Math.round((i * (colours.length - 1)) / (count - 1))]!);
}

export function mix(colour: string, other: string, weight: number): string {
  const [a, b] = [channels(colour), channels(other)];
  const parts = a.map((value, i) => Math.round(value * weight + b[i]! * (1 - weight)));
  return `#${parts.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Black or white text, whichever is easier to read on this colour. */
export function textOn(colour: string): string {
  return luminance(colour) > 0.2 ? "#14181e" : "#f2f4f7";
}

const softTexts = new Map<string, string>();
/** A quieter text on this colour that can still be read. */
export function softOn(colour: string): string {
  let found = softTexts.get(colour);
  if (found === undefined) {
    const text = textOn(colour);
    const weight = [0.66, 0.72, 0.78, 0.84, 0.9, 0.95].find((one) => contrast(mix(text, colour, one), colour) >= 4.5) ?? 1;
    found = mix(text, colour, weight);
    softTexts.set(colour, found);
  }
  return found;
}

export function luminance(colour: string): number {
  const [r, g, b] = channels(colour).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(one: string, other: string): number {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}
