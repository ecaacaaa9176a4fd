// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Draws one side on a canvas. Everything is text and rectangles: names are never HTML.
import { MINIMAP, type View } from "./camera";
import { colourOf, culpritColour, mix, softOn, textOn, type Palette } from "./colours";
import { INDENT, MORE_AFTER, MORE_BEFORE, OPEN, ROW_HEIGHT, type Layout } from "./layout";
import { label, short } from "./names";
import { ADDED, BY_HAND, marksOf, NOTE, REMOVED } from "./marks";
import type { Notes } from "./own_data";
import type { Tree } from "./tree";
import { NO_VALUE, UNMATCHED, type NodeRow, type Side } from "./types";

export interface Look {
  dark: boolean;
  compares: boolean; // two graphs
  palette: Palette;
  classes: Set<number>; // of the filter; empty: no filter
  culprits: Set<number>; // ids of the nodes in which the difference begins
  selected: [number, number];
  hovered: number;
  rounding: number;
  showsIndex: boolean;
  hidesValues: boolean; // of a colouring that is no measure
  edges: Edge[]; // of the selected node
  notes: Notes;
  words: { more: string; rounding: string; worst: string; overflow: string[] };
}

/** Where the data of a node goes: entries of the layout. */
export interface Edge {
  side: Side;
  from: number;
  to: number;
}

export const TEXT_FROM = 0.42; // smaller than this zoom names cannot be read
const LABEL = 15; // pixels, of a name over bars
const BARS_BELOW = 2; // pixels of a row: smaller ones are drawn as the worst of each line of the window
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif';

interface Ink {
  text: string;
  soft: string;
  line: string;
  accent: string;
  box: string[];
}

const inkOf = (dark: boolean): Ink =>
  dark
    ? { text: "#e7eaef", soft: "#98a2b1", line: "#39414d", accent: "#8ab4ff", box: ["#1a1f26", "#1e242c"] }
    : { text: "#171a20", soft: "#5b6472", line: "#cfd5de", accent: "#2459b8", box: ["#ffffff", "#f8f9fb"] };

export class Scene {
  private readonly widths = new Map<string, number>();
  private wide = 0; // of the view that is drawn
  private map: { canvas: HTMLCanvasElement; key: string } | null = null;

  constructor(private readonly tree: Tree) {}

  /** Which entry of the layout is at this point of the canvas; -1: none. The innermost one. */
  hit(layout: Layout, side: Side, view: View, x: number, y: number): number {
    const at = y / view.scale + view.y[side];
    const across = x / view.scale + view.x;
    if (view.scale >= TEXT_FROM) {
      const shown = around(layout, side, view.y[side]).find((one) => at >= one.y && at < one.y + ROW_HEIGHT);
      if (shown) return shown.entry;
    }
    let found = -1;
    for (let i = 0; i < layout.id.length; i += 1) {
      if (layout.side[i] !== side) continue;
      const top = layout.y[i]!;
      if (top > at) break;
      const inset = layout.depth[i]! * INDENT;
      if (at <= top + layout.height[i]! && across >= inset && across <= view.width - inset) found = i;
    }
    return found;
  }

