// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The colours of the graph, the filter by them, and own data as colours.
import { batch } from "@preact/signals";
import { arrange } from "./arranging";
import { about, askGraph, isExported, source, type Pending } from "./asking";
import { search } from "./lists";
import { attempt, tell } from "./notices";
import { askLists, LONGEST_LIST, type ListPlace } from "./opening";
import { keepOwnColours, ownColoursKey } from "./own_colours";
import { isOwn, keepOwnData, ownKey, textsOf, type OwnData } from "./own_data";
import { rememberPlace } from "./place";
import { valuesChanged } from "./scene";
import type { Question } from "./source";
import * as state from "./state";
import { said, t } from "./state";
import type { Tree } from "./tree";
import type { Colour, Coloured, TreeAnswer } from "./types";

const MOST_VALUES = 9000; // in one question

export async function setColour(colour: Colour): Promise<void> {
  await giveOwnData({ ...about(), colour });
  await colourGraph(colour);
}

async function colourGraph(colour: Colour): Promise<void> {
  batch(() => {
    state.colour.value = colour;
    state.classes.value = new Set();
  });
  if (state.progress.value < 1 || isExported) return refreshValues();
  const searching = state.tab.value === "search" ? search() : null;
  await recolour();
  await searching;
}

/** The classes and values of all nodes that the page knows; where they stand stays as it is. */
async function recolour(): Promise<void> {
  const tree = state.tree.value;
  const ids: [number[], number[]] = [[], []];
  const places: [number[], number[]] = [[], []];
  tree.nodes.forEach((node, id) => {
    if (node.pos === null || ids[node.side].length >= MOST_VALUES) return;
    ids[node.side].push(id);
    places[node.side].push(node.pos);
  });
  const answer = await askGraph<{ sides: Coloured[] }>("values", { places });
  if (!answer || state.tree.value !== tree) return;
  answer.sides.forEach((side, at) => tree.recolour(ids[at]!, side));
  valuesChanged();
  state.values.value += 1;
  rememberPlace();
}

/** New values for all nodes that the page knows. */
export async function refreshValues(): Promise<void> {
  const tree = state.tree.value;
  const searching = ["search", "structure"].includes(state.tab.value) ? search() : null;
  const wanted: ListPlace[] = [];
  for (const id of tree.expanded) {
    const node = tree.node(id)!;
    const known = tree.childrenOf(id);
    for (let at = 0; known && at < known.ids.length; at += LONGEST_LIST) wanted.push([node.side, node.name, known.from + at]);
  }
  await askLists(tree, wanted, (nodes) => askGraph<TreeAnswer>("tree", { nodes }), (answer) => {
    tree.refresh(answer.roots.filter((root) => root !== null));
    for (const list of answer.lists) {
      const known = tree.childrenOf(tree.idOf(list.side, list.name));
      if (known && known.total === null) known.total = list.total;
      tree.refresh(list.nodes);
    }
  });
  if (state.tree.value !== tree) return;
  state.values.value += 1;
  await arrange();
  await searching;
}

/** The colour of a class, in this theme; null: all of this colouring as they were. */
export function setClassColour(number: number, to: string | null): void {
  const key = ownColoursKey(state.colour.value.by, state.dark.value);
  const { [key]: _, ...others } = state.ownColours.value;
  const classes = state.colours.value.classes.map((one, at) => (at === number ? to! : one.toLowerCase()));
  state.ownColours.value = to === null ? others : { ...others, [key]: classes };
  keepOwnColours(state.ownColours.value);
}

export function setClasses(classes: Set<number>): void {
  state.classes.value = classes;
  rememberPlace();
  if (state.tab.value === "search") void attempt(() => search());
}

// ---- own data

/** What the menu of colours offers. */
export function colourBy(by: string): Colour {
  const own = ownDataOf(by);
  return own?.bounds ? { by, bounds: own.bounds } : { by };
}

const ownDataOf = (by: string): OwnData | undefined => state.ownData.value.find(({ key }) => by === `own:${key}`);

interface OwnAnswer {
  by: string;
  bounds: number[];
  count: number;
}

export async function loadOwnData(name: string, text: string): Promise<void> {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch (error) {
    return tell(said(`own data: this is no JSON: ${(error as Error).message}`));
  }
  const key = ownKey(JSON.stringify(data));
  const notes = textsOf(data).length;
  const hasNumbers = notes === 0 || Object.values(data as object).some((value) => typeof value === "number");
  const answer = hasNumbers ? await askGraph<OwnAnswer>("own", { data, key }) : null;
  if (hasNumbers && !answer) return;
  const own: OwnData = { key, name, bounds: answer?.bounds ?? null, data };
  state.ownData.value = [...state.ownData.value.filter((one) => one.key !== key), own];
  keepOwnData(own);
  tell([answer && t("ownLoaded", answer.count), notes && t("notesLoaded", notes)].filter(Boolean).join(" "));
  if (answer) await colourGraph(colourBy(`own:${key}`));
}

/** Before a graph is coloured by own data the server is given them: it may never have had them for this graph. */
export async function giveOwnData(asked: Question): Promise<void> {
  const own = ownDataOf((asked.colour as Colour).by);
  if (own) await source.ask<OwnAnswer & Pending>("own", { ...asked, data: own.data, key: own.key });
}

/** A link is coloured by data of its sender, which the server may have lost. */
export function missOwnData(tree: Tree): void {
  const { by } = state.colour.value;
  if (!isOwn(by) || ownDataOf(by)) return;
  const counts = tree.roots.flatMap((root) => tree.node(root)?.below?.counts ?? []);
  if (counts.every((count) => count === 0)) tell(t("ownMissing"));
}
