// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Names and numbers as people read them.
import type { Value } from "./types";

/**
 * What a row says of a node: first what tells it from its neighbours, then the rest. A module loses the path of its
 * parent, which stands around it. The full name is in the details and in the tool tip. model: the class of the root.
 */
export function label(name: string, parent: string, model = "model"): [string, string] {
  const parts = name.split(".");
  if (name === "DefaultModel") return [model, ""];
  if (parts[0]!.startsWith("Apis_Between_Modules")) {
    const rank = parts[0]!.replace("Apis_Between_Modules", "").replaceAll("_", " ").trim().toLowerCase();
    return [`between modules ${parts.slice(1).join(".")}`.trim(), rank];
  }
  if (parts[0] === "Module" || parts[0] === "Cell") return moduleLabel(parts, parent);
  if (/^(forward|backward)$/.test(parts[parts.length - 1] ?? "") && parts.length >= 4) {
    const operator = parts.slice(1, -2).join(".");
    return [operator, `${parts[0]} ${parts[parts.length - 2]} ${parts[parts.length - 1]}`];
  }
  return [name, ""];
}

function moduleLabel(parts: string[], parent: string): [string, string] {
  const grad = parts[parts.length - 1] === "parameters_grad";
  const path = parts.slice(1, grad ? -1 : -3);
  const above = parent.split(".");
  const around = above[0] === parts[0] ? above.slice(1, -3) : [];
  let shared = 0;
  while (shared < around.length && around[shared] === path[shared]) shared += 1;
  const own = (shared === around.length ? path.slice(shared) : path).join(".");
  if (grad) return [own || path.join("."), "parameters_grad"];
  return [own || path.join(".") || parts.join("."), parts.slice(-3).join(" ")];
}

export function numberOf(value: Value): number {
  if (value === null) return Number.NaN;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
}

/** Three digits, short. */
export function short(value: Value): string {
  const number = numberOf(value);
  if (Number.isNaN(number)) return "";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "-∞";
  const size = Math.abs(number);
  if (number === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return number.toExponential(1).replace("e+", "e");
  if (Number.isInteger(number)) return String(number);
  return String(Number(number.toPrecision(3)));
}

export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${size >= 100 || at === 0 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/** Of a cell: "13.7%" is 0.137; NaN for what is no number. */
export function cellNumber(text: string | undefined): number {
  if (text === undefined) return Number.NaN;
  const trimmed = text.trim();
  if (trimmed === "") return Number.NaN;
  if (/^[+-]?inf(inity)?$/i.test(trimmed)) return trimmed.startsWith("-") ? -Infinity : Infinity;
  return trimmed.endsWith("%") ? Number(trimmed.slice(0, -1)) / 100 : Number(trimmed);
}
