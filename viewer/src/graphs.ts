// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Which file is shown, and which of its graphs.
import { batch } from "@preact/signals";
import { fromFragment, type Place } from "./address";
import { arrange } from "./arranging";
import { about, prepare, source, willShow } from "./asking";
import { giveOwnData, missOwnData, refreshValues } from "./colouring";
import { loadFindings, showCause } from "./findings";
import { loadMatching } from "./matching";
import { attempt, tell } from "./notices";
import { openNames } from "./opening";
import { isOwn } from "./own_data";
import { applyPlace, openedNames } from "./place";
import { loadDetail, reveal } from "./selecting";
import { Refused, type Question } from "./source";
import * as state from "./state";
import { t } from "./state";
import { Tree } from "./tree";
import { isOn as isTrend, startTrend, version } from "./trend_state";
import type { FileEntry, Info, Side, TreeAnswer } from "./types";

export async function start(): Promise<void> {
  await prepare();
  await attempt(async () => {
    const answer = await source.ask<{ files: FileEntry[]; more?: boolean; dumps?: string[]; trend?: boolean; version?: string }>("files", {});
    if (answer.trend) {
      version.value = answer.version ?? "";
      await startTrend();
      return;
    }
    batch(() => {
      state.dumps.value = answer.dumps ?? [];
      state.hasMoreFiles.value = answer.more ?? false;
      state.files.value = answer.files;
    });
  });
  if (isTrend.value) return;
  // A link that is pasted into this tab: the one that came, as what is shown may have been written over it.
  window.addEventListener("hashchange", (event) => void attempt(() => openAddress(new URL(event.newURL).hash)));
  await openAddress(location.hash);
}

/** Shows what the fragment of an address says. */
async function openAddress(fragment: string): Promise<void> {
  const place = fromFragment(fragment);
  const files = state.files.value ?? [];
  const isKnown = files.some((entry) => entry.name === place.file);
  const only = files.length === 1 && !state.dumps.value.length ? files[0]!.name : undefined;
  const isElsewhere = place.file && state.file.value; // what is shown stays
  const name = isKnown ? place.file : isElsewhere ? undefined : state.file.value || only;
  if (name) await openFile(name, place);
  if (place.file && !isKnown) tell(t("notHere", place.file));
}

/** Once more, as the address wanted it. */
export async function tryAgain(): Promise<void> {
  const name = state.file.value;
  const place = fromFragment(location.hash);
  await openFile(name, (place.file ?? name) === name ? place : undefined);
}

/** Makes the graph of a dump, or of two compared, and opens it. */
export async function makeGraph(target: string, reference: string | null): Promise<void> {
  state.isMaking.value = true;
  try {
    await source.ask("make", { target, reference });
    for (;;) {
      const { done, file } = await source.ask<{ done: boolean; file?: string }>("made", {});
      if (done && file) {
        state.files.value = (await source.ask<{ files: FileEntry[] }>("files", {})).files;
        return await openFile(file);
      }
      await new Promise((later) => setTimeout(later, 400));
    }
  } finally {
    state.isMaking.value = false;
  }
}

let graphNumber = 0; // of the last one that was asked for

// ---- a file

export async function openFile(name: string, place?: Place): Promise<void> {
  graphNumber += 1; // a graph of the file before that is on its way stays there
  batch(() => {
    state.file.value = name;
    state.info.value = null;
    state.failure.value = "";
    state.notice.value = ""; // of the file before
    state.layout.value = null;
    forgetGraph(new Tree());
  });
  try {
    const info = await source.ask<Info>("open", { file: name });
    if (state.file.value !== name) return;
    const known = (values: number[], ...wanted: (number | undefined)[]): number => wanted.find((one) => one !== undefined && values.includes(one)) ?? values[0]!;
    const step = known(info.steps, place?.step, info.start?.[0]);
    const rank = known(info.ranks, place?.rank, info.start?.[1]);
    const micro = place?.micro !== undefined && place.micro < info.microSteps ? place.micro : -1;
    batch(() => {
      if (place) applyPlace(place);
      const { by } = state.colour.value;
      const isKnown = isOwn(by) || Object.hasOwn(info.scales, by);
      if (!isKnown || (!info.compare && !place?.by)) state.colour.value = { by: info.compare ? "index" : info.overflow ? "overflow" : "kind" };
      state.info.value = info;
      state.step.value = step;
      state.rank.value = rank;
      state.micro.value = micro;
      state.selected.value = [null, null];
    });
    document.title = `${name} · msprobe view`;
    const isPlain = place?.node === undefined && !place?.open?.length;
    await show({ step, rank, micro }, place?.open ?? [], place?.node === undefined ? null : [place.side ?? 0, place.node], isPlain);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.failure.value = error.message;
  }
}

/** What is known of the graph that was shown is nothing of the next one. */
function forgetGraph(next: Tree): void {
  state.tree.value = next;
  state.findings.value = null;
  state.matching.value = null;
  state.detail.value = null;
  state.listed.value = null;
}

// ---- a graph of it

interface GraphPlace {
  step: number;
  rank: number;
  micro: number;
}

/** Shows a graph, with what was open and selected before. `atCause`: at the cause that the file names, if any. */
async function show(place: GraphPlace, open: [Side, string][], node: [Side, string] | null, atCause = false): Promise<void> {
  const made = showGraph(place, open);
  willShow(made);
  if (!(await made)) return;
  if (state.progress.value < 1) void attempt(followProgress);
  else if (atCause) void attempt(showCause);
  else void attempt(loadFindings);
  void attempt(loadMatching);
  if (node) await attempt(() => reveal(node[0], node[1]));
}

/** False: the user has gone elsewhere meanwhile. */
async function showGraph(place: GraphPlace, open: [Side, string][]): Promise<boolean> {
  const number = (graphNumber += 1);
  const asked: Question = { ...about(), ...place };
  await giveOwnData(asked);
  const answer = await source.ask<TreeAnswer>("tree", asked);
  if (number !== graphNumber || asked.file !== state.file.value) return false;
  const tree = new Tree(state.info.value?.models);
  tree.take(answer);
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  batch(() => {
    state.step.value = place.step;
    state.rank.value = place.rank;
    state.micro.value = place.micro;
    state.progress.value = answer.ready ? 1 : answer.progress;
    forgetGraph(tree);
    state.view.value = { ...state.view.value, y: [0, 0] };
  });
  if (answer.ready) missOwnData(tree);
  if (open.length) await openNames(open);
  await arrange();
  return number === graphNumber;
}

async function followProgress(): Promise<void> {
  const tree = state.tree.value;
  while (state.tree.value === tree) {
    await new Promise((done) => setTimeout(done, 500));
    if (state.tree.value !== tree) return; // about() is of another file by now, maybe not wholly yet
    const answer = await source.ask<TreeAnswer>("tree", about());
    if (state.tree.value !== tree) return;
    state.progress.value = answer.ready ? 1 : answer.progress;
    if (answer.ready) break;
  }
  await giveOwnData(about());
  await refreshValues();
  await attempt(loadDetail); // of what was selected meanwhile
  await attempt(loadFindings);
}

/** Goes to another graph of the file and says whether it is shown now; where it cannot be, this one stays. */
export async function goTo(step: number, rank: number, micro = state.micro.value): Promise<boolean> {
  const side = state.active.value;
  const name = state.activeName.value;
  await attempt(() => show({ step, rank, micro }, openedNames(), name === null ? null : [side, name]));
  return state.step.value === step && state.rank.value === rank && state.micro.value === micro;
}
