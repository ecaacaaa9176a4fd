// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { unpacked } from "../src/source";
import { Tree } from "../src/tree";
import type { NodeRow, TreeAnswer } from "../src/types";

// As python/msprobe/viewer/packing.py packs them.
const keys = ["side", "pos", "name", "depth", "kind", "children", "micro", "index", "overflow", "peer", "peerPos", "how", "links", "merged", "ulps", "value", "class", "below"];
const below = ["nodes", "counts", "unmatched", "worst", "worstAt", "strip"];
const row = (side: number, pos: number, name: string, peer: string | true | null, more: unknown[] = []) => [side, pos, name, 1, 1, more.length ? 2 : 0, 0, 0.5, 0, peer, peer === null ? null : pos, null, 0, 0, "inf", 0.5, 3, ...more];
const packed = () => ({ keys, below, rows: [row(0, 2, "layer", true, [[3, [1, 2], 0, "inf", 1, "0u-"]]), row(0, 1, "call", "other"), row(0, 0, "alone", null)] });

it("unpacks nodes wherever they stand in an answer", () => {
  const answer = unpacked({ nodes: packed(), tree: { lists: [{ name: "root", nodes: packed() }] } }) as unknown as { nodes: NodeRow[]; tree: TreeAnswer };
  expect(answer.nodes.map((node) => node.peer)).toEqual(["layer", "other", null]);
  expect(answer.nodes[0]).toMatchObject({ side: 0, pos: 2, ulps: "inf", class: 3, below: { nodes: 3, counts: [1, 2], unmatched: 0, worst: "inf", worstAt: 1, strip: "0u-" } });
  expect(answer.nodes[1]!.below).toBeUndefined();
  expect(answer.tree.lists[0]!.nodes).toEqual(answer.nodes);
});

it("leaves other answers as they are", () => {
  expect(unpacked({ findings: [], nodes: [] })).toEqual({ findings: [], nodes: [] });
});

it("takes another colouring without touching what does not depend on it", () => {
  const nodes = (unpacked({ nodes: packed() }) as unknown as { nodes: NodeRow[] }).nodes;
  const tree = new Tree();
  tree.take({ roots: [{ ...nodes[0]!, name: "root" }], lists: [{ side: 0, name: "root", offset: 0, nodes, total: 3 }], ready: true, progress: 1 });
  const layer = tree.idOf(0, "layer");
  const other = { nodes: 3, counts: [0, 3], unmatched: 0, worst: 7, worstAt: 0, strip: "111" };
  tree.recolour([tree.idOf(0, "call"), layer], { classes: [0, 1], values: [null, 7], below: [[1, other]] });
  expect(tree.node(layer)).toMatchObject({ class: 1, value: 7, below: other, peer: "layer", index: 0.5 });
  expect(tree.node(tree.idOf(0, "call"))).toMatchObject({ class: 0, value: null, peer: "other" });
  expect(tree.node(tree.idOf(0, "alone"))).toMatchObject({ class: 3, value: 0.5 });
});
