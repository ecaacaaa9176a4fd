// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Nodes are matched by hand.
import { centre } from "./arranging";
import { askGraph, isExported } from "./asking";
import { refreshValues } from "./colouring";
import { loadFindings } from "./findings";
import { tell } from "./notices";
import { rememberPlace } from "./place";
import { loadDetail } from "./selecting";
import type { Question } from "./source";
import * as state from "./state";
import { t } from "./state";
import type { Matches } from "./types";

export async function match(what: Question): Promise<Matches | null> {
  ownWorkspace();
  const answer = await askGraph<Matches>("match", what);
  if (!answer) return null;
  state.matching.value = answer;
  rememberPlace();
  await refreshValues();
  centre(); // counterparts stand at the same height now
  await loadFindings();
  await loadDetail();
  return answer;
}

function ownWorkspace(): void {
  if (state.workspace.value) return;
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  state.workspace.value = [...bytes].map((byte) => (byte % 36).toString(36)).join("");
  state.keep("workspace", state.workspace.value);
}

/** Matches that were kept for this workspace are applied, so a link has to name it. */
export async function loadMatching(): Promise<void> {
  if (!state.workspace.value || !state.info.value?.compare || isExported) return;
  const answer = await askGraph<Matches>("match", { do: "list" });
  if (!answer || state.matching.value) return;
  state.matching.value = answer;
  rememberPlace();
}

export async function matchSelected(children: boolean): Promise<void> {
  const [target, reference] = state.selected.value;
  if (target === null) return tell(t("pickTarget"));
  if (reference === null) return tell(t("pickReference"));
  const answer = await match({ do: "match", target, reference, children });
  if (answer) tell(t("matchedCount", answer.matched ?? 0));
}
