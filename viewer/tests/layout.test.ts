// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { align, layOut, MORE_AFTER, OPEN, ROW, ROW_HEIGHT, type LayoutInput } from "../src/layout";

const peers = (pairs: [number, number][]): Record<number, number> =>
  Object.fromEntries(pairs.flatMap(([a, b]) => [[a, b], [b, a]]));

describe("align", () => {
  it("puts counterparts into one row and the rest alone", () => {
    expect(align([1, 2, 3], [11, 14, 13], peers([[1, 11], [3, 13]]))).toEqual([[1, 11], [2, -1], [-1, 14], [3, 13]]);
  });

  it("keeps the order of both sides where they cross", () => {
    const pairs = align([1, 2, 3], [12, 11, 13], peers([[1, 11], [2, 12], [3, 13]]));
    expect(pairs.map(([a]) => a).filter((a) => a >= 0)).toEqual([1, 2, 3]);
    expect(pairs.map(([, b]) => b).filter((b) => b >= 0)).toEqual([12, 11, 13]);
    expect(pairs).toContainEqual([3, 13]);
  });

  it("shows every node once, whatever the counterparts are", () => {
    let seed = 7;
    const dice = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
    for (let round = 0; round < 300; round += 1) {
      const left = Array.from({ length: dice(12) }, (_, i) => i);
      const right = Array.from({ length: dice(12) }, (_, i) => 100 + i);
      const free = [...right];
      const pairs: [number, number][] = [];
      for (const id of left) {
        if (free.length && dice(3)) pairs.push([id, free.splice(dice(free.length), 1)[0]!]);
      }
      const rows = align(left, right, peers(pairs));
      expect(rows.map(([a]) => a).filter((a) => a >= 0)).toEqual(left);
      expect(rows.map(([, b]) => b).filter((b) => b >= 0)).toEqual(right);
      for (const [a, b] of rows) if (a >= 0 && b >= 0) expect(pairs).toContainEqual([a, b]);
    }
  });

  it("is fast for many children", () => {
    const count = 20_000;
    const left = Array.from({ length: count }, (_, i) => i);
    const right = left.map((id) => count + id);
    const begin = performance.now();
    expect(align(left, right, peers(left.map((id) => [id, count + id])))).toHaveLength(count);
    expect(performance.now() - begin).toBeLessThan(1000);
  });
});

describe("layOut", () => {
  const input: LayoutInput = {
    roots: [0, 10],
    children: { 0: [1, 2], 1: [3, 4], 10: [11, 12] },
    peers: peers([[0, 10], [1, 11], [2, 12]]),
    before: {},
    after: { 10: 5 },
  };

  it("gives counterparts the same height, also where only one side is open", () => {
    const layout = layOut(input);
    const top = (id: number): number => layout.y[layout.id.indexOf(id)]!;
    expect(top(1)).toBe(top(11));
    expect(top(2)).toBe(top(12));
    expect(top(2)).toBeGreaterThan(top(4) + ROW_HEIGHT);
  });

  it("puts what is inside into its box", () => {
    const layout = layOut(input);
    const [outer, inner] = [layout.id.indexOf(1), layout.id.indexOf(4)];
    expect(layout.kind[outer]).toBe(OPEN);
    expect(layout.kind[inner]).toBe(ROW);
    expect(layout.y[inner]! + ROW_HEIGHT).toBeLessThan(layout.y[outer]! + layout.height[outer]!);
    expect(layout.depth[inner]).toBe(2);
  });

  it("has a row for children that are not loaded", () => {
    const layout = layOut(input);
    const more = layout.kind.indexOf(MORE_AFTER);
    expect([layout.id[more], layout.side[more]]).toEqual([10, 1]);
  });

  it("never overlaps rows of one side", () => {
    const layout = layOut(input);
    for (const side of [0, 1]) {
      const rows = [...layout.y].filter((_, i) => layout.side[i] === side && layout.kind[i] === ROW);
      rows.slice(1).forEach((y, i) => expect(y).toBeGreaterThanOrEqual(rows[i]! + ROW_HEIGHT));
    }
  });

  it("takes thousands of levels", () => {
    const deep: LayoutInput = { roots: [0, -1], children: {}, peers: {}, before: {}, after: {} };
    for (let i = 0; i < 3000; i += 1) deep.children[i] = [i + 1];
    expect(layOut(deep).id).toHaveLength(3001);
  });

  it("is empty without graphs", () => {
    expect(layOut({ roots: [-1, -1], children: {}, peers: {}, before: {}, after: {} }).total).toBe(0);
  });
});
