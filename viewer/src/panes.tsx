// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Both sides of the graph. One view for both: what moves one side moves the other.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { panes } from "./arranging";
import { limited, MINIMAP, sheetWidth, type View } from "./camera";
import { INDENT, MORE_AFTER, MORE_BEFORE, OPEN, ROW_HEIGHT, type Layout } from "./layout";
import { attempt } from "./notices";
import { loadMore, toggle } from "./opening";
import { OVERFLOW_WORDS } from "./scales";
import { around, Scene, TEXT_FROM, type Edge, type Look } from "./scene";
import { select } from "./selecting";
import * as state from "./state";
import { t } from "./state";
import type { Tree } from "./tree";
import type { Side } from "./types";

const hovered = { id: -1 };
let redraw = (): void => {};

export function Panes() {
  const info = state.info.value!;
  const sides: Side[] = info.compare ? [1, 0] : [0]; // the reference at the left, as everywhere
  return (
    <div class={`panes ${sides.length === 2 ? "two" : "one"}`}>
      {sides.map((side) => <Pane key={side} side={side} alone={sides.length === 1} />)}
    </div>
  );
}

function Pane({ side, alone }: { side: Side; alone: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const name = alone ? t("graph") : t(side === 0 ? "target" : "reference");
  useEffect(() => connect(canvas.current!, side), [side]);
  useSignalEffect(() => draw(canvas.current!, side));
  return (
    <div class="pane">
      <div class="pane-head">
        <h2>{name}</h2>
        <span class="mono soft path">{state.selected.value[side] ?? ""}</span>
        {side === 0 && <ZoomButtons />}
      </div>
      <div class="pane-body">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label={t("region", name)}
          data-side={side}
          onFocus={() => (state.active.value = side)}
        />
      </div>
      <p class="unseen" aria-live="polite">{state.selected.value[side] ?? ""}</p>
    </div>
  );
}

function ZoomButtons() {
  return (
    <span class="group small">
      <button aria-label={t("zoomOut")} title={t("zoomOut")} onClick={() => zoom(1 / 1.25)}>−</button>
      <button aria-label={t("fit")} title={t("fit")} onClick={fit}>⤢</button>
      <button aria-label={t("zoomIn")} title={t("zoomIn")} onClick={() => zoom(1.25)}>+</button>
    </span>
  );
}

// ---- moving

const clampScale = (scale: number): number => Math.max(0.0002, Math.min(4, scale));

/** Zooms around a point of the window; without one around its middle. */
export function zoom(factor: number, at = { x: panes.width / 2, y: panes.height / 2 }): void {
  const view = state.view.value;
  const scale = clampScale(view.scale * factor);
  const moved = (value: number, place: number): number => value + place / view.scale - place / scale;
  // Bars that fill the window become rows again where their names can be read.
  const width = scale >= TEXT_FROM ? Math.min(view.width, sheetWidth(panes.width)) : view.width;
  move({ ...view, scale, width, x: moved(view.x, at.x), y: [moved(view.y[0], at.y), moved(view.y[1], at.y)] });
}

export function move(view: View): void {
  state.view.value = limited(view, state.layout.value?.total ?? 0, panes.width, panes.height);
}

export const scroll = (x: number, y: number): void => {
  const view = state.view.value;
  move({ ...view, x: view.x + x / view.scale, y: [view.y[0] + y / view.scale, view.y[1] + y / view.scale] });
};

/** The whole height. Where names cannot be read any more, rows become bars as wide as the window. */
export function fit(): void {
  const total = Math.max(state.layout.value?.total ?? 1, 1);
  const room = panes.width - MINIMAP - 4;
  const wanted = sheetWidth(panes.width);
  const scale = clampScale(Math.min(room / wanted, panes.height / total));
  const width = scale < TEXT_FROM ? room / scale : wanted;
  move({ scale, width, x: 0, y: [0, 0] });
}

/** The width: what a graph is opened with. */
export function fitWidth(): void {
  const width = sheetWidth(panes.width);
  const scale = clampScale(Math.min(1, (panes.width - MINIMAP - 4) / width));
  move({ ...state.view.value, scale, width, x: 0 });
}

// ---- mouse

const scenes = new WeakMap<HTMLCanvasElement, { tree: Tree; scene: Scene }>();
function sceneOf(canvas: HTMLCanvasElement): Scene {
  const tree = state.tree.value;
  let known = scenes.get(canvas);
  if (known?.tree !== tree) {
    known = { tree, scene: new Scene(tree) };
    scenes.set(canvas, known);
  }
  return known.scene;
}

function connect(canvas: HTMLCanvasElement, side: Side): () => void {
  const resized = new ResizeObserver(() => {
    const first = panes.width !== canvas.clientWidth;
    panes.width = canvas.clientWidth;
    panes.height = canvas.clientHeight;
    if (first) fitWidth();
    state.view.value = { ...state.view.value };
  });
  resized.observe(canvas);
  const at = (event: MouseEvent) => ({ x: event.offsetX, y: event.offsetY });
  const hit = (event: MouseEvent): number => {
    const layout = state.layout.value;
    return layout ? sceneOf(canvas).hit(layout, side, state.view.value, event.offsetX, event.offsetY) : -1;
  };
  let from: { x: number; y: number } | null = null;
  let dragged = false;
  let onMap = false;
  canvas.onpointerdown = (event) => {
    from = { x: event.clientX, y: event.clientY };
    dragged = false;
    onMap = event.offsetX > canvas.clientWidth - MINIMAP;
    canvas.setPointerCapture(event.pointerId);
    canvas.focus();
    if (onMap) jumpOnMap(event.offsetY);
  };
  canvas.onpointermove = (event) => {
    if (!from) {
      hover(canvas, hit(event));
      return;
    }
    if (onMap) return jumpOnMap(event.offsetY);
    const moved = { x: event.clientX - from.x, y: event.clientY - from.y };
    if (!dragged && Math.abs(moved.x) + Math.abs(moved.y) < 4) return;
    dragged = true;
    from = { x: event.clientX, y: event.clientY };
    scroll(-moved.x, -moved.y);
  };
  canvas.onpointerup = (event) => {
    if (from && !dragged && !onMap) click(hit(event), at(event), event.shiftKey);
    from = null;
  };
  canvas.onpointerleave = () => hover(canvas, -1);
  canvas.ondblclick = (event) => {
    const entry = hit(event);
    const layout = state.layout.value;
    if (layout && entry >= 0 && !onChevron(layout, entry, at(event))) void attempt(() => toggle(layout.id[entry]!));
  };
  const wheel = (event: WheelEvent): void => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY * 0.0022), at(event));
    else scroll(event.shiftKey ? event.deltaY : event.deltaX, event.shiftKey ? 0 : event.deltaY);
  };
  canvas.addEventListener("wheel", wheel, { passive: false });
  return () => {
    resized.disconnect();
    canvas.removeEventListener("wheel", wheel);
  };
}

