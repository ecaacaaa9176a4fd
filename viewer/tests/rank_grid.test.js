// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { RankGrid } from "../src/report/rank_grid.js";

const ranks = count => Array.from({ length: count }, (_, rank) => rank);

describe("the grid of many ranks", () => {
  it.each([
    [ranks(64), []],
    [ranks(100), []],
    [ranks(1024), [["tp", 8], ["dp", 32], ["pp", 4]]],
    [ranks(48), [["", 2], ["", 4], ["", 6]]],
    [[3, 5, 40, 41], [["tp", 4], ["", 16]]],
    [[3, 5, 40, 41], []],
  ])("finds each of %# ranks where it stands, and none in a gap", (known, axes) => {
    const grid = new RankGrid(known, axes);
    const places = known.map(rank => grid.at(rank));
    expect(new Set(places.map(String)).size).toBe(known.length);
    for (const [i, [left, top]] of places.entries()) {
      expect(grid.rankAt(left + 1, top + grid.cell - 1)).toBe(known[i]);
      expect(left + grid.cell).toBeLessThanOrEqual(grid.width);
      expect(top + grid.cell).toBeLessThanOrEqual(grid.height);
    }
    expect(grid.rankAt(-1, 0)).toBeUndefined();
    expect(grid.rankAt(0, grid.height + 1)).toBeUndefined();
  });

  it("has ranks of the innermost axis side by side, and the outermost below each other", () => {
    const grid = new RankGrid(ranks(64), [["tp", 4], ["dp", 8], ["pp", 2]]);
    expect([grid.columns, grid.rows]).toEqual([8, 4]);
    expect(grid.at(3)[0] + grid.cell + RankGrid.GAP).toBe(grid.at(4)[0]);   // behind four of tp
    expect(grid.at(31)[1] + grid.cell + RankGrid.GAP).toBe(grid.at(32)[1]);   // below a stage
    expect(grid.rankAt(grid.at(4)[0] - 1, 0)).toBeUndefined();
    expect(grid.labels[4]).toEqual([32, grid.at(32)[1]]);
    expect(grid.coordinates(37)).toBe("tp 1, dp 1, pp 1");
    expect(grid.sentence).toBe("A row is 8 ranks, with a gap behind each 4 that are neighbours in tp, and one below each 32 of the same place in pp.");
  });

  it("takes axes that do not hold all ranks for none", () => {
    const grid = new RankGrid(ranks(64), [["tp", 4]]);
    expect([grid.columns, grid.axes.length, grid.coordinates(5), grid.sentence]).toEqual([8, 0, "", "A row is 8 ranks."]);
  });
});
