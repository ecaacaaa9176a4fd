// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The rows of the details table: target, reference and difference of a tensor in one row.
import { cellNumber, numberOf, short } from "./names";
import type { Cell, TensorRow } from "./types";

export const STATISTICS = ["Max", "Min", "Mean", "Norm"] as const;
const DIFFERENCES: Record<string, string> = { Max: "Max diff", Min: "Min diff", Mean: "Mean diff", Norm: "L2norm diff" };
// Shown beside the statistics where the file has them.
export const METRICS = ["Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio", "Result", "Err_message"];

export interface Column {
  key: string;
  head: string;
  group?: string;
  text: (row: TensorRow) => string;
  order: (row: TensorRow) => number | string;
  marks?: (row: TensorRow) => boolean; // whether the cell stands out
}

/** The name of a tensor inside its node. */
export function tensorName(row: TensorRow, node: string, peer: string): string {
  const name = row.name || row.peer;
  const owner = row.name ? node : peer;
  return name.startsWith(`${owner}.`) ? name.slice(owner.length + 1) : name;
}

function value(cell: Cell | null, name: string): string {
  return cell?.[name] ?? "";
}

/** Target minus reference: as the file has it, else from the two values. */
export function difference(row: TensorRow, statistic: string): string {
  const stated = row.target?.[DIFFERENCES[statistic]!];
  if (stated !== undefined && row.reference) return stated.trim();
  const [ours, theirs] = [cellNumber(row.target?.[statistic]), cellNumber(row.reference?.[statistic])];
  if (Number.isNaN(ours) || Number.isNaN(theirs)) return "";
  return String(Number((ours - theirs).toPrecision(7)));
}

export function relative(row: TensorRow, statistic: string): number {
  const gap = cellNumber(difference(row, statistic));
  const theirs = cellNumber(row.reference?.[statistic]);
  return theirs === 0 || Number.isNaN(gap) ? Number.NaN : Math.abs(gap / theirs);
}

/** Of both sides: once where they are equal. */
function both(row: TensorRow, name: string): string {
  const [ours, theirs] = [value(row.target, name), value(row.reference, name)];
  if (!row.reference || !row.target || ours === theirs) return ours || theirs;
  return `${ours} | ${theirs}`;
}

export function columnsOf(rows: TensorRow[], compare: boolean, node: string, peer: string, words: Record<string, string>): Column[] {
  const columns: Column[] = [
    { key: "name", head: words.tensor!, text: (row) => tensorName(row, node, peer), order: (row) => tensorName(row, node, peer) },
  ];
  if (compare) {
    columns.push({
      key: "ulps",
      head: words.distance!,
      text: (row) => short(row.ulps),
      order: (row) => numberOf(row.ulps),
      marks: (row) => numberOf(row.ulps) > 64,
    });
  }
  for (const [key, head] of [["dtype", words.dtype!], ["shape", words.shape!]] as const) {
    columns.push({
      key,
      head,
      text: (row) => both(row, key).replaceAll("torch.", ""),
      order: (row) => both(row, key),
      marks: (row) => both(row, key).includes(" | "),
    });
  }
  for (const statistic of STATISTICS) {
    if (!rows.some((row) => row.target?.[statistic] !== undefined || row.reference?.[statistic] !== undefined)) continue;
    const side = (at: "target" | "reference"): Column => ({
      key: `${statistic}.${at}`,
      head: words[at]!,
      group: statistic,
      text: (row) => value(row[at], statistic),
      order: (row) => cellNumber(row[at]?.[statistic]),
    });
    const only = rows.some((row) => row.target) ? "target" : "reference";
    columns.push(compare ? side("reference") : { ...side(only), head: statistic, group: undefined });
    if (!compare) continue;
    columns.push(side("target"), {
      key: `${statistic}.difference`,
      head: "Δ",
      group: statistic,
      text: (row) => difference(row, statistic),
      order: (row) => Math.abs(cellNumber(difference(row, statistic))),
      marks: (row) => relative(row, statistic) > 0.001 && numberOf(row.ulps) > 64,
    });
  }
  for (const metric of METRICS) {
    if (!rows.some((row) => row.target?.[metric] !== undefined) || (metric === "MaxRelativeErr" && rows.some((row) => row.target?.["Max diff"] !== undefined))) continue;
    columns.push({ key: metric, head: metric, text: (row) => value(row.target, metric).trim(), order: (row) => cellNumber(row.target?.[metric]), marks: (row) => ["Different", "error", "warning"].includes(value(row.target, metric)) });
  }
  for (const key of ["md5", "value", "requires_grad"]) {
    if (!rows.some((row) => row.target?.[key] !== undefined || row.reference?.[key] !== undefined)) continue;
    columns.push({ key, head: key === "value" ? words.value! : key, text: (row) => both(row, key), order: (row) => both(row, key), marks: (row) => both(row, key).includes(" | ") });
  }
  return columns;
}

/** NaN last, whatever the direction. */
export function sorted(rows: TensorRow[], column: Column | undefined, down: boolean): TensorRow[] {
  if (!column) return rows;
  const sign = down ? -1 : 1;
  const missing = (key: number | string): boolean => key === "" || (typeof key === "number" && Number.isNaN(key));
  return [...rows].sort((a, b) => {
    const [left, right] = [column.order(a), column.order(b)];
    if (missing(left) || missing(right)) return Number(missing(left)) - Number(missing(right));
    if (typeof left === "number" && typeof right === "number") return sign * (left === right ? 0 : left - right);
    return sign * String(left).localeCompare(String(right), "en", { numeric: true });
  });
}

/** For spreadsheets: heads, then a line per tensor; what could be a formula is made a text. */
function lines(rows: TensorRow[], columns: Column[], words: Record<string, string>): string[][] {
  const safe = (text: string): string => (/^[=+@\t\r]|^-(?![\d.]|inf)/.test(text) ? `'${text}` : text);
  const heads = [words.kind!, `${words.name} (${words.target})`, `${words.name} (${words.reference})`, ...columns.slice(1).map((column) => (column.group ? `${column.group} ${column.head}` : column.head))];
  const cells = rows.map((row) => [words[row.group] ?? row.group, row.name, row.peer, ...columns.slice(1).map((column) => column.text(row))]);
  return [heads, ...cells].map((line) => line.map(safe));
}

export function csv(rows: TensorRow[], columns: Column[], words: Record<string, string>): string {
  const quote = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return lines(rows, columns, words).map((line) => line.map(quote).join(",") + "\r\n").join("");
}

/** To be pasted into a spreadsheet: cells are parted by tabs. */
export function tabbed(rows: TensorRow[], columns: Column[], words: Record<string, string>): string {
  return lines(rows, columns, words).map((line) => line.map((text) => text.replace(/[\t\n\r]+/g, " ")).join("\t") + "\n").join("");
}
