// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Records of the monitor: what is shown of them. The questions: python/msprobe/trend/api.py.
import { batch, computed, signal } from "@preact/signals";
import { isExported, source } from "./asking";
import { attempt } from "./notices";

/** First step, last step, least, most, mean, how many are not finite. */
export type Point = [number, number, number | null, number | null, number | null, number];
/** Step, rule, series, value, what was expected. */
export type Alarm = [number, string, string, number | string, number | null];
export interface Run {
  name: string;
  rank: number | null;
  steps: number;
  first: number;
  last: number;
  alarmCount: number;
  alarms: Alarm[];
}
export interface Series {
  key: string;
  quantity: string;
  metric: string;
  name: string;
  scope: string;
  layer: number;
  unit: string;
}
export interface Parting {
  step: number;
  series: string;
  reference: number | string;
  target: number | string;
  band: number;
}
export interface Comparison {
  fault?: string;
  steps: number;
  series: number;
  firstDifference: [number, string] | null;
  partingCount: number;
  partings: Parting[];
}
export type Curves = Record<string, (Point[] | null)[]>;

export const isOn = signal(false); // this page is about records of the monitor
export const version = signal("");
export const runs = signal<Run[]>([]);
export const series = signal<Series[]>([]);
export const partings = signal<{ done: boolean; progress: number; comparisons: Comparison[] } | null>(null);
export const hidden = signal<Set<number>>(new Set()); // runs
export const key = signal(""); // the series of the curves
export const scope = signal(""); // of the rows of the heat map
export const heat = signal(-1); // the run whose numbers it shows; -1: the difference of the second and the first
export const range = signal<[number, number] | null>(null); // steps; null: all
export const isLog = signal(false);
export const curve = signal<(Point[] | null)[]>([]);
export const band = signal<{ steps: number[]; half: (number | null)[] } | null>(null);
export const rows = signal<{ metric: string; keys: string[]; curves: Curves }>({ metric: "", keys: [], curves: {} });
export const at = signal<number | null>(null); // the step under the mouse
export const tab = signal<"start" | "series">("start");

const SCOPES = ["layer", "module", "parameter"];
const MOST_ROWS = 400;
const MOST_CELLS = 80_000;

export const metricOf = (one: Series): string => (one.metric ? `${one.quantity}.${one.metric}` : one.quantity);
export const byKey = computed(() => new Map(series.value.map((one) => [one.key, one])));
export const metrics = computed(() => [...new Set(series.value.map(metricOf))]);
export const metric = computed(() => {
  const one = byKey.value.get(key.value);
  return one ? metricOf(one) : (metrics.value[0] ?? "");
});
/** Of the rows of the map: a metric of the model alone, as the loss, has none; then those of another one are shown. */
export const rowMetric = computed(() => {
  const withRows = new Set(series.value.filter((one) => SCOPES.includes(one.scope)).map(metricOf));
  const parted = byKey.value.get(partings.value?.comparisons[0]?.partings?.[0]?.series ?? "");
  const wanted = [metric.value, parted ? metricOf(parted) : "", "gradient.norm"];
  return wanted.find((name) => withRows.has(name)) ?? [...withRows][0] ?? metric.value;
});
export const ofMetric = computed(() => series.value.filter((one) => metricOf(one) === rowMetric.value));
export const scopes = computed(() => SCOPES.filter((name) => ofMetric.value.some((one) => one.scope === name)));
export const shownScope = computed(() => (scopes.value.includes(scope.value) ? scope.value : (scopes.value[0] ?? "")));
export const whole = computed<[number, number]>(() => {
  const some = runs.value.filter((run) => run.steps > 0);
  return [Math.min(...some.map((run) => run.first)), Math.max(...some.map((run) => run.last))];
});
export const steps = computed(() => range.value ?? whole.value);
export const partingOf = (series: string): (Parting | undefined)[] =>
  (partings.value?.comparisons ?? []).map((one) => one.partings?.find((part) => part.series === series));

export async function startTrend(): Promise<void> {
  isOn.value = true;
  await loadRuns();
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name: string): number => Number(asked.get(name) ?? Number.NaN);
  batch(() => {
    if (runs.value.length < 2) heat.value = 0;
    const wanted = asked.get("k") ?? "";
    key.value = byKey.value.has(wanted) ? wanted : (series.value.find((one) => one.scope === "model")?.key ?? series.value[0]?.key ?? "");
    scope.value = asked.get("by") ?? "";
    isLog.value = asked.has("log");
    if (number("a") < number("b")) range.value = [Math.max(number("a"), whole.value[0]), Math.min(number("b"), whole.value[1])];
  });
  await Promise.all([asked.has("k") || runs.value.length < 2 ? load() : Promise.resolve(), followPartings(!asked.has("k"))]);
  if (!isExported) window.setInterval(() => void attempt(refresh), 10_000);
}

async function loadRuns(): Promise<void> {
  const answer = await source.ask<{ runs: Run[]; series: (string | number)[][] }>("runs", {});
  batch(() => {
    runs.value = answer.runs;
    series.value = answer.series.map(([key, quantity, metric, name, scope, layer, unit]) => ({ key, quantity, metric, name, scope, layer, unit }) as Series);
  });
}

