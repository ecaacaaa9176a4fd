// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Answers of an exported page about records of the monitor: what python/msprobe/trend/api.py put into it.
import { Refused, type Question, type Source } from "./source";

type Curve = ([number, number, ...unknown[]][] | null)[];

export interface TrendContent {
  version: string;
  runs: unknown;
  curves: Record<string, Curve>;
  bands: Record<string, (number | null)[]>;
  partings: unknown;
}

export class EmbeddedTrend implements Source {
  constructor(private readonly content: TrendContent) {}

  async ask<Answer>(name: string, question: Question): Promise<Answer> {
    return this.answer(name, question) as Answer;
  }

  private answer(name: string, question: Question): unknown {
    if (name === "files") return { trend: true, files: [], version: this.content.version };
    if (name === "runs") return this.content.runs;
    if (name === "partings") return this.content.partings;
    if (name === "curves") return { curves: this.curves(question as { keys: string[]; first: number; last: number }) };
    if (name === "band") return { band: this.band(question as { key: string; steps: number[] }) };
    throw new Refused("This node is not part of the exported page.");
  }

  private curves({ keys, first, last }: { keys: string[]; first: number; last: number }): Record<string, Curve> {
    const isInside = ([from, to]: [number, number, ...unknown[]]): boolean => to >= first && from <= last;
    return Object.fromEntries(keys.map((key) => [key, (this.content.curves[key] ?? []).map((points) => points && points.filter(isInside))]));
  }

  /** Of the model's series and those that part; the others have none. */
  private band({ key, steps }: { key: string; steps: number[] }): (number | null)[] {
    const band = this.content.bands[key];
    const points = this.content.curves[key]?.[0];
    if (!band || !points) return [];
    const places = new Map(points.map((point, at) => [point[0], band[at] ?? null]));
    return steps.map((step) => places.get(step) ?? null);
  }
}
