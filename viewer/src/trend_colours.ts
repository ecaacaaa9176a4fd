// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Colours of runs, and of the cells of a heat map.
import { mix } from "./colours";

const RUNS_LIGHT = ["#2459b8", "#c2410c", "#12703f", "#8a2fb0", "#8a6500", "#0b7285"];
const RUNS_DARK = ["#8ab4ff", "#ff9e64", "#7ed3a2", "#d7a3f5", "#e6c65c", "#6fd3e0"];
const DIFFERENCE_LIGHT = ["#e3f1e8", "#dbe9fb", "#ffe39a", "#ffb057", "#f0674a"];
const DIFFERENCE_DARK = ["#1c3529", "#1f3a59", "#6b5416", "#8f560f", "#a93a26"];

/** Shares of a number from which on a difference has the next colour. */
export const LIMITS = [1e-6, 1e-3, 1e-2, 1e-1];

export const runColour = (run: number, dark: boolean): string => (dark ? RUNS_DARK : RUNS_LIGHT)[run % RUNS_LIGHT.length]!;
export const badColour = (dark: boolean): string => (dark ? "#ff9a8e" : "#a4231a");

export function differenceColour(share: number, dark: boolean): string {
  const place = LIMITS.filter((limit) => share >= limit).length;
  return (dark ? DIFFERENCE_DARK : DIFFERENCE_LIGHT)[place]!;
}

/** `share`: 0 the least, 1 the most of what is shown. */
export function valueColour(share: number, dark: boolean): string {
  return dark ? mix("#8ab4ff", "#1a1f26", 0.08 + 0.92 * share) : mix("#173f87", "#eef3fb", share);
}