  /** Gives back how many boxes are in sight. */
  draw(context: CanvasRenderingContext2D, width: number, height: number, layout: Layout, side: Side, view: View, look: Look): number {
    const ink = inkOf(look.dark);
    let drawn = 0;
    this.wide = view.width;
    context.clearRect(0, 0, width, height);
    if (view.scale * ROW_HEIGHT < BARS_BELOW) {
      const map = this.mapOf(layout, side, height, look);
      context.imageSmoothingEnabled = false;
      context.drawImage(map, 3, 0, 1, map.height, 0, -view.y[side] * view.scale, width - MINIMAP - 2, layout.total * view.scale);
      context.imageSmoothingEnabled = true;
      drawn = this.labels(context, width, height, layout, side, view, look, ink);
      this.minimap(context, width, height, layout, side, view, look, ink);
      return drawn;
    }
    context.save();
    context.scale(view.scale, view.scale);
    context.translate(-view.x, -view.y[side]);
    const from = view.y[side];
    const to = from + height / view.scale;
    const texts = view.scale >= TEXT_FROM;
    for (let i = 0; i < layout.id.length; i += 1) {
      const top = layout.y[i]!;
      if (top > to) break;
      if (layout.side[i] !== side || top + layout.height[i]! < from) continue;
      this.entry(context, layout, i, look, ink, texts);
      drawn += 1;
    }
    if (texts) look.edges.forEach((edge, lane) => edge.side === side && this.edge(context, layout, edge, lane % 5, ink));
    if (texts) this.stickyHeaders(context, layout, side, from, look, ink);
    context.restore();
    if (!texts) this.labels(context, width, height, layout, side, view, look, ink);
    this.minimap(context, width, height, layout, side, view, look, ink);
    return drawn;
  }

  /** Of rows that are too small for names: as many names as there is room for, the outermost modules first. Gives back
   * how many. */
  private labels(context: CanvasRenderingContext2D, width: number, height: number, layout: Layout, side: Side, view: View, look: Look, ink: Ink): number {
    const taken = new Uint8Array(Math.ceil(height / LABEL) + 2);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = `600 11px ${FONT}`;
    let count = 0;
    const picked = look.selected[side];
    const put = (i: number): void => {
      const y = (layout.y[i]! - view.y[side]) * view.scale;
      const line = Math.floor(y / LABEL) + 1;
      if (y < 0 || y > height - LABEL || taken[line - 1] || taken[line] || taken[line + 1]) return;
      const id = layout.id[i]!;
      const node = this.tree.node(id);
      if (!node) return;
      taken[line] = 1;
      count += 1;
      const parent = this.tree.node(this.tree.parentOf(id));
      const text = this.fit(context, label(node.name, parent?.name ?? "", this.tree.models[node.side])[0], width / 2);
      const x = Math.max(8, (layout.depth[i]! * INDENT + 6 - view.x) * view.scale + 8);
      context.fillStyle = look.dark ? "rgba(14,17,21,.86)" : "rgba(255,255,255,.9)";
      context.beginPath();
      context.roundRect(x, y, this.width(context, text) + 10, LABEL, 4);
      context.fill();
      context.strokeStyle = id === picked ? ink.accent : ink.line;
      context.lineWidth = id === picked ? 2 : 1;
      context.stroke();
      context.fillStyle = ink.text;
      context.fillText(text, x + 5, y + LABEL / 2 + 0.5);
    };
    layout.id.forEach((id, i) => layout.side[i] === side && id === picked && layout.kind[i]! <= OPEN && put(i));
    for (let depth = 0; depth < 6 && count < taken.length / 2; depth += 1) {
      for (let i = 0; i < layout.id.length; i += 1) {
        if (layout.side[i] === side && layout.depth[i] === depth && layout.kind[i]! <= OPEN) put(i);
      }
    }
    return count;
  }

