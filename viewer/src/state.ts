// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What the page shows, as signals; what the user does changes them: see graphs.ts, opening.ts, selecting.ts and their neighbours.
import { computed, signal } from "@preact/signals";
import type { View } from "./camera";
import { inChinese } from "./chinese_sentences";
import { paled, palette } from "./colours";
import type { Layout } from "./layout";
import { keptOwnColours, ownColoursKey, type OwnColours } from "./own_colours";
import { keptOwnData, notesOf, type OwnData } from "./own_data";
import { UNREACHABLE } from "./source";
import { Tree } from "./tree";
import type { Colour, Detail, FileEntry, Finding, Info, Matches, NodeRow, Scale, Side, Wanted } from "./types";
import { say, type Language, type Word } from "./words";

export const kept = (key: string): string | null => {
  try {
    return localStorage.getItem(`msprobe.${key}`);
  } catch {
    return null; // a page that may not keep anything
  }
};
export const keep = (key: string, value: string): void => {
  try {
    localStorage.setItem(`msprobe.${key}`, value);
  } catch {
    // as above
  }
};

export const language = signal<Language>(
  (kept("language") as Language | null) ?? (navigator.language.startsWith("zh") ? "zh" : "en"),
);
export const t = (word: Word, ...values: (string | number)[]): string => say(language.value, word, ...values);
/** A sentence of the server or of a file, which are English. */
export const said = (sentence: string): string => {
  if (sentence === UNREACHABLE) return t("unreachable");
  return language.value === "zh" ? inChinese(sentence) : sentence;
};

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
export const dark = signal(kept("theme") ? kept("theme") === "dark" : prefersDark.matches);
prefersDark.addEventListener("change", () => {
  if (!kept("theme")) dark.value = prefersDark.matches;
});

export const files = signal<FileEntry[] | null>(null);
export const hasMoreFiles = signal(false); // than the server lists
export const dumps = signal<string[]>([]);
export const isMaking = signal(false); // a graph of dumps
export const file = signal("");
export const info = signal<Info | null>(null);
export const failure = signal(""); // why the file cannot be shown
export const notice = signal(""); // passes by
export const busy = signal(0);
export const progress = signal(1); // of the values of a large graph

export const step = signal(0);
export const rank = signal(0);
export const micro = signal(-1);
export const colour = signal<Colour>({ by: "index" });
export const classes = signal<Set<number>>(new Set());
export const ownColours = signal<OwnColours>(keptOwnColours());
export const ownData = signal<OwnData[]>(keptOwnData());
export const notes = computed(() => notesOf(ownData.value));
export const workspace = signal(kept("workspace") ?? "");

export const tree = signal(new Tree());
/** Grows when nodes have new values. */
export const values = signal(0);
export const layout = signal<Layout | null>(null);
export const view = signal<View>({ scale: 1, width: 640, x: 0, y: [0, 0] });
/** Names, one per side; a node and its counterpart are both selected. */
export const selected = signal<[string | null, string | null]>([null, null]);
export const active = signal<Side>(0);

export const detail = signal<Detail | null>(null);
export const findings = signal<Finding[] | null>(null);
export const matching = signal<Matches | null>(null);

export type Tab = "findings" | "search" | "structure" | "match" | "ranks";
export const tab = signal<Tab>("findings");
export type Lower = "tensors" | "flow" | "stack" | "merged" | "links";
export const lower = signal<Lower>("tensors");
export const EVERYTHING: Wanted = { text: "", within: "name", sort: "order", ascending: true };
export const wanted = signal<Wanted>(EVERYTHING);
export const listed = signal<{ total: number; nodes: (NodeRow | undefined)[] } | null>(null);
export const helpIsOpen = signal(false);

export const scale = computed<Scale>(() => {
  const known = info.value?.scales[colour.value.by];
  const bounds = colour.value.bounds;
  if (bounds?.length) return { bounds, classes: bounds.length + 1, smallIsBad: known?.smallIsBad ?? false };
  return known ?? { bounds: [], classes: 0, smallIsBad: false };
});

/** Where the difference begins, the first of the list; none in a colouring that is no measure of differences. */
export const culprits = computed(() => {
  const isMeasure = info.value?.compare && !["overflow", "kind"].includes(colour.value.by);
  return isMeasure ? (findings.value ?? []).slice(0, 1).filter((one) => !["rounding", "unmatched", "overflow"].includes(one.kind)) : [];
});

export const colours = computed(() => {
  if (!info.value) return { classes: [], unmatched: "#c7c7c7", none: "#eeeeee" };
  const whole = palette(info.value, colour.value.by, scale.value.classes, dark.value);
  const found = culprits.value.length ? paled(whole, dark.value) : whole;
  const own = ownColours.value[ownColoursKey(colour.value.by, dark.value)];
  return own?.length === found.classes.length ? { ...found, classes: own } : found;
});

export const activeName = computed(() => selected.value[active.value]);