/** A training that still runs. */
async function refresh(): Promise<void> {
  const before = JSON.stringify(runs.value);
  await loadRuns();
  if (JSON.stringify(runs.value) !== before && !range.value) await load();
}

/** `shows`: what parts first, when it is known; until then the loss, or what else is of the model. */
async function followPartings(shows: boolean): Promise<void> {
  if (runs.value.length < 2) return;
  const before = key.value;
  for (let turn = 0; ; turn += 1) {
    partings.value = await source.ask<NonNullable<typeof partings.value>>("partings", {});
    if (partings.value.done) break;
    if (shows && turn === 1) void attempt(load);
    await new Promise((later) => setTimeout(later, turn ? 300 : 100));
  }
  const first = partings.value.comparisons.find((one) => one.partings?.length)?.partings[0]?.series;
  if (shows && key.value === before) {
    key.value = first ?? before;
    await load();
  }
}

let asked = 0;
/** What the present choice shows; an answer to an older one is left alone. */
export async function load(): Promise<void> {
  const own = (asked += 1);
  rememberChoice();
  if (!key.value) return;
  const [first, last] = steps.value;
  const of = ofMetric.value.filter((one) => one.scope === shownScope.value).slice(0, MOST_ROWS);
  const columns = Math.round(Math.max(80, Math.min(700, MOST_CELLS / Math.max(of.length * runs.value.length, 1))));
  const ask = (keys: string[], points: number): Promise<{ curves: Curves }> => source.ask("curves", { keys, first, last, points });
  const [one, map] = await Promise.all([ask([key.value], 700), ask(of.map((row) => row.key), columns)]);
  if (own !== asked) return;
  batch(() => {
    curve.value = one.curves[key.value] ?? [];
    rows.value = { metric: of[0] ? metricOf(of[0]) : "", keys: of.map((row) => row.key), curves: map.curves };
    band.value = null;
  });
  const reference = curve.value[0];
  if (runs.value.length < 2 || !reference?.length) return;
  const places = reference.map((point) => point[0]);
  const { band: half } = await source.ask<{ band: (number | null)[] }>("band", { key: key.value, steps: places });
  if (own === asked) band.value = half.length ? { steps: places, half } : null;
}

function rememberChoice(): void {
  const words = new URLSearchParams({ k: key.value });
  if (scope.value) words.set("by", scope.value);
  if (isLog.value) words.set("log", "1");
  if (range.value) {
    words.set("a", String(range.value[0]));
    words.set("b", String(range.value[1]));
  }
  history.replaceState(null, "", `#${words.toString()}`);
}

// ---- what a user chooses

export function choose(series: string, step?: number): void {
  key.value = series;
  if (step !== undefined) showAround(step);
  void attempt(load);
}

/** The series of the whole model; without one the first of the metric. */
export function chooseMetric(name: string): void {
  const of = series.value.filter((one) => metricOf(one) === name);
  choose((of.find((one) => one.scope === "model") ?? of[0])!.key);
}

export function zoomTo(first: number, last: number): void {
  const [low, high] = whole.value;
  const from = Math.max(low, Math.round(Math.min(first, last)));
  const to = Math.min(high, Math.round(Math.max(first, last)));
  if (to <= from) return;
  range.value = from <= low && to >= high ? null : [from, to];
  void attempt(load);
}

export function zoomBy(factor: number): void {
  const [first, last] = steps.value;
  const centre = at.value ?? (first + last) / 2;
  zoomTo(centre - (centre - first) * factor, centre + (last - centre) * factor);
}

/** Keeps the width, unless everything is shown: then a part that one can read. */
function showAround(step: number): void {
  const [first, last] = steps.value;
  at.value = step;
  if (step >= first && step <= last) return;
  const half = (last - first) / 2;
  range.value = [Math.max(whole.value[0], Math.round(step - half)), Math.min(whole.value[1], Math.round(step + half))];
}

// ---- numbers

export function pointAt(points: Point[] | null | undefined, step: number): Point | undefined {
  if (!points?.length) return undefined;
  let [low, high] = [0, points.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]![1] < step) low = middle + 1;
    else high = middle;
  }
  const found = points[low]!;
  const before = points[low - 1];
  if (step < found[0] && before && step - before[1] < found[0] - step) return before;
  return found;
}

export const digits = (value: number | string | null | undefined): string =>
  typeof value === "number" ? String(Number(value.toPrecision(4))) : (value ?? "–");

/** The share of the reference by which the target is off; null: there is nothing to compare. */
export function apart(reference: Point | undefined, target: Point | undefined): number | null {
  if (!reference || !target) return null;
  if (reference[4] === null || target[4] === null) return reference[4] === target[4] ? 0 : Infinity;
  const size = Math.max(Math.abs(reference[4]), Math.abs(target[4]));
  return size === 0 ? 0 : Math.abs(target[4] - reference[4]) / size;
}
