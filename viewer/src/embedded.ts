// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Answers of an exported page: what python/msprobe/viewer/export.py put into it, asked as the server is asked.
import { numberOf } from "./names";
import { Refused, type Question, type Source } from "./source";
import type { TrendContent } from "./embedded_trend";
import { keyOf } from "./tree";
import type { Below, ChildList, Detail, Finding, Info, NodeRow, Side, TreeAnswer, Value, Wanted } from "./types";

type Stored = NodeRow & { parent: number | null };

export interface Content {
  trend?: TrendContent; // the page is about records of the monitor, and has nothing else
  file: string;
  info: Info;
  nodes: Stored[];
  scales: Record<string, [number, Value, Below | null][]>;
  details: Record<string, Detail>;
  findings: Finding[];
  overview: unknown;
  communication: unknown;
}

/** The content as it stands in the page: JSON, gzip, base64. */
export async function unpack(text: string): Promise<Content> {
  const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Content;
}

export class EmbeddedSource implements Source {
  private readonly places = new Map<string, number>(); // by side and place in the order of execution
  private readonly names = new Map<string, number>();
  private readonly children = new Map<string, number[]>();

  private readonly reading: number[]; // a module, then what is inside

  constructor(private readonly content: Content) {
    content.nodes.forEach((node, at) => {
      this.places.set(`${node.side}/${node.pos}`, at);
      this.names.set(keyOf(node.side, node.name), at);
    });
    content.nodes.forEach((node, at) => {
      if (node.parent === null) return;
      const key = `${node.side}/${node.parent}`;
      const list = this.children.get(key);
      if (list) list.push(at);
      else this.children.set(key, [at]);
    });
    this.reading = this.inReadingOrder();
  }

  private inReadingOrder(): number[] {
    const order: number[] = [];
    const waiting = this.content.nodes.flatMap((node, at) => (node.parent === null ? [at] : [])).reverse();
    while (waiting.length) {
      const at = waiting.pop()!;
      order.push(at);
      const node = this.content.nodes[at]!;
      waiting.push(...[...(this.children.get(`${node.side}/${node.pos}`) ?? [])].reverse());
    }
    return order;
  }