  private entry(context: CanvasRenderingContext2D, layout: Layout, i: number, look: Look, ink: Ink, texts: boolean): void {
    const node = this.tree.node(layout.id[i]!);
    if (!node) return;
    const inset = layout.depth[i]! * INDENT + 6;
    const width = this.wide - 2 * inset;
    const kind = layout.kind[i]!;
    if (kind === MORE_BEFORE || kind === MORE_AFTER) {
      this.more(context, node, layout.id[i]!, kind, inset, layout.y[i]!, width, look, ink, texts);
      return;
    }
    const fill = this.fill(node, layout.id[i]!, look);
    const dimmed = !matches(node, look.classes);
    context.globalAlpha = dimmed ? 0.28 : 1;
    const open = kind === OPEN;
    const y = layout.y[i]!;
    if (!texts && look.selected[node.side] !== layout.id[i]!) {
      // Too small for corners and borders: only colours, so that thousands of rows move smoothly.
      context.fillStyle = open ? ink.line : fill;
      context.fillRect(inset, y, width, open ? ROW_HEIGHT : layout.height[i]!);
      if (open) context.fillRect(inset, y, 2, layout.height[i]!);
      context.globalAlpha = 1;
      return;
    }
    const radius = node.kind === 1 ? 11 : 6;
    context.beginPath();
    context.roundRect(inset, y, width, layout.height[i]!, open ? 7 : radius);
    context.fillStyle = open ? ink.box[layout.depth[i]! % 2]! : fill;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = mix(look.dark ? "#ffffff" : "#000000", open ? ink.line : fill, look.dark ? 0.16 : 0.14);
    context.setLineDash(node.kind === 9 ? [5, 3] : node.kind === 8 ? [2, 2] : []);
    context.stroke();
    context.setLineDash([]);
    if (open) this.header(context, inset, y, width, fill);
    const picked = look.selected[node.side] === layout.id[i]!;
    if (picked || look.hovered === layout.id[i]!) {
      context.lineWidth = picked ? 2.5 : 1.4;
      context.strokeStyle = ink.accent;
      context.beginPath();
      context.roundRect(inset, y, width, layout.height[i]!, open ? 7 : radius);
      context.stroke();
    }
    if (texts) this.words(context, node, open, layout.id[i]!, inset, y, width, fill, look, ink);
    context.globalAlpha = 1;
  }

  private fill(node: NodeRow, id: number, look: Look): string {
    return look.culprits.has(id) ? culpritColour(look.dark) : colourOf(look.palette, node.class);
  }

