// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where answers come from: the server, or, in an exported page, the page itself.

import type { NodeRow } from "./types";

export type Question = Record<string, unknown>;

export interface Source {
  ask<Answer>(name: string, question: Question): Promise<Answer>;
}

/** A sentence for the user: what was asked cannot be answered. */
export class Refused extends Error {}

/** Instead of a sentence: there is no server. */
export const UNREACHABLE = "unreachable";

interface Packed {
  keys: string[];
  below: string[];
  rows: unknown[][];
}

/** Nodes as they come over the wire: see python/msprobe/viewer/packing.py. */
function nodesOf({ keys, below, rows }: Packed): NodeRow[] {
  const object = (names: string[], values: unknown[]): Record<string, unknown> => Object.fromEntries(values.map((value, at) => [names[at]!, value]));
  return rows.map((row) => {
    const node = object(keys, row);
    if (node.peer === true) node.peer = node.name;
    if (node.below) node.below = object(below, node.below as unknown[]);
    return node as unknown as NodeRow;
  });
}

export function unpacked(answer: Record<string, unknown>): Record<string, unknown> {
  const isPacked = (nodes: unknown): nodes is Packed => typeof nodes === "object" && nodes !== null && "rows" in nodes;
  if (isPacked(answer.nodes)) answer.nodes = nodesOf(answer.nodes);
  for (const list of (answer.lists as { nodes: unknown }[] | undefined) ?? []) if (isPacked(list.nodes)) list.nodes = nodesOf(list.nodes);
  if (answer.tree) unpacked(answer.tree as Record<string, unknown>);
  return answer;
}

export class HttpSource implements Source {
  async ask<Answer>(name: string, question: Question): Promise<Answer> {
    let response: Response;
    try {
      response = await fetch(`api/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
      });
    } catch {
      throw new Refused(UNREACHABLE);
    }
    const answer = (await response.json()) as Record<string, unknown> & { error?: string };
    if (!response.ok) throw new Refused(answer.error ?? `the viewer answered with status ${response.status}`);
    return unpacked(answer) as Answer;
  }
}
