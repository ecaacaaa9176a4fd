// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Numbers of the user that nodes can be coloured by, and texts: notes. The server keeps the numbers with each graph, by
// a key that is made of them, so nobody's data stand in for another's; the page keeps them to send them for the next graph.

export interface OwnData {
  key: string;
  name: string; // of the file
  bounds: number[] | null; // of the classes; null: there are no numbers, and nothing to colour by
  data: unknown; // node -> number or text
}

/** Node -> text. */
export type Notes = ReadonlyMap<string, string>;

const LONGEST_NOTE = 500; // characters

/** The texts of own data; of two for a node both. */
export function notesOf(all: OwnData[]): Notes {
  const notes = new Map<string, string>();
  for (const { data } of all) {
    for (const [node, text] of textsOf(data)) {
      const before = notes.get(node);
      notes.set(node, (before ? `${before} · ${text}` : text).slice(0, LONGEST_NOTE));
    }
  }
  return notes;
}

export function textsOf(data: unknown): [string, string][] {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return [];
  return Object.entries(data).filter((entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].trim() !== "");
}

export const isOwn = (by: string): boolean => by.startsWith("own:");

/** Small letters and digits, up to 16: the same for the same data. */
export function ownKey(text: string): string {
  const [a, b] = [hash(text, 0x811c9dc5), hash(text, 0x9e3779b9)];
  return (a.toString(36).padStart(7, "0") + b.toString(36).padStart(7, "0")).slice(0, 16);
}

/** FNV-1a with the last step of MurmurHash3. */
function hash(text: string, seed: number): number {
  let sum = seed;
  for (let at = 0; at < text.length; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  sum = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b);
  sum = Math.imul(sum ^ (sum >>> 13), 0xc2b2ae35);
  return (sum ^ (sum >>> 16)) >>> 0;
}

const PREFIX = "msprobe.own.";

/** What this tab was given before it was loaded again. */
export function keptOwnData(): OwnData[] {
  try {
    const keys = Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));
    return keys.map((key) => JSON.parse(sessionStorage.getItem(key)!) as OwnData);
  } catch {
    return []; // a page that may not keep anything
  }
}

export function keepOwnData(own: OwnData): void {
  try {
    sessionStorage.setItem(PREFIX + own.key, JSON.stringify(own));
  } catch {
    // too large: it is there until the page is loaded again
  }
}