  private header(context: CanvasRenderingContext2D, x: number, y: number, width: number, fill: string): void {
    context.fillStyle = fill;
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, width - 1, ROW_HEIGHT - 1, [6.5, 6.5, 0, 0]);
    context.fill();
  }

  /** Along the left edge, with an arrow at the node that receives. */
  private edge(context: CanvasRenderingContext2D, layout: Layout, { from, to }: Edge, lane: number, ink: Ink): void {
    const place = (entry: number): [number, number] => [layout.depth[entry]! * INDENT + 6, layout.y[entry]! + ROW_HEIGHT / 2];
    const [[x, y], [endX, endY]] = [place(from), place(to)];
    const left = Math.max(1, Math.min(x, endX) - 4 - lane * 2.5);
    context.strokeStyle = ink.accent;
    context.fillStyle = ink.accent;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(x, y);
    context.arcTo(left, y, left, endY, 3);
    context.arcTo(left, endY, endX, endY, 3);
    context.lineTo(endX, endY);
    context.stroke();
    context.beginPath();
    context.moveTo(endX + 3, endY);
    context.lineTo(endX - 3, endY - 4);
    context.lineTo(endX - 3, endY + 4);
    context.fill();
    context.beginPath();
    context.arc(x, y, 2.5, 0, 2 * Math.PI);
    context.fill();
  }

  /** The opened modules around what stands at the top: their headers stay in sight, below each other. */
  private stickyHeaders(context: CanvasRenderingContext2D, layout: Layout, side: Side, from: number, look: Look, ink: Ink): void {
    for (const { entry, y } of around(layout, side, from)) {
      const node = this.tree.node(layout.id[entry]!);
      if (!node) continue;
      const inset = layout.depth[entry]! * INDENT + 6;
      const width = this.wide - 2 * inset;
      const fill = this.fill(node, layout.id[entry]!, look);
      this.header(context, inset, y, width, fill);
      context.strokeStyle = mix(look.dark ? "#ffffff" : "#000000", fill, 0.18);
      context.lineWidth = 1;
      context.strokeRect(inset + 0.5, y + 0.5, width - 1, ROW_HEIGHT - 1);
      this.words(context, node, true, layout.id[entry]!, inset, y, width, fill, look, ink);
    }
  }

  private words(context: CanvasRenderingContext2D, node: NodeRow, open: boolean, id: number, x: number, y: number, width: number, fill: string, look: Look, ink: Ink): void {
    const colour = textOn(fill);
    const soft = softOn(fill);
    const middle = y + ROW_HEIGHT / 2 + 0.5;
    context.textBaseline = "middle";
    context.textAlign = "left";
    let left = x + 9;
    if (node.children > 0) {
      this.chevron(context, left, middle, open, colour);
      left += 13;
    }
    const right = this.facts(context, node, open, x + width - 8, middle, colour, soft, look, ink);
    const parent = this.tree.node(this.tree.parentOf(id));
    const [first, second] = label(node.name, parent?.name ?? "", this.tree.models[node.side]);
    context.font = `600 12.5px ${FONT}`;
    context.fillStyle = colour;
    const room = right - left - 6;
    const shown = this.fit(context, first, room);
    context.fillText(shown, left, middle);
    const used = this.width(context, shown) + 7;
    if (second && room - used > 30) {
      context.font = `12px ${FONT}`;
      context.fillStyle = soft;
      context.fillText(this.fit(context, second, room - used), left + used, middle);
    }
  }

  private chevron(context: CanvasRenderingContext2D, x: number, y: number, open: boolean, colour: string): void {
    context.strokeStyle = colour;
    context.lineWidth = 1.6;
    context.beginPath();
    if (open) {
      context.moveTo(x, y - 2);
      context.lineTo(x + 3.5, y + 2);
      context.lineTo(x + 7, y - 2);
    } else {
      context.moveTo(x + 1.5, y - 3.5);
      context.lineTo(x + 5.5, y);
      context.lineTo(x + 1.5, y + 3.5);
    }
    context.stroke();
  }

  /** At the right: value, marks, and of what is below a module the counts and the strip. Gives back where it begins. */
  private facts(context: CanvasRenderingContext2D, node: NodeRow, open: boolean, right: number, middle: number, colour: string, soft: string, look: Look, ink: Ink): number {
    let x = right;
    context.textAlign = "right";
    const put = (text: string, font: string, style: string): void => {
      context.font = font;
      context.fillStyle = style;
      context.fillText(text, x, middle);
      x -= this.width(context, text) + 7;
    };
    const value = node.class === UNMATCHED || look.hidesValues ? "" : short(node.value);
    if (value) put(value, `600 11.5px ${FONT}`, colour);
    if (look.showsIndex && node.class > 1 && node.ulps !== null && node.ulps !== "inf" && node.ulps !== "-inf" && node.ulps <= look.rounding) {
      put(look.words.rounding, `italic 11px ${FONT}`, soft);
    }
    if (node.overflow > 0) put(look.words.overflow[node.overflow] ?? "", `600 10.5px ${FONT}`, colour);
    for (const mark of marksOf(node, look.compares, look.notes)) {
      if (mark === ADDED || mark === REMOVED) put(mark, `700 13px ${FONT}`, colour);
      else put(mark, `12px ${FONT}`, mark === BY_HAND || mark === NOTE ? ink.accent : soft);
    }
    if (node.below) x = this.below(context, node, open, x, middle, look, ink);
    context.textAlign = "left";
    return x;
  }

  private below(context: CanvasRenderingContext2D, node: NodeRow, open: boolean, right: number, middle: number, look: Look, ink: Ink): number {
    const below = node.below!;
    const cell = 4;
    let x = right - below.strip.length * cell - 2;
    context.fillStyle = look.dark ? "#0f1216" : "#ffffff";
    context.fillRect(x - 1, middle - 5, below.strip.length * cell + 2, 10);
    for (let index = 0; index < below.strip.length; index += 1) {
      context.fillStyle = colourOf(look.palette, classOfLetter(below.strip[index]!));
      context.fillRect(x + index * cell, middle - 4, cell - 0.6, 8);
    }
    context.strokeStyle = ink.line;
    context.lineWidth = 0.7;
    context.strokeRect(x - 1, middle - 5, below.strip.length * cell + 2, 10);
    x -= 9;
    if (open) return x;
    const worst = look.hidesValues || below.worst === node.value ? "" : short(below.worst);
    if (worst) {
      context.font = `11px ${FONT}`;
      context.fillStyle = softOn(colourOf(look.palette, node.class));
      const text = look.words.worst.replace("{}", worst);
      context.fillText(text, x, middle);
      x -= this.width(context, text) + 7;
    }
    context.font = `600 10.5px ${FONT}`;
    const chip = (count: number, fill: string): void => {
      if (!count) return;
      const text = count > 99_999 ? `${Math.round(count / 1000)}k` : String(count);
      const wide = this.width(context, text) + 9;
      context.fillStyle = fill;
      context.beginPath();
      context.roundRect(x - wide, middle - 7, wide, 14, 7);
      context.fill();
      context.strokeStyle = mix(look.dark ? "#ffffff" : "#000000", fill, 0.22);
      context.stroke();
      context.fillStyle = textOn(fill);
      context.textAlign = "center";
      context.fillText(text, x - wide / 2, middle + 0.5);
      context.textAlign = "right";
      x -= wide + 3;
    };
    chip(below.unmatched, look.palette.unmatched);
    const first = Math.max(1, below.counts.length - 3);
    for (let number = below.counts.length - 1; number >= first; number -= 1) chip(below.counts[number]!, colourOf(look.palette, number));
    return x - 4;
  }

  private more(context: CanvasRenderingContext2D, node: NodeRow, id: number, kind: number, x: number, y: number, width: number, look: Look, ink: Ink, texts: boolean): void {
    const known = this.tree.childrenOf(id);
    const count = known ? (kind === MORE_BEFORE ? known.from : (known.total ?? 0) - known.from - known.ids.length) : 0;
    context.strokeStyle = ink.line;
    context.setLineDash([3, 3]);
    context.strokeRect(x, y, width, ROW_HEIGHT);
    context.setLineDash([]);
    if (!texts) return;
    context.font = `12px ${FONT}`;
    context.fillStyle = ink.accent;
    context.textAlign = "center";
    context.fillText(`${kind === MORE_BEFORE ? "↑" : "↓"} ${look.words.more.replace("{}", count.toLocaleString())}`, x + width / 2, y + ROW_HEIGHT / 2);
    context.textAlign = "left";
    void node;
  }

  /** The whole side as a narrow picture at the right edge, with the part in sight. */
  private minimap(context: CanvasRenderingContext2D, width: number, height: number, layout: Layout, side: Side, view: View, look: Look, ink: Ink): void {
    const x = width - MINIMAP;
    const ratio = Math.min(1, height / Math.max(layout.total, 1));
    context.fillStyle = look.dark ? "#12161b" : "#eef0f4";
    context.fillRect(x, 0, MINIMAP, height);
    context.drawImage(this.mapOf(layout, side, height, look), x, 0, MINIMAP, height);
    const top = view.y[side] * ratio;
    const high = Math.max(6, (height / view.scale) * ratio);
    context.fillStyle = look.dark ? "rgba(138,180,255,.10)" : "rgba(36,89,184,.06)";
    context.fillRect(x, top, MINIMAP, high);
    context.strokeStyle = ink.accent;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, top + 0.5, MINIMAP - 1, high - 1);
  }

  private mapOf(layout: Layout, side: Side, height: number, look: Look): HTMLCanvasElement {
    const key = `${side}:${layout.total}:${layout.id.length}:${height}:${look.dark}:${look.palette.classes.join()}:${[...look.culprits].join()}:${mapVersion}`;
    if (this.map?.key === key) return this.map.canvas;
    const canvas = this.map?.canvas ?? document.createElement("canvas");
    canvas.width = MINIMAP;
    canvas.height = Math.max(1, Math.round(height));
    const context = canvas.getContext("2d")!;
    const ratio = Math.min(1, height / Math.max(layout.total, 1));
    const lines = new Int8Array(canvas.height).fill(-3);
    const begins: number[] = []; // lines of nodes in which the difference begins
    for (let i = 0; i < layout.id.length; i += 1) {
      if (layout.side[i] !== side || layout.kind[i]! > OPEN) continue;
      const node = this.tree.node(layout.id[i]!);
      if (!node) continue;
      const first = Math.floor(layout.y[i]! * ratio);
      const last = Math.max(first, Math.ceil((layout.y[i]! + ROW_HEIGHT) * ratio) - 1);
      if (look.culprits.has(layout.id[i]!)) begins.push(first);
      const worst = layout.kind[i] === OPEN ? node.class : worstOf(node);
      for (let line = first; line <= last && line < lines.length; line += 1) {
        if (rank(worst) > rank(lines[line]!)) lines[line] = worst;
      }
    }
    lines.forEach((number, line) => {
      if (number === -3) return;
      context.fillStyle = colourOf(look.palette, number);
      context.fillRect(3, line, MINIMAP - 5, 1);
    });
    context.fillStyle = culpritColour(look.dark);
    for (const line of begins) context.fillRect(1, line - 1, MINIMAP - 2, 4);
    this.map = { canvas, key };
    return canvas;
  }

  private width(context: CanvasRenderingContext2D, text: string): number {
    const key = `${context.font}|${text}`;
    let found = this.widths.get(key);
    if (found === undefined) {
      if (this.widths.size > 60_000) this.widths.clear();
      found = context.measureText(text).width;
      this.widths.set(key, found);
    }
    return found;
  }

  /** Cut in the middle: both ends of a name tell something. */
  private fit(context: CanvasRenderingContext2D, text: string, room: number): string {
    if (this.width(context, text) <= room) return text;
    let count = Math.floor((text.length * room) / this.width(context, text)) - 1;
    for (; count > 2; count -= 1) {
      const shown = `${text.slice(0, Math.ceil(count / 2))}…${text.slice(text.length - Math.floor(count / 2))}`;
      if (this.width(context, shown) <= room) return shown;
    }
    return room > 10 ? "…" : "";
  }
}

