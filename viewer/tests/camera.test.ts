// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { limited, MINIMAP, sheetWidth } from "../src/camera";

const WIDTH = 640;

it("keeps the picture in sight", () => {
  const view = limited({ scale: 1, width: WIDTH, x: 1e6, y: [-1e6, 1e6] }, 2000, WIDTH / 2, 400);
  expect(view.x).toBeLessThan(WIDTH);
  expect(view.y[0]).toBeGreaterThanOrEqual(-12);
  expect(view.y[1]).toBeLessThan(2000);
});

it("puts a narrow picture into the middle", () => {
  expect(limited({ scale: 0.5, width: WIDTH, x: 0, y: [0, 0] }, 100, WIDTH, 400).x).toBe((WIDTH - (WIDTH - MINIMAP - 2) / 0.5) / 2);
});

it("gives names as much room as there is", () => {
  expect(sheetWidth(600)).toBe(600 - MINIMAP - 4);
  expect(sheetWidth(200)).toBeGreaterThan(400);
  expect(sheetWidth(3000)).toBeLessThan(1000);
});
