// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Both sides as a picture: PNG of what is in sight, SVG of all that is opened.
import { colourOf, culpritColour, textOn } from "./colours";
import { INDENT, OPEN, ROW, ROW_HEIGHT } from "./layout";
import { marksOf } from "./marks";
import { label, short } from "./names";
import * as state from "./state";
import { UNMATCHED } from "./types";

export function download(name: string, kind: string, content: string | Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type: kind }) : content);
  link.download = name.replace(/[^\w.\-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const baseName = (): string => state.file.value.split("/").pop()!.replace(/\.vis\.db$/, "");

export function savePng(): void {
  const shown = [...document.querySelectorAll<HTMLCanvasElement>(".pane canvas")];
  const whole = document.createElement("canvas");
  whole.width = shown.reduce((sum, canvas) => sum + canvas.width, 0);
  whole.height = Math.max(...shown.map((canvas) => canvas.height));
  const context = whole.getContext("2d")!;
  context.fillStyle = state.dark.value ? "#14181e" : "#ffffff";
  context.fillRect(0, 0, whole.width, whole.height);
  let x = 0;
  for (const canvas of shown) {
    context.drawImage(canvas, x, 0);
    x += canvas.width;
  }
  whole.toBlob((blob) => blob && download(`${baseName()}.png`, "image/png", blob));
}

export function saveSvg(): void {
  download(`${baseName()}.svg`, "image/svg+xml", svg());
}

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "?");

export function svg(): string {
  const layout = state.layout.value;
  const tree = state.tree.value;
  const colours = state.colours.value;
  const compares = state.info.value?.compare ?? false;
  const sides = compares ? 2 : 1;
  const hidesValues = ["overflow", "kind"].includes(state.colour.value.by);
  const dark = state.dark.value;
  const WIDE = state.view.value.width;
  const culprits = new Set(state.culprits.value.map((one) => tree.idOf(one.side, one.node)));
  const parts: string[] = [];
  for (let i = 0; layout && i < layout.id.length; i += 1) {
    const node = tree.node(layout.id[i]!);
    const kind = layout.kind[i]!;
    if (!node || (kind !== ROW && kind !== OPEN)) continue;
    const inset = layout.depth[i]! * INDENT + 6;
    const x = (compares ? 1 - layout.side[i]! : 0) * WIDE + inset; // the reference at the left
    const y = layout.y[i]!;
    const fill = culprits.has(layout.id[i]!) ? culpritColour(dark) : colourOf(colours, node.class);
    const box = (height: number, colour: string): string =>
      `<rect x="${x}" y="${y}" width="${WIDE - 2 * inset}" height="${height}" rx="${node.kind === 1 ? 11 : 6}" fill="${colour}" stroke="#8888"${node.kind === 9 ? ' stroke-dasharray="5 3"' : ""}/>`;
    if (kind === OPEN) parts.push(box(layout.height[i]!, dark ? "#1a1f26" : "#ffffff"));
    parts.push(box(ROW_HEIGHT, fill));
    const [first, second] = label(node.name, tree.node(tree.parentOf(layout.id[i]!))?.name ?? "", tree.models[node.side]);
    const value = node.class === UNMATCHED || hidesValues ? "" : short(node.value);
    const facts = [...marksOf(node, compares, state.notes.value).reverse(), value].filter(Boolean).join(" ");
    const style = `y="${y + 17}" fill="${textOn(fill)}"`;
    parts.push(`<g><title>${escaped(node.name)}</title><text x="${x + 10}" ${style}><tspan font-weight="600">${escaped(first)}</tspan> ${escaped(second)}</text></g>`);
    if (facts) parts.push(`<text x="${x + WIDE - 2 * inset - 8}" ${style} text-anchor="end" font-weight="600">${facts}</text>`);
  }
  const height = layout?.total ?? 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDE * sides}" height="${height}" viewBox="0 0 ${WIDE * sides} ${height}" font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="${dark ? "#0f1216" : "#f4f5f7"}"/>${parts.join("\n")}</svg>\n`;
}
