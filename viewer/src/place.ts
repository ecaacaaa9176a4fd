// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The address says what is shown, and what is shown is read from an address.
import { toFragment, type Place } from "./address";
import * as state from "./state";
import type { Side, Wanted } from "./types";

export function rememberPlace(): void {
  if (!state.info.value) return;
  const wanted = state.wanted.value;
  const fragment = toFragment({
    file: state.file.value,
    step: state.step.value,
    rank: state.rank.value,
    micro: state.micro.value,
    side: state.active.value,
    node: state.activeName.value ?? undefined,
    by: state.colour.value.by,
    bounds: state.colour.value.bounds,
    classes: [...state.classes.value],
    text: wanted.text,
    within: wanted.within,
    kind: wanted.kind,
    listSide: wanted.side,
    only: wanted.only === "structure" ? undefined : wanted.only, // that is the tab
    sort: wanted.sort,
    descending: wanted.ascending === false,
    tab: state.tab.value === "findings" ? undefined : state.tab.value,
    lower: state.lower.value === "tensors" ? undefined : state.lower.value,
    workspace: state.matching.value?.count ? state.workspace.value : undefined,
    open: openedNames(),
  });
  if (fragment !== location.hash) history.replaceState(null, "", fragment);
}

/** The modules that are open, the outermost first; a counterpart that is open too is not named. */
export function openedNames(): [Side, string][] {
  const tree = state.tree.value;
  const ids = [...tree.expanded].filter((id) => !tree.roots.includes(id) && (tree.node(id)!.side === 0 || !tree.expanded.has(tree.peerOf(id))));
  const nodes = ids.map((id) => tree.node(id)!).sort((a, b) => a.depth - b.depth);
  return nodes.map((node) => [node.side, node.name]);
}

/** What an address says besides the file and the graph. */
export function applyPlace(place: Place): void {
  state.colour.value = { by: place.by ?? "index", bounds: place.bounds };
  state.classes.value = new Set(place.classes);
  state.workspace.value = place.workspace ?? state.kept("workspace") ?? "";
  state.wanted.value = {
    ...state.EVERYTHING,
    text: place.text ?? "",
    within: (place.within as Wanted["within"]) ?? "name",
    kind: place.kind,
    side: place.listSide,
    only: place.only,
    sort: place.sort ?? "order",
    ascending: !place.descending,
  };
  state.tab.value = (place.tab as state.Tab) ?? "findings";
  state.lower.value = (place.lower as state.Lower) ?? "tensors";
}
