// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Everything can be done with the keyboard alone.
import { useEffect, useRef } from "preact/hooks";
import { panes } from "./arranging";
import { setClasses } from "./colouring";
import { showFinding, step } from "./findings";
import { MORE_BEFORE, OPEN, ROW, ROW_HEIGHT, type Layout } from "./layout";
import { search } from "./lists";
import { matchSelected } from "./matching";
import { attempt } from "./notices";
import { loadMore, toggle } from "./opening";
import { fit, move, scroll, zoom } from "./panes";
import { select } from "./selecting";
import * as state from "./state";
import { t } from "./state";
import { changeTheme } from "./top_bar";
import { isOn as isTrend } from "./trend_state";
import type { Side } from "./types";
import type { Word } from "./words";

const TREND_KEYS: [string, Word][] = [["/", "keySearch"], ["+ −", "trendKeyZoom"], ["0", "trendWhole"], ["l", "trendLog"]];
const KEYS: [string, Word][] = [
  ["/", "keySearch"],
  ["n / p", "keyNext"],
  ["f", "keyFirst"],
  ["↑ ↓", "keyMove"],
  ["Shift ↑ ↓", "keyAlone"],
  ["→ ←", "keyOpen"],
  ["Enter", "keyToggle"],
  ["o", "keyPeer"],
  ["+ −", "keyZoom"],
  ["0", "keyFit"],
  ["m", "keyMatch"],
  ["d", "keyTheme"],
  ["Esc", "keyEscape"],
];

/** A key may come while the one before is still at work: its action waits. */
type Action = () => void | Promise<void>;
let last: Promise<void> = Promise.resolve();
const inTurn = (action: Action): void => {
  state.busy.value += 1;
  last = last.then(() => attempt(async () => void (await action()))).finally(() => void (state.busy.value -= 1));
};

const ACTIONS: Record<string, Action> = {
  "/": () => {
    state.tab.value = "search";
    requestAnimationFrame(() => (document.getElementById("search") as HTMLInputElement | null)?.select());
  },
  n: () => step(false),
  p: () => step(true),
  f: () => showFinding(0),
  o: otherSide,
  m: () => matchSelected(false),
  d: changeTheme,
  "+": () => zoom(1.25),
  "=": () => zoom(1.25),
  "-": () => zoom(0.8),
  "0": fit,
  "?": () => void (state.helpIsOpen.value = true),
};

const ON_GRAPH: Record<string, Action> = {
  ArrowDown: () => walk(1),
  ArrowUp: () => walk(-1),
  "Shift ArrowDown": () => walk(1, true),
  "Shift ArrowUp": () => walk(-1, true),
  ArrowRight: () => inward(),
  ArrowLeft: () => outward(),
  Enter: () => toggleActive(),
  " ": () => toggleActive(),
  PageDown: () => scroll(0, panes.height * 0.8),
  PageUp: () => scroll(0, -panes.height * 0.8),
  Home: () => walkTo(0),
  End: () => walkTo(-1),
};

export function listenToKeys(): () => void {
  const listen = (event: KeyboardEvent): void => {
    if (event.key === "Escape") return escape();
    const place = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || place.closest("input, select, textarea, [contenteditable]")) return;
    if (!state.info.value || state.helpIsOpen.value) return;
    const graph = place === document.body || place.tagName === "CANVAS";
    const onGraph = ON_GRAPH[`${event.shiftKey ? "Shift " : ""}${event.key}`] ?? ON_GRAPH[event.key];
    const action = ACTIONS[event.key] ?? (graph ? onGraph : undefined);
    if (!action) return;
    event.preventDefault();
    inTurn(action);
  };
  document.addEventListener("keydown", listen);
  return () => document.removeEventListener("keydown", listen);
}

function escape(): void {
  if (state.helpIsOpen.value) {
    state.helpIsOpen.value = false;
    return;
  }
  if (state.classes.value.size) setClasses(new Set());
  if (state.wanted.value.text) void attempt(() => search({ text: "" }));
  (document.activeElement as HTMLElement | null)?.blur();
}

