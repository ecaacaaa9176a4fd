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
import { UNMATCHED, type Finding, type NodeRow, type Side, type TreeAnswer, type Wanted } from "./types";

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

/** The cause that the file names, where nothing was selected meanwhile. */
export async function showCause(): Promise<void> {
  await loadFindings();
  const first = state.findings.value?.[0];
  if (first?.kind === "stated" && state.activeName.value === null) await reveal(first.side, first.node);
}

/** n and p: among the nodes of the filter; without one, among the suspicious ones. */
export async function step(backwards: boolean): Promise<void> {
  const classes = [...state.classes.value];
  const only = suspicious(state.info.value!, state.colour.value.by);
  if (!classes.length && only === null) return tell(t("nothingSuspicious"));
  const own = classes.length ? state.active.value : 0;
  const ask = (side: Side) => {
    const wanted: Wanted = classes.length ? { classes, side } : { only: only!, side };
    const from = state.selected.value[side] ?? undefined;
    return askGraph<{ node: NodeRow | null; tree?: TreeAnswer }>("next", { ...wanted, from, backwards, reveal: true, known: knownLists() });
  };
  let answer = await ask(own);
  // What has no counterpart may be on the other side alone.
  if (answer && !answer.node && classes.includes(UNMATCHED)) answer = await ask((1 - own) as Side);
  if (!answer) return;
  if (!answer.node) tell(t("noNext"));
  else if (answer.tree) await showRevealed(answer.node.side, answer.node.name, answer.tree);
}
