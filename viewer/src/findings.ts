// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// To where a difference begins, and to the next suspicious node.
import { askGraph, shown } from "./asking";
import { tell } from "./notices";
import { knownLists } from "./opening";
import { reveal, showRevealed } from "./selecting";
import * as state from "./state";
import { t } from "./state";
import { suspicious } from "./suspicious";
import type { Finding, NodeRow, TreeAnswer, Wanted } from "./types";

export async function loadFindings(): Promise<void> {
  const answer = await askGraph<{ findings: Finding[] }>("findings");
  if (answer) state.findings.value = answer.findings;
}

export async function showFinding(at: number): Promise<void> {
  await shown;
  if (!state.findings.value) await loadFindings();
  const finding = state.findings.value?.[at];
  if (!finding) return tell(t(state.info.value?.compare ? "noFindings" : "noOverflow"));
  state.tab.value = "findings";
  await reveal(finding.side, finding.node);
}

/** n and p: among the nodes of the filter; without one, among the suspicious ones. */
export async function step(backwards: boolean): Promise<void> {
  const classes = [...state.classes.value];
  const only = suspicious(state.info.value!, state.colour.value.by);
  if (!classes.length && only === null) return tell(t("nothingSuspicious"));
  const side = classes.length ? state.active.value : 0;
  const wanted: Wanted = classes.length ? { classes, side } : { only: only!, side };
  const from = state.selected.value[side] ?? undefined;
  const question = { ...wanted, from, backwards, reveal: true, known: knownLists() };
  const answer = await askGraph<{ node: NodeRow | null; tree?: TreeAnswer }>("next", question);
  if (!answer) return;
  if (!answer.node) tell(t("noNext"));
  else if (answer.tree) await showRevealed(answer.node.side, answer.node.name, answer.tree);
}
