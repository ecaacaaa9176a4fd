// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The list that is searched, filtered and ranked, a page at a time.
import { askGraph } from "./asking";
import { rememberPlace } from "./place";
import type { Question } from "./source";
import * as state from "./state";
import type { NodeRow, Wanted } from "./types";

const PAGE = 100;
let searchNumber = 0;

function question(): Question {
  const wanted = state.wanted.value;
  return { ...wanted, classes: wanted.only === "structure" ? [] : [...state.classes.value] };
}

/** The first page of the list that is wanted. */
export async function search(change: Wanted = {}): Promise<void> {
  state.wanted.value = { ...state.wanted.value, ...change };
  const number = (searchNumber += 1);
  const answer = await askGraph<{ total: number; nodes: NodeRow[] }>("list", { ...question(), offset: 0, limit: PAGE });
  if (!answer || number !== searchNumber) return;
  const nodes: (NodeRow | undefined)[] = Array.from({ length: answer.total });
  answer.nodes.forEach((node, i) => (nodes[i] = node));
  state.listed.value = { total: answer.total, nodes };
  rememberPlace();
}

const asking = new Set<number>();

/** The page of the list around this place. */
export async function loadList(at: number): Promise<void> {
  const list = state.listed.value;
  const page = Math.floor(at / PAGE);
  if (!list || list.nodes[at] || asking.has(page)) return;
  asking.add(page);
  try {
    const answer = await askGraph<{ total: number; nodes: NodeRow[] }>("list", { ...question(), offset: page * PAGE, limit: PAGE });
    if (!answer || state.listed.value !== list) return;
    const nodes = [...list.nodes];
    answer.nodes.forEach((node, i) => (nodes[page * PAGE + i] = node));
    state.listed.value = { total: list.total, nodes };
  } finally {
    asking.delete(page);
  }
}