function jumpOnMap(y: number): void {
  const total = state.layout.value?.total ?? 0;
  const ratio = Math.min(1, panes.height / Math.max(total, 1));
  const top = y / ratio - panes.height / state.view.value.scale / 2;
  move({ ...state.view.value, y: [top, top] });
}

function hover(canvas: HTMLCanvasElement, entry: number): void {
  const layout = state.layout.value;
  const id = layout && entry >= 0 ? layout.id[entry]! : -1;
  canvas.style.cursor = id >= 0 ? "pointer" : "grab";
  if (id === hovered.id) return;
  hovered.id = id;
  canvas.title = id >= 0 ? (state.tree.value.node(id)?.name ?? "") : "";
  redraw();
}

function onChevron(layout: Layout, entry: number, at: { x: number; y: number }): boolean {
  const view = state.view.value;
  const left = layout.depth[entry]! * INDENT + 6;
  const x = at.x / view.scale + view.x - left;
  const side = layout.side[entry] as Side;
  const y = at.y / view.scale + view.y[side] - layout.y[entry]!;
  if (x <= 0 || x >= 24) return false;
  if (y < ROW_HEIGHT) return true;
  const line = at.y / view.scale + view.y[side];
  const stuck = layout.kind[entry] === OPEN ? around(layout, side, view.y[side]).find((one) => one.entry === entry) : undefined;
  return stuck !== undefined && line >= stuck.y && line < stuck.y + ROW_HEIGHT;
}