/** The rows of the active side from top to bottom, those that stand for more children too. */
function rows(): number[] {
  const layout = state.layout.value;
  if (!layout) return [];
  const found: number[] = [];
  for (let i = 0; i < layout.id.length; i += 1) {
    if (layout.side[i] === state.active.value) found.push(i);
  }
  return found;
}

function activeId(): number {
  const name = state.activeName.value;
  return name === null ? -1 : state.tree.value.idOf(state.active.value, name);
}

/** `alone`: the other side keeps its selection. */
async function walk(by: number, alone = false): Promise<void> {
  const id = activeId();
  const layout = state.layout.value;
  const place = (): number => rows().findIndex((entry) => isNode(state.layout.value!, entry) && state.layout.value!.id[entry] === id);
  const next = (): number => (place() < 0 ? 0 : Math.max(0, Math.min(rows().length - 1, place() + by)));
  const entry = rows()[next()];
  if (layout && entry !== undefined && !isNode(layout, entry)) await loadMore(layout.id[entry]!, layout.kind[entry] === MORE_BEFORE);
  walkTo(next(), alone);
}

const isNode = (layout: Layout, entry: number): boolean => layout.kind[entry] === ROW || layout.kind[entry] === OPEN;

function walkTo(at: number, alone = false): void {
  const all = rows();
  const entry = all.at(at);
  const layout = state.layout.value;
  if (entry === undefined || !layout || !isNode(layout, entry)) return;
  const node = state.tree.value.node(layout.id[entry]!);
  if (!node) return;
  select(node.side, node.name, alone);
  intoSight(layout.y[entry]!, node.side);
}

function intoSight(y: number, side: Side): void {
  const view = state.view.value;
  const high = panes.height / view.scale;
  const margin = Math.min(60, high / 4);
  const top = view.y[side];
  const by = y < top + margin ? y - top - margin : y + ROW_HEIGHT > top + high - margin ? y + ROW_HEIGHT - top - high + margin : 0;
  if (by) move({ ...view, y: [view.y[0] + by, view.y[1] + by] });
}

function toggleActive(): Promise<void> | void {
  const id = activeId();
  if (id >= 0) return toggle(id);
}

function inward(): Promise<void> | void {
  const id = activeId();
  const tree = state.tree.value;
  if (id < 0) return walk(1);
  if (tree.node(id)!.children && !tree.expanded.has(id)) return toggle(id);
  walk(1);
}

function outward(): Promise<void> | void {
  const id = activeId();
  const tree = state.tree.value;
  if (id < 0) return;
  const parent = tree.parentOf(id);
  if (tree.expanded.has(id) && parent >= 0) return toggle(id);
  const node = tree.node(parent);
  if (!node) return;
  select(node.side, node.name);
  const layout = state.layout.value;
  const entry = layout?.id.indexOf(parent) ?? -1;
  if (layout && entry >= 0) intoSight(layout.y[entry]!, node.side);
}

function otherSide(): void {
  if (!state.info.value?.compare) return;
  state.active.value = (1 - state.active.value) as Side;
  document.querySelector<HTMLElement>(`canvas[data-side="${state.active.value}"]`)?.focus();
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} class="help-box" aria-label={t("helpTitle")} onClose={() => (state.helpIsOpen.value = false)}>
      <h2>{t("helpTitle")}</h2>
      <dl>
        {(isTrend.value ? TREND_KEYS : KEYS).map(([key, word]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={`${key} text`}>{t(word)}</dd>])}
      </dl>
      <p class="soft">{t(isTrend.value ? "trendMouse" : "helpMouse")}</p>
      {!isTrend.value && state.info.value?.compare && <p class="soft">{t("legendColours")}</p>}
      {!isTrend.value && state.info.value?.compare && <p class="soft">{t("legendNumbers")}</p>}
      <button class="primary" onClick={() => dialog.current!.close()}>{t("close")}</button>
    </dialog>
  );
}
