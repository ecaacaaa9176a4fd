// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where questions about what is shown go to.
import { EmbeddedSource, unpack } from "./embedded";
import { EmbeddedTrend } from "./embedded_trend";
import { HttpSource, type Question, type Source } from "./source";
import * as state from "./state";

const exported = document.getElementById("exported");
export const isExported = exported !== null;
export let source: Source = new HttpSource();

/** An exported page answers itself. */
export async function prepare(): Promise<void> {
  if (!exported) return;
  const content = await unpack(exported.textContent ?? "");
  source = content.trend ? new EmbeddedTrend(content.trend) : new EmbeddedSource(content);
}

export function about(): Question {
  return {
    file: state.file.value,
    step: state.step.value,
    rank: state.rank.value,
    micro: state.micro.value,
    workspace: state.workspace.value,
    colour: state.colour.value,
  };
}

/** The graph of the present step, rank and micro step is there: what the user asks for in between waits. */
export let shown: Promise<void> = Promise.resolve();

export function willShow(graph: Promise<unknown>): void {
  shown = graph.then(() => undefined, () => undefined);
}

export type Pending = { pending?: number };

/** An answer about the graph that is shown; waits while its values are being read. Null: it is not shown any more. */
export async function askGraph<Answer>(name: string, question: Question = {}): Promise<Answer | null> {
  await shown;
  if (!state.info.value) return null; // another file is being opened
  const asked = about();
  const sameGraph = (): boolean => (["file", "step", "rank", "micro"] as const).every((key) => about()[key] === asked[key]);
  state.busy.value += 1;
  try {
    for (;;) {
      const answer = await source.ask<Answer & Pending>(name, { ...asked, ...question });
      if (!sameGraph()) return null;
      if (answer.pending === undefined) return answer;
      await new Promise((done) => setTimeout(done, 400));
    }
  } finally {
    state.busy.value -= 1;
  }
}