/** The opened modules whose header is above the window while their content is in it, and where it is shown. */
export function around(layout: Layout, side: Side, from: number): { entry: number; y: number }[] {
  const found: { entry: number; y: number }[] = [];
  let line = from;
  for (let i = 0; i < layout.id.length; i += 1) {
    if (layout.y[i]! >= line) break;
    if (layout.side[i] !== side || layout.kind[i] !== OPEN) continue;
    const bottom = layout.y[i]! + layout.height[i]! - ROW_HEIGHT;
    if (bottom <= line) continue;
    found.push({ entry: i, y: Math.min(line, bottom) });
    line = Math.min(line, bottom) + ROW_HEIGHT;
  }
  return found;
}

/** Changed when nodes have new values: the small picture is drawn again. */
let mapVersion = 0;
export const valuesChanged = (): void => {
  mapVersion += 1;
};

/** Unmatched is worse than good, and better than what is measured as bad. */
function rank(number: number): number {
  return number === UNMATCHED ? 0.5 : number;
}

export function worstOf(node: NodeRow): number {
  if (!node.below) return node.class;
  for (let number = node.below.counts.length - 1; number > 0; number -= 1) if (node.below.counts[number]) return number;
  return node.below.unmatched ? UNMATCHED : node.class;
}

const classOfLetter = (letter: string): number => (letter === "u" ? UNMATCHED : letter === "-" ? NO_VALUE : Number(letter));

/** Whether a node, or something below it, is what the filter wants. */
export function matches(node: NodeRow, classes: Set<number>): boolean {
  if (!classes.size || classes.has(node.class)) return true;
  if (!node.below) return false;
  for (const number of classes) {
    if (number === UNMATCHED ? node.below.unmatched > 0 : (node.below.counts[number] ?? 0) > 0) return true;
  }
  return false;
}

