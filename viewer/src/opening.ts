// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Modules are opened and closed.
import { arrange } from "./arranging";
import { about, askGraph, source } from "./asking";
import { tell } from "./notices";
import * as state from "./state";
import { t } from "./state";
import type { Tree } from "./tree";
import type { Side, TreeAnswer } from "./types";

export type ListPlace = [Side, string, number]; // side, name, and from which child on
const MOST_NODES = 3000; // of one answer, whatever they are called
export const LONGEST_LIST = 500;

/** Lists of children, in so many questions that no answer is cut short. */
export async function askLists(tree: Tree, wanted: ListPlace[], ask: (nodes: ListPlace[]) => Promise<TreeAnswer | null>, use: (answer: TreeAnswer) => void): Promise<void> {
  let portion: ListPlace[] = [];
  let room = MOST_NODES;
  const send = async (): Promise<void> => {
    const answer = portion.length && state.tree.value === tree ? await ask(portion) : null;
    if (answer && state.tree.value === tree) use(answer);
    portion = [];
    room = MOST_NODES;
  };
  for (const place of wanted) {
    const count = Math.min(LONGEST_LIST, tree.node(tree.idOf(place[0], place[1]))?.children ?? LONGEST_LIST);
    if (count > room || portion.length >= 400) await send();
    portion.push(place);
    room -= count;
  }
  await send();
}

/** Opens modules, and their counterparts. Those of an address come before anything is known of them. */
export async function openNames(names: [Side, string][]): Promise<void> {
  const tree = state.tree.value;
  const peers = (): [Side, string][] =>
    names.flatMap(([side, name]): [Side, string][] => {
      const peer = tree.node(tree.idOf(side, name))?.peer;
      return peer == null ? [] : [[(1 - side) as Side, peer]];
    });
  const load = async (wanted: [Side, string][]): Promise<void> => {
    const missing = wanted.filter(([side, name]) => !tree.isKnown(tree.idOf(side, name)));
    const places = missing.map(([side, name]): ListPlace => [side, name, 0]);
    await askLists(tree, places, (nodes) => source.ask<TreeAnswer>("tree", { ...about(), nodes }), (answer) => tree.take(answer));
  };
  await load([...peers(), ...names]);
  await load([...peers(), ...names]); // the peers that are known by now, and what only the other side has in them
  for (const [side, name] of [...names, ...peers()]) {
    const id = tree.idOf(side, name);
    if (tree.isKnown(id)) tree.expanded.add(id);
  }
}

export async function toggle(id: number): Promise<void> {
  const tree = state.tree.value;
  const node = tree.node(id);
  if (!node || !node.children) return;
  if (tree.expanded.has(id)) {
    tree.expanded.delete(id);
    const peer = tree.peerOf(id);
    if (peer >= 0) tree.expanded.delete(peer);
  } else await openNames([[node.side, node.name]]);
  await arrange();
}

export async function loadMore(id: number, before: boolean): Promise<void> {
  const tree = state.tree.value;
  const node = tree.node(id);
  const known = tree.childrenOf(id);
  if (!node || !known) return;
  const offset = before ? Math.max(0, known.from - LONGEST_LIST) : known.from + known.ids.length;
  const answer = await source.ask<TreeAnswer>("tree", { ...about(), nodes: [[node.side, node.name, offset]] });
  if (state.tree.value !== tree) return;
  tree.take(answer);
  await arrange();
}

export async function openLevel(level: number): Promise<void> {
  const answer = await askGraph<TreeAnswer>("tree", { level });
  if (!answer) return;
  const tree = state.tree.value;
  tree.take(answer);
  tree.expanded.clear();
  for (const list of answer.lists) {
    const id = tree.idOf(list.side, list.name);
    if (id >= 0) tree.expanded.add(id);
  }
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  if (answer.whole === false) tell(t("expandPartly", answer.lists.reduce((sum, list) => sum + list.nodes.length, 0)));
  await arrange();
}

export async function closeAll(): Promise<void> {
  const tree = state.tree.value;
  tree.expanded.clear();
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  state.view.value = { ...state.view.value, y: [0, 0] };
  await arrange();
}

/** Modules whose children are all there: they need not be sent again. */
export function knownLists(): [Side, string][] {
  const tree = state.tree.value;
  return [...tree.expanded].flatMap((id): [Side, string][] => {
    const node = tree.node(id);
    const known = tree.childrenOf(id);
    return node && known && known.ids.length === known.total ? [[node.side, node.name]] : [];
  });
}
