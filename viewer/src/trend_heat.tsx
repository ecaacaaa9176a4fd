// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Layers (or modules, or parameters) over time: of one run its numbers, of two how far they are apart.
import { useEffect, useRef, useState } from "preact/hooks";
import * as state from "./state";
import { t } from "./state";
import { LEFT, RIGHT, useSize } from "./trend_chart";
import { badColour, differenceColour, LIMITS, valueColour } from "./trend_colours";
import * as trend from "./trend_state";
import { apart, digits, pointAt, type Point } from "./trend_state";

const LOWEST = 13; // pixels of a row: its name can be read

export function HeatMap() {
  const [box, width, height] = useSize();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [under, setUnder] = useState<{ row: number; step: number } | null>(null);
  const { keys } = trend.rows.value;
  const rowHeight = Math.max(LOWEST, Math.min(22, Math.floor(height / Math.max(keys.length, 1))));
  const [first, last] = trend.steps.value;
  const inner = Math.max(width - LEFT - RIGHT, 1);
  const shown = trend.heat.value;
  const rows = keys.map((key) => trend.rows.value.curves[key] ?? []);
  const place = (event: MouseEvent): { row: number; step: number } | null => {
    const area = canvas.current!.getBoundingClientRect();
    const row = Math.floor((event.clientY - area.top) / rowHeight);
    const share = (event.clientX - area.left - LEFT) / inner;
    return row < 0 || row >= keys.length ? null : { row, step: Math.round(first + Math.max(0, Math.min(1, share)) * (last - first)) };
  };
  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, width, rowHeight, keys, rows, shown);
  });
  void state.dark.value;
  return (
    <>
      <div class="pane-head">
        <b class="mono">{trend.rows.value.metric}</b>
        <Choices />
        <span class="fill" />
        {under ? <Cell name={keys[under.row] ?? ""} curves={rows[under.row] ?? []} step={under.step} /> : <Scale rows={rows} />}
      </div>
      <div class="heat-box" ref={box}>
        {keys.length ? (
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={`${t("trendHeat")}: ${trend.rows.value.metric}, ${keys.length}`}
            style={{ width: `${width}px`, height: `${keys.length * rowHeight}px` }}
            onPointerMove={(event) => {
              const found = place(event);
              setUnder(found);
              trend.at.value = found?.step ?? null;
            }}
            onPointerLeave={() => {
              setUnder(null);
              trend.at.value = null;
            }}
            onClick={(event) => {
              const found = place(event);
              if (found) trend.choose(keys[found.row]!);
            }}
          />
        ) : (
          <p class="pad soft">{t("trendNoRows")}</p>
        )}
      </div>
    </>
  );
}

function Choices() {
  const runs = trend.runs.value;
  return (
    <>
      <label class="place">
        {t("trendRows")}
        <select
          value={trend.shownScope.value}
          onChange={(event) => {
            trend.scope.value = event.currentTarget.value;
            void trend.load();
          }}
        >
          {trend.scopes.value.map((scope) => <option key={scope} value={scope}>{t(scope === "layer" ? "trendLayer" : scope === "module" ? "module" : "trendParameter")}</option>)}
        </select>
      </label>
      {runs.length > 1 && (
        <label class="place">
          {t("colourBy")}
          <select value={String(trend.heat.value)} onChange={(event) => (trend.heat.value = Number(event.currentTarget.value))}>
            <option value="-1">{t("trendApart", runs[1]!.name)}</option>
            {runs.map((run, number) => <option key={number} value={String(number)}>{run.name}</option>)}
          </select>
        </label>
      )}
    </>
  );
}

function Cell({ name, curves, step }: { name: string; curves: (Point[] | null)[]; step: number }) {
  const points = curves.map((points) => pointAt(points, step));
  const some = points.find((point) => point);
  const numbers = points.map((point) => digits(point?.[4])).join(" → ");
  return (
    <span class="readout">
      <b class="mono">{trend.byKey.value.get(name)?.name}</b>
      {some && <span class="soft">{some[0] === some[1] ? `${t("step")} ${some[0]}` : t("trendSteps", some[0], some[1])}</span>}
      <span>{numbers}</span>
    </span>
  );
}

/** What the colours mean. */
function Scale({ rows }: { rows: (Point[] | null)[][] }) {
  const dark = state.dark.value;
  if (trend.heat.value < 0) {
    const words = ["< 1e-6", "< 0.1 %", "< 1 %", "< 10 %", "≥ 10 %"];
    return <span class="readout">{words.map((word, at) => <span key={word}><i style={{ background: differenceColour(at ? LIMITS[at - 1]! : 0, dark) }} /> {word}</span>)}</span>;
  }
  const extent = extentOf(rows, trend.heat.value);
  if (!extent) return null;
  return (
    <span class="readout">
      {digits(extent.low)}
      {[0, 0.25, 0.5, 0.75, 1].map((share) => <i key={share} style={{ background: valueColour(share, dark) }} />)}
      {digits(extent.high)} {extent.isLog && <span class="soft">({t("trendLog")})</span>}
    </span>
  );
}

