// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { limited, MINIMAP } from "../src/camera";
import { WIDTH } from "../src/layout";

it("keeps the picture in sight", () => {
  const view = limited({ scale: 1, x: 1e6, y: [-1e6, 1e6] }, 2000, WIDTH / 2, 400);
  expect(view.x).toBeLessThan(WIDTH);
  expect(view.y[0]).toBeGreaterThanOrEqual(-12);
  expect(view.y[1]).toBeLessThan(2000);
});

it("puts a narrow picture into the middle", () => {
  expect(limited({ scale: 0.5, x: 0, y: [0, 0] }, 100, WIDTH, 400).x).toBe((WIDTH - (WIDTH - MINIMAP - 2) / 0.5) / 2);
});