function click(entry: number, at: { x: number; y: number }, alone: boolean): void {
  const layout = state.layout.value;
  if (!layout || entry < 0) return;
  const id = layout.id[entry]!;
  const kind = layout.kind[entry]!;
  if (kind === MORE_BEFORE || kind === MORE_AFTER) return void attempt(() => loadMore(id, kind === MORE_BEFORE));
  const node = state.tree.value.node(id);
  if (!node) return;
  if (node.children && onChevron(layout, entry, at)) return void attempt(() => toggle(id));
  select(node.side, node.name, alone);
}

// ---- drawing, once per frame

const wanted = new Set<HTMLCanvasElement>();
const paint = new Map<HTMLCanvasElement, () => void>();

function draw(canvas: HTMLCanvasElement, side: Side): void {
  const layout = state.layout.value;
  const view = state.view.value;
  void state.values.value;
  const look = lookOf();
  paint.set(canvas, () => {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (layout) canvas.dataset.boxes = String(sceneOf(canvas).draw(context, width, height, layout, side, view, { ...look, hovered: hovered.id }));
  });
  redraw = () => paint.forEach((_, one) => request(one));
  request(canvas);
}

function request(canvas: HTMLCanvasElement): void {
  if (!wanted.size) {
    requestAnimationFrame(() => {
      const all = [...wanted];
      wanted.clear();
      for (const one of all) if (one.isConnected) paint.get(one)?.();
    });
  }
  wanted.add(canvas);
}

const entries = new WeakMap<Layout, Map<number, number>>();
/** Which entry of the layout shows a node. */
function entriesOf(layout: Layout): Map<number, number> {
  let found = entries.get(layout);
  if (!found) {
    found = new Map();
    layout.id.forEach((id, entry) => layout.kind[entry]! <= OPEN && found!.set(id, entry));
    entries.set(layout, found);
  }
  return found;
}

/** Of the selected nodes; an end inside a closed module is that of the module. */
function edges(): Edge[] {
  const detail = state.detail.value;
  const layout = state.layout.value;
  if (!detail || !layout) return [];
  const places = entriesOf(layout);
  const tree = state.tree.value;
  const found: Edge[] = [];
  for (const node of [detail.target, detail.reference]) {
    if (!node || state.selected.value[node.side] !== node.name) continue;
    const own = places.get(tree.idOf(node.side, node.name));
    if (own === undefined) continue;
    for (const end of node.flow) {
      const shown = [end.node, ...[...end.around].reverse()].map((name) => places.get(tree.idOf(node.side, name))).find((entry) => entry !== undefined);
      if (shown === undefined || shown === own) continue;
      const edge = end.into ? { side: node.side, from: shown, to: own } : { side: node.side, from: own, to: shown };
      if (!found.some((one) => one.side === edge.side && one.from === edge.from && one.to === edge.to)) found.push(edge);
    }
  }
  return found;
}

export function lookOf(): Look {
  const tree = state.tree.value;
  const [target, reference] = state.selected.value;
  return {
    dark: state.dark.value,
    compares: state.info.value?.compare ?? false,
    palette: state.colours.value,
    classes: state.classes.value,
    culprits: new Set(state.culprits.value.map((one) => tree.idOf(one.side, one.node))),
    selected: [target === null ? -1 : tree.idOf(0, target), reference === null ? -1 : tree.idOf(1, reference)],
    hovered: hovered.id,
    rounding: state.info.value?.rounding ?? 64,
    hidesValues: ["overflow", "kind"].includes(state.colour.value.by),
    showsIndex: state.colour.value.by === "index",
    edges: edges(),
    notes: state.notes.value,
    words: { more: t("more"), worst: t("worst"), rounding: t("rounding"), overflow: OVERFLOW_WORDS.map((word) => t(word)) },
  };
}