function extentOf(rows: (Point[] | null)[][], run: number): { low: number; high: number; isLog: boolean } | null {
  const means = rows.flatMap((curves) => (curves[run] ?? []).flatMap((point) => (point[4] === null ? [] : [point[4]])));
  if (!means.length) return null;
  const low = means.reduce((a, b) => Math.min(a, b));
  const high = means.reduce((a, b) => Math.max(a, b));
  return { low, high, isLog: low > 0 && high / low > 20 };
}

function draw(canvas: HTMLCanvasElement, width: number, rowHeight: number, keys: string[], rows: (Point[] | null)[][], shown: number): void {
  const ratio = window.devicePixelRatio || 1;
  const height = keys.length * rowHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const dark = state.dark.value;
  const [first, last] = trend.steps.value;
  const inner = width - LEFT - RIGHT;
  const x = (step: number): number => LEFT + ((step - first) / Math.max(last - first + 1, 1)) * inner;
  const extent = shown < 0 ? null : extentOf(rows, shown);
  pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
  pen.textBaseline = "middle";
  rows.forEach((curves, row) => {
    const top = row * rowHeight;
    const points = curves[Math.max(shown, 0)] ?? [];
    points.forEach((point, at) => {
      const next = points[at + 1];
      const until = next && next[0] - point[1] <= 2 * Math.max(1, point[1] - point[0] + 1) ? next[0] : point[1] + 1;
      const colour = colourOf(point, curves, shown, extent, dark);
      if (!colour) return;
      pen.fillStyle = colour;
      const from = Math.max(x(point[0]), LEFT);
      pen.fillRect(from, top, Math.max(Math.min(x(until), width - RIGHT) - from, 1) + 0.4, rowHeight - 1);
    });
    pen.fillStyle = style.getPropertyValue(keys[row] === trend.key.value ? "--accent" : "--soft");
    pen.fillText(fitted(pen, trend.byKey.value.get(keys[row]!)?.name ?? "", LEFT - 18), 10, top + rowHeight / 2);
  });
  drawMarks(pen, keys, rowHeight, x, dark, shown);
}

function colourOf(point: Point, curves: (Point[] | null)[], shown: number, extent: ReturnType<typeof extentOf>, dark: boolean): string | null {
  if (shown < 0) {
    const share = apart(point, pointAt(curves[1], point[0]));
    return share === null ? null : differenceColour(share, dark);
  }
  if (point[5] > 0) return badColour(dark);
  if (point[4] === null || !extent) return null;
  const { low, high, isLog } = extent;
  const share = high === low ? 0.5 : isLog ? Math.log(point[4] / low) / Math.log(high / low) : (point[4] - low) / (high - low);
  return valueColour(share, dark);
}

/** Alarms as dots, and where the runs diverge. */
function drawMarks(pen: CanvasRenderingContext2D, keys: string[], rowHeight: number, x: (step: number) => number, dark: boolean, shown: number): void {
  const [first, last] = trend.steps.value;
  const places = new Map(keys.map((key, row) => [key, row]));
  const isInside = (step: number): boolean => step >= first && step <= last;
  pen.strokeStyle = dark ? "#ffffff" : "#000000";
  for (const [number, run] of trend.runs.value.entries()) {
    if (shown >= 0 && number !== shown) continue;
    for (const alarm of run.alarms) {
      const row = places.get(alarm[2]);
      if (row === undefined || !isInside(alarm[0])) continue;
      pen.fillStyle = badColour(dark);
      pen.beginPath();
      pen.arc(x(alarm[0]), (row + 0.5) * rowHeight, Math.min(4, rowHeight / 2), 0, 7);
      pen.fill();
      pen.stroke();
    }
  }
  for (const part of trend.partings.value?.comparisons[0]?.partings ?? []) {
    const row = places.get(part.series);
    if (row === undefined || !isInside(part.step) || shown > 1) continue;
    pen.fillStyle = pen.strokeStyle;
    pen.fillRect(x(part.step) - 1, row * rowHeight, 2, rowHeight);
  }
}

function fitted(pen: CanvasRenderingContext2D, name: string, width: number): string {
  if (pen.measureText(name).width <= width) return name;
  let text = name;
  while (text.length > 1 && pen.measureText(`…${text}`).width > width) text = text.slice(1);
  return `…${text}`;
}
