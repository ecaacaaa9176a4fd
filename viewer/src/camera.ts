// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where the window stands over the picture.
export interface View {
  scale: number;
  width: number; // of the picture of one side, in units of the layout, as x and y
  x: number;
  y: [number, number]; // top of the picture of each side, in units of the layout
}

export const MINIMAP = 16; // pixels at the right edge

/** How wide a picture is that fills a window of so many pixels: names keep their size, and the room for them grows. */
export const sheetWidth = (pixels: number): number => Math.max(NARROWEST, Math.min(WIDEST, pixels - MINIMAP - 4));
const NARROWEST = 430;
const WIDEST = 860;

/** Not far beyond the picture; a picture that is narrower than the window stands in its middle. */
export function limited(view: View, total: number, width: number, height: number): View {
  const wide = (width - MINIMAP - 2) / view.scale;
  const high = height / view.scale;
  const limit = (value: number, size: number, seen: number): number =>
    Math.max(-12 / view.scale, Math.min(value, Math.max(0, size - seen * 0.6)));
  const x = wide >= view.width ? (view.width - wide) / 2 : limit(view.x, view.width, wide);
  return { scale: view.scale, width: view.width, x, y: [limit(view.y[0], total, high), limit(view.y[1], total, high)] };
}
