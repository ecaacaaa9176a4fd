// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The state of the page in its address, so that a link shows what its sender saw.
import type { Side } from "./types";

export interface Place {
  file?: string;
  step?: number;
  rank?: number;
  micro?: number;
  side?: Side;
  node?: string;
  by?: string;
  bounds?: number[];
  classes?: number[];
  text?: string;
  within?: string;
  kind?: number;
  listSide?: Side; // the side that is searched
  only?: string;
  sort?: string;
  descending?: boolean;
  tab?: string;
  lower?: string;
  open?: [Side, string][]; // opened modules; a counterpart is not named
  workspace?: string;
}

const OPEN = ["o", "g"] as const; // by side
const MOST = 2400; // characters for opened modules: an address must survive a mail

export function toFragment(place: Place): string {
  const words = new URLSearchParams();
  const put = (key: string, value: string | number | undefined): void => {
    if (value !== undefined && value !== "") words.set(key, String(value));
  };
  put("f", place.file);
  put("s", place.step);
  put("r", place.rank);
  if ((place.micro ?? -1) >= 0) put("m", place.micro);
  put("n", place.node === undefined ? undefined : `${place.side ?? 0}${place.node}`);
  if (place.by !== "index") put("by", place.by);
  if (place.bounds?.length) put("lim", place.bounds.join(" "));
  if (place.classes?.length) put("c", place.classes.join(" "));
  put("q", place.text);
  if (place.within !== "name") put("in", place.within);
  put("k", place.kind);
  put("qs", place.listSide);
  put("only", place.only);
  if (place.sort !== "order") put("sort", place.sort);
  if (place.descending) put("down", 1);
  put("t", place.tab);
  put("d", place.lower);
  put("w", place.workspace);
  let room = MOST;
  for (const [side, name] of place.open ?? []) {
    room -= name.length + 3;
    if (room < 0) break;
    words.append(OPEN[side], name);
  }
  return `#${words.toString()}`;
}

export function fromFragment(fragment: string): Place {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (key: string): string | undefined => words.get(key) ?? undefined;
  const whole = (key: string): number | undefined => {
    const value = words.get(key);
    return value !== null && /^\d{1,9}$/.test(value) ? Number(value) : undefined;
  };
  const list = (key: string): number[] | undefined => {
    const numbers = words.get(key)?.split(" ").map(Number).filter(Number.isFinite);
    return numbers?.length ? numbers : undefined;
  };
  const node = text("n");
  const workspace = text("w");
  const listSide = whole("qs");
  const opened = (side: Side): [Side, string][] => words.getAll(OPEN[side]).map((name) => [side, name]);
  return {
    file: text("f"),
    step: whole("s"),
    rank: whole("r"),
    micro: whole("m"),
    side: node?.startsWith("1") ? 1 : 0,
    node: node?.slice(1),
    by: text("by"),
    bounds: list("lim"),
    classes: list("c"),
    text: text("q"),
    within: text("in"),
    kind: whole("k"),
    listSide: listSide === 0 || listSide === 1 ? listSide : undefined,
    only: text("only"),
    sort: text("sort"),
    descending: words.has("down"),
    tab: text("t"),
    lower: text("d"),
    open: [...opened(0), ...opened(1)],
    workspace: workspace && /^[a-z0-9]{1,16}$/.test(workspace) ? workspace : undefined,
  };
}