  ask<Answer>(name: string, question: Question): Promise<Answer> {
    const answers: Record<string, () => unknown> = {
      files: () => ({ files: [{ name: this.content.file, size: 0, time: 0 }] }),
      open: () => this.content.info,
      tree: () => this.tree(question),
      list: () => this.list(question),
      next: () => this.next(question),
      detail: () => this.detail(question),
      findings: () => ({ findings: this.content.findings }),
      overview: () => this.content.overview,
      communication: () => this.content.communication,
    };
    const answer = answers[name];
    if (!answer) return Promise.reject(new Refused("This is not possible in an exported page."));
    try {
      return Promise.resolve(answer() as Answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private by(question: Question): string {
    const by = (question.colour as { by?: string } | undefined)?.by ?? "index";
    return this.content.scales[by] ? by : Object.keys(this.content.scales)[0]!;
  }

  private row(at: number, by: string): NodeRow {
    const [number, value, below] = this.content.scales[by]![at]!;
    return { ...this.content.nodes[at]!, class: number, value, ...(below ? { below } : {}) };
  }

  private childList(at: number, by: string): ChildList {
    const node = this.content.nodes[at]!;
    const inside = this.children.get(`${node.side}/${node.pos}`) ?? [];
    return { side: node.side, name: node.name, offset: 0, nodes: inside.map((child) => this.row(child, by)), total: inside.length };
  }

  private tree(question: Question): TreeAnswer {
    const by = this.by(question);
    const roots = this.content.nodes.flatMap((node, at) => (node.parent === null ? [at] : []));
    const opened = new Set<number>();
    const answer: TreeAnswer = { roots: roots.map((at) => this.row(at, by)), lists: [], ready: true, progress: 1, whole: true };
    for (const [side, name] of (question.nodes as [Side, string][] | undefined) ?? []) {
      const at = this.names.get(keyOf(side, name));
      if (at !== undefined) opened.add(at);
    }
    if (typeof question.level === "number") {
      this.content.nodes.forEach((node, at) => {
        if (node.depth < (question.level as number) && node.children) opened.add(at);
      });
    }
    if (question.reveal) answer.revealed = this.reveal(question.reveal as [Side, string], opened);
    else if (!opened.size) roots.forEach((at) => opened.add(at));
    const downwards = [...opened].sort((a, b) => this.content.nodes[a]!.depth - this.content.nodes[b]!.depth);
    answer.lists = downwards.map((at) => this.childList(at, by));
    return answer;
  }

  private reveal([side, name]: [Side, string], opened: Set<number>): { side: Side; path: string[] }[] {
    const at = this.names.get(keyOf(side, name));
    if (at === undefined) return [];
    const node = this.content.nodes[at]!;
    const peer = node.peerPos === null ? undefined : this.places.get(`${1 - side}/${node.peerPos}`);
    const near = peer ?? this.nearest(node);
    if (peer === undefined && near !== undefined) opened.add(near);
    return [at, near].flatMap((start) => {
      if (start === undefined) return [];
      const path: string[] = [];
      for (let here: number | undefined = start; here !== undefined; ) {
        const now: Stored = this.content.nodes[here]!;
        path.unshift(now.name);
        here = now.parent === null ? undefined : this.places.get(`${now.side}/${now.parent}`);
        if (here !== undefined) opened.add(here);
      }
      return [{ side: this.content.nodes[start]!.side, path }];
    });
  }

  /** On the other side: the counterpart of the nearest module around a node that has one. */
  private nearest(node: Stored): number | undefined {
    let here: Stored | undefined = node;
    while (here && here.peerPos === null) here = here.parent === null ? undefined : this.content.nodes[this.places.get(`${here.side}/${here.parent}`)!];
    return here ? this.places.get(`${1 - here.side}/${here.peerPos}`) : undefined;
  }

  private wanted(question: Question & Wanted): number[] {
    const by = this.by(question);
    const fits = this.textFilter(question);
    const classes = question.classes?.length ? new Set(question.classes) : null;
    const found: number[] = [];
    this.content.nodes.forEach((node, at) => {
      if (question.side != null && node.side !== question.side) return;
      if (question.kind != null && node.kind !== question.kind) return;
      if (classes && (node.parent === null || !classes.has(this.content.scales[by]![at]![0]))) return;
      if (question.only && !this.only(question.only, node)) return;
      if (fits(node)) found.push(at);
    });
    return found;
  }

  private textFilter(question: Wanted): (node: Stored) => boolean {
    const text = question.text ?? "";
    if (!text) return () => true;
    if (question.within === "regex") {
      let pattern: RegExp;
      try {
        pattern = new RegExp(text, "i");
      } catch (error) {
        throw new Refused(`this is no regular expression: ${(error as Error).message}`);
      }
      return (node) => pattern.test(node.name);
    }
    const small = text.toLowerCase();
    if (question.within === "shape" || question.within === "stack") {
      return (node) => this.hasText(node, question.within!, small);
    }
    return (node) => node.name.toLowerCase().includes(small);
  }

  private hasText(node: Stored, within: string, small: string): boolean {
    const detail = this.detailOf(node);
    const own = node.side === 0 ? detail?.target : detail?.reference;
    if (within === "stack") return own?.stack.some((frame) => frame.toLowerCase().includes(small)) ?? false;
    return (
      detail?.rows.some((row) => {
        const cell = node.side === 0 ? row.target : row.reference;
        return `${(cell?.dtype ?? "").replace("torch.", "")}${cell?.shape ?? ""}`.toLowerCase().includes(small);
      }) ?? false
    );
  }

  private only(what: string, node: Stored): boolean {
    const alone = node.peerPos === null && node.parent !== null;
    const parent = node.parent === null ? undefined : this.content.nodes[this.places.get(`${node.side}/${node.parent}`)!];
    const tests: Record<string, boolean> = {
      leaves: node.children === 0,
      modules: node.children > 0,
      suspicious: numberOf(node.ulps) > this.content.info.rounding,
      overflowing: node.overflow > 0,
      added: node.side === 0 && alone,
      structure: (alone && (parent?.peerPos != null || parent?.parent === null)) || (node.side === 0 && node.how === "moved"),
    };
    return tests[what] ?? false;
  }

  private list(question: Question & Wanted): { total: number; nodes: NodeRow[] } {
    const sort = question.sort ?? "order";
    let found = this.wanted(question);
    if (sort === "name") found.sort((a, b) => this.content.nodes[a]!.name.localeCompare(this.content.nodes[b]!.name, "en"));
    else if (sort !== "order") {
      const values = this.content.scales[sort] ?? [];
      const key = (at: number): number => numberOf(values[at]?.[1] ?? null);
      const sign = question.ascending === false ? -1 : 1;
      found = found.filter((at) => !Number.isNaN(key(at))).sort((a, b) => (key(a) === key(b) ? 0 : sign * (key(a) - key(b))));
    }
    const by = this.by(question);
    const from = question.offset ?? 0;
    return { total: found.length, nodes: found.slice(from, from + (question.limit ?? 100)).map((at) => this.row(at, by)) };
  }

  private next(question: Question & Wanted): { node: NodeRow | null; tree?: TreeAnswer } {
    const side = question.side ?? 0;
    const start = this.names.get(keyOf(side, String(question.from ?? "")));
    const from = start === undefined ? -1 : this.reading.indexOf(start);
    const fits = new Set(this.wanted({ ...question, side }));
    const own = this.reading.map((at, place) => [place, at] as const).filter(([, at]) => fits.has(at));
    const found = question.backwards ? own.filter(([place]) => from < 0 || place < from).at(-1) : own.find(([place]) => place > from);
    if (!found) return { node: null };
    const node = this.row(found[1], this.by(question));
    return { node, tree: this.tree({ colour: question.colour, reveal: [node.side, node.name] }) };
  }

  private detailOf(node: Stored): Detail | undefined {
    const own = this.content.details[keyOf(node.side, node.name)];
    return own ?? (node.peer === null ? undefined : this.content.details[keyOf((1 - node.side) as Side, node.peer)]);
  }

  private detail(question: Question): Detail {
    const at = this.names.get(keyOf(question.side as Side, String(question.name)));
    const detail = at === undefined ? undefined : this.detailOf(this.content.nodes[at]!);
    if (!detail) throw new Refused("This node is not part of the exported page.");
    return detail;
  }
}
