// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The part of the two trees that the page knows: what was opened, and what stands in it.
import type { LayoutInput } from "./layout";
import type { ChildList, Coloured, NodeRow, Side, TreeAnswer } from "./types";

export const keyOf = (side: Side, name: string): string => `${side}:${name}`;

interface Children {
  ids: number[];
  from: number; // how many children stand before the first known one
  total: number | null;
}

export class Tree {
  readonly nodes: NodeRow[] = [];
  readonly roots: [number, number] = [-1, -1];
  private readonly ids = new Map<string, number>();
  private readonly children = new Map<number, Children>();
  private readonly parents = new Map<number, number>();
  readonly expanded = new Set<number>();

  /** models: the classes of both roots, where the file says them. */
  constructor(readonly models: (string | undefined)[] = []) {}

  idOf(side: Side, name: string): number {
    return this.ids.get(keyOf(side, name)) ?? -1;
  }

  node(id: number): NodeRow | undefined {
    return this.nodes[id];
  }

  parentOf(id: number): number {
    return this.parents.get(id) ?? -1;
  }

  childrenOf(id: number): Children | undefined {
    return this.children.get(id);
  }

  isKnown(id: number): boolean {
    return this.children.has(id);
  }

  /** The counterpart of a node, where the page knows it. */
  peerOf(id: number): number {
    const node = this.nodes[id];
    return node?.peer == null ? -1 : this.idOf((1 - node.side) as Side, node.peer);
  }

  take(answer: TreeAnswer): void {
    for (const root of answer.roots) {
      if (root) this.roots[root.side] = this.put(root);
    }
    for (const list of answer.lists) this.takeList(list);
  }

  /** New values of nodes that are known. */
  refresh(nodes: NodeRow[]): void {
    for (const node of nodes) this.put(node);
  }

  /** What depends on the colouring, of these nodes. */
  recolour(ids: number[], coloured: Coloured): void {
    ids.forEach((id, at) => {
      const node = this.nodes[id]!;
      this.nodes[id] = { ...node, class: coloured.classes[at]!, value: coloured.values[at]! };
    });
    for (const [at, below] of coloured.below) this.nodes[ids[at]!]!.below = below;
  }

  private put(node: NodeRow): number {
    const key = keyOf(node.side, node.name);
    let id = this.ids.get(key);
    if (id === undefined) {
      id = this.nodes.length;
      this.ids.set(key, id);
    }
    this.nodes[id] = node;
    return id;
  }

  private takeList(list: ChildList): void {
    const parent = this.idOf(list.side, list.name);
    if (parent < 0) return;
    const ids = list.nodes.map((node) => this.put(node));
    for (const id of ids) this.parents.set(id, parent);
    const known = this.children.get(parent);
    const follows = known && list.offset === known.from + known.ids.length;
    const precedes = known && list.offset + ids.length === known.from;
    if (follows) known.ids.push(...ids);
    else if (precedes) known.ids.unshift(...ids);
    if (follows || precedes) {
      known.from = Math.min(known.from, list.offset);
      known.total = list.total;
    } else this.children.set(parent, { ids, from: list.offset, total: list.total });
  }

  /** What the layout needs of the opened part. */
  layoutInput(): LayoutInput {
    const children: Record<number, number[]> = {};
    const before: Record<number, number> = {};
    const after: Record<number, number> = {};
    const peers: Record<number, number> = {};
    const waiting = this.roots.filter((id) => id >= 0);
    while (waiting.length) {
      const id = waiting.pop()!;
      const peer = this.peerOf(id);
      if (peer >= 0) peers[id] = peer;
      const known = this.expanded.has(id) ? this.children.get(id) : undefined;
      if (!known) continue;
      children[id] = known.ids;
      if (known.from > 0) before[id] = known.from;
      const left = known.total === null ? 0 : known.total - known.from - known.ids.length;
      if (left > 0) after[id] = left;
      waiting.push(...known.ids);
    }
    return { roots: [...this.roots], children, peers, before, after };
  }
}
