// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// A node is selected, with its details, and brought into sight.
import { batch } from "@preact/signals";
import { arrange, centre } from "./arranging";
import { askGraph, isExported } from "./asking";
import { attempt, tell } from "./notices";
import { knownLists } from "./opening";
import { rememberPlace } from "./place";
import * as state from "./state";
import { t } from "./state";
import type { Detail, Side, TreeAnswer } from "./types";

/** Selects a node and its counterpart. `alone`: the other side keeps its selection, for matching by hand. */
export function select(side: Side, name: string, alone = false, detail?: Detail): void {
  const tree = state.tree.value;
  const node = tree.node(tree.idOf(side, name));
  const names: [string | null, string | null] = [...state.selected.value];
  names[side] = name;
  if (!alone && node?.peer != null) names[1 - side] = node.peer;
  const other = names[1 - side];
  const isPair = other != null && tree.node(tree.idOf((1 - side) as Side, other))?.peer === null;
  if (!alone && node?.peer === null && !isPair) names[1 - side] = null; // two without counterpart may be matched
  batch(() => {
    state.selected.value = names;
    state.active.value = side;
  });
  rememberPlace();
  if (detail) state.detail.value = detail;
  else void attempt(loadDetail);
}

export async function loadDetail(): Promise<void> {
  const side = state.active.value;
  const name = state.selected.value[side];
  if (name === null) {
    state.detail.value = null;
    return;
  }
  const answer = await askGraph<Detail>("detail", { side, name });
  if (answer && state.active.value === side && state.selected.value[side] === name) state.detail.value = answer;
}

/** Opens what is around a node and its counterpart, selects both and brings both into the middle. */
export async function reveal(side: Side, name: string): Promise<void> {
  const answer = await askGraph<TreeAnswer>("tree", { reveal: [side, name], known: knownLists() });
  if (answer) await showRevealed(side, name, answer);
}

export async function showRevealed(side: Side, name: string, answer: TreeAnswer): Promise<void> {
  const tree = state.tree.value;
  if (!answer.revealed?.length) {
    tell(isExported ? t("notExported") : t("notOnThisRank"));
    return;
  }
  tree.take(answer);
  for (const { side: at, path } of answer.revealed) {
    for (const inner of path) {
      const id = tree.idOf(at, inner);
      if (id >= 0 && tree.isKnown(id)) tree.expanded.add(id);
    }
  }
  select(side, name, false, answer.detail);
  await arrange();
  centre();
}
