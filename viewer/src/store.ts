// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What the user does. Every action asks the source once and changes the signals once.
import { batch } from "@preact/signals";
import { fromFragment, toFragment, type Place } from "./address";
import { limited } from "./camera";
import { toClipboard } from "./clipboard";
import { EmbeddedSource, unpack } from "./embedded";
import type { Layout } from "./layout";
import { ROW_HEIGHT } from "./layout";
import LayoutWorker from "./layout_worker?worker&inline";
import { isOwn, keepOwnData, ownKey, type OwnData } from "./own_data";
import { valuesChanged } from "./scene";
import { HttpSource, Refused, type Question, type Source } from "./source";
import * as state from "./state";
import { said, t } from "./state";
import { Tree } from "./tree";
import type {
  Colour,
  Coloured,
  Detail,
  FileEntry,
  Finding,
  Info,
  Matches,
  NodeRow,
  Side,
  TreeAnswer,
  Wanted,
} from "./types";

const exported = document.getElementById("exported");
export const isExported = exported !== null;
let source: Source = new HttpSource();

/** The place of the graph on the screen, set by the panes. */
export const panes = { width: 600, height: 400 };

// ---- asking

function about(): Question {
  return {
    file: state.file.value,
    step: state.step.value,
    rank: state.rank.value,
    micro: state.micro.value,
    workspace: state.workspace.value,
    colour: state.colour.value,
  };
}

type Pending = { pending?: number };

/** The graph of the present step and rank is there: what the user asks for in between waits. */
let shown: Promise<void> = Promise.resolve();

/** An answer about the graph that is shown; waits while its values are being read. Null: it is not shown any more. */
async function askGraph<Answer>(name: string, question: Question = {}): Promise<Answer | null> {
  await shown;
  const asked = about();
  const sameGraph = (): boolean => (["file", "step", "rank"] as const).every((key) => about()[key] === asked[key]);
  state.busy.value += 1;
  try {
    for (;;) {
      const answer = await source.ask<Answer & Pending>(name, { ...asked, ...question });
      if (!sameGraph()) return null;
      if (answer.pending === undefined) return answer;
      await new Promise((done) => setTimeout(done, 400));
    }
  } finally {
    state.busy.value -= 1;
  }
}

/** Runs an action; what cannot be answered is said in the page. */
export async function attempt(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    tell(error.message === "unreachable" ? t("unreachable") : said(error.message));
  }
}

let noticeTimer = 0;
export function tell(text: string): void {
  state.notice.value = text;
  window.clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => (state.notice.value = ""), 7000);
}

export async function copy(text: string, done: string): Promise<void> {
  tell((await toClipboard(text)) ? done : t("copyRefused"));
}

// ---- file and graph

export async function start(): Promise<void> {
  if (exported) source = new EmbeddedSource(await unpack(exported.textContent ?? ""));
  await attempt(async () => {
    const answer = await source.ask<{ files: FileEntry[]; more?: boolean; dumps?: string[] }>("files", {});
    batch(() => {
      state.dumps.value = answer.dumps ?? [];
      state.hasMoreFiles.value = answer.more ?? false;
      state.files.value = answer.files;
    });
  });
  // A link that is pasted into this tab: the one that came, as what is shown may have been written over it.
  window.addEventListener("hashchange", (event) => void attempt(() => openAddress(new URL(event.newURL).hash)));
  await openAddress(location.hash);
}

/** Shows what the fragment of an address says. */
async function openAddress(fragment: string): Promise<void> {
  const place = fromFragment(fragment);
  const files = state.files.value ?? [];
  const isKnown = files.some((entry) => entry.name === place.file);
  if (place.file && !isKnown) tell(t("notHere", place.file));
  const only = files.length === 1 && !state.dumps.value.length ? files[0]!.name : undefined;
  const isElsewhere = place.file && state.file.value; // what is shown stays
  const name = isKnown ? place.file : isElsewhere ? undefined : state.file.value || only;
  if (name) await openFile(name, place);
}

/** Once more, as the address wanted it. */
export async function tryAgain(): Promise<void> {
  const name = state.file.value;
  const place = fromFragment(location.hash);
  await openFile(name, (place.file ?? name) === name ? place : undefined);
}

/** What an address says besides the file and the graph. */
function applyPlace(place: Place): void {
  state.colour.value = { by: place.by ?? "index", bounds: place.bounds };
  state.classes.value = new Set(place.classes);
  state.workspace.value = place.workspace ?? state.kept("workspace") ?? "";
  state.wanted.value = {
    ...state.EVERYTHING,
    text: place.text ?? "",
    within: (place.within as Wanted["within"]) ?? "name",
    kind: place.kind,
    side: place.listSide,
    only: place.only,
    sort: place.sort ?? "order",
    ascending: !place.descending,
  };
  state.tab.value = (place.tab as state.Tab) ?? "findings";
  state.lower.value = (place.lower as state.Lower) ?? "tensors";
}

/** Makes the graph of a dump, or of two compared, and opens it. */
export async function makeGraph(target: string, golden: string | null): Promise<void> {
  state.isMaking.value = true;
  try {
    await source.ask("make", { target, golden });
    for (;;) {
      const { done, file } = await source.ask<{ done: boolean; file?: string }>("made", {});
      if (done && file) {
        state.files.value = (await source.ask<{ files: FileEntry[] }>("files", {})).files;
        return await openFile(file);
      }
      await new Promise((later) => setTimeout(later, 400));
    }
  } finally {
    state.isMaking.value = false;
  }
}

export async function openFile(name: string, place?: Place): Promise<void> {
  batch(() => {
    state.file.value = name;
    state.info.value = null;
    state.failure.value = "";
    state.layout.value = null;
    forgetGraph(new Tree());
  });
  try {
    const info = await source.ask<Info>("open", { file: name });
    if (state.file.value !== name) return;
    const step = info.steps.includes(place?.step ?? -1) ? place!.step! : info.steps[0]!;
    const rank = info.ranks.includes(place?.rank ?? -1) ? place!.rank! : info.ranks[0]!;
    const micro = place?.micro !== undefined && place.micro < info.microSteps ? place.micro : -1;
    batch(() => {
      if (place) applyPlace(place);
      const { by } = state.colour.value;
      const isKnown = isOwn(by) || Object.hasOwn(info.scales, by);
      if (!isKnown || (!info.compare && !place?.by)) state.colour.value = { by: info.compare ? "index" : info.overflow ? "overflow" : "kind" };
      state.info.value = info;
      state.step.value = step;
      state.rank.value = rank;
      state.micro.value = micro;
      state.selected.value = [null, null];
    });
    document.title = `${name} · msprobe view`;
    await show({ step, rank, micro }, place?.open ?? [], place?.node === undefined ? null : [place.side ?? 0, place.node]);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.failure.value = error.message === "unreachable" ? t("unreachable") : error.message;
  }
}

/** What is known of the graph that was shown is nothing of the next one. */
function forgetGraph(next: Tree): void {
  state.tree.value = next;
  state.findings.value = null;
  state.matching.value = null;
  state.detail.value = null;
  state.listed.value = null;
}

interface GraphPlace {
  step: number;
  rank: number;
  micro: number;
}

/** Shows a graph, with what was open and selected before. */
async function show(place: GraphPlace, open: [Side, string][], node: [Side, string] | null): Promise<void> {
  const made = showGraph(place, open);
  shown = made.then(() => undefined, () => undefined);
  if (!(await made)) return;
  if (state.progress.value < 1) void attempt(followProgress);
  else void attempt(loadFindings);
  void attempt(loadMatching);
  if (node) await attempt(() => reveal(node[0], node[1]));
}

let graphNumber = 0;

/** False: the user has gone elsewhere meanwhile. */
async function showGraph(place: GraphPlace, open: [Side, string][]): Promise<boolean> {
  const number = (graphNumber += 1);
  const asked: Question = { ...about(), ...place };
  await giveOwnData(asked);
  const answer = await source.ask<TreeAnswer>("tree", asked);
  if (number !== graphNumber || asked.file !== state.file.value) return false;
  const tree = new Tree();
  tree.take(answer);
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  batch(() => {
    state.step.value = place.step;
    state.rank.value = place.rank;
    state.micro.value = place.micro;
    state.progress.value = answer.ready ? 1 : answer.progress;
    forgetGraph(tree);
    state.view.value = { ...state.view.value, y: [0, 0] };
  });
  if (answer.ready) missOwnData(tree);
  if (open.length) await openNames(open);
  await arrange();
  return number === graphNumber;
}

async function followProgress(): Promise<void> {
  const tree = state.tree.value;
  while (state.tree.value === tree) {
    await new Promise((done) => setTimeout(done, 500));
    const answer = await source.ask<TreeAnswer>("tree", about());
    if (state.tree.value !== tree) return;
    state.progress.value = answer.ready ? 1 : answer.progress;
    if (answer.ready) break;
  }
  await giveOwnData(about());
  await refreshValues();
  await attempt(loadDetail); // of what was selected meanwhile
  await attempt(loadFindings);
}

/** Goes to another graph of the file and says whether it is shown now; where it cannot be, this one stays. */
export async function goTo(step: number, rank: number, micro = state.micro.value): Promise<boolean> {
  const side = state.active.value;
  const name = state.activeName.value;
  await attempt(() => show({ step, rank, micro }, openedNames(), name === null ? null : [side, name]));
  return state.step.value === step && state.rank.value === rank && state.micro.value === micro;
}

/** The modules that are open, the outermost first; a counterpart that is open too is not named. */
function openedNames(): [Side, string][] {
  const tree = state.tree.value;
  const ids = [...tree.expanded].filter((id) => !tree.roots.includes(id) && (tree.node(id)!.side === 0 || !tree.expanded.has(tree.peerOf(id))));
  const nodes = ids.map((id) => tree.node(id)!).sort((a, b) => a.depth - b.depth);
  return nodes.map((node) => [node.side, node.name]);
}

async function loadFindings(): Promise<void> {
  const answer = await askGraph<{ findings: Finding[] }>("findings");
  if (answer) state.findings.value = answer.findings;
}

// ---- layout

let worker: Worker | null = null;
let layoutNumber = 0;
const waiting = new Map<number, (layout: Layout) => void>();

export async function arrange(): Promise<void> {
  worker ??= makeWorker();
  const number = (layoutNumber += 1);
  const done = new Promise<Layout>((resolve) => waiting.set(number, resolve));
  state.busy.value += 1;
  worker.postMessage({ number, input: state.tree.value.layoutInput() });
  const layout = await done;
  state.busy.value -= 1;
  if (number === layoutNumber) {
    valuesChanged();
    state.layout.value = layout;
    rememberPlace();
  }
}

function makeWorker(): Worker {
  const made = new LayoutWorker();
  made.onmessage = (event: MessageEvent<{ number: number; layout: Layout }>) => {
    waiting.get(event.data.number)?.(event.data.layout);
    waiting.delete(event.data.number);
  };
  return made;
}

// ---- opening and closing

type ListPlace = [Side, string, number]; // side, name, and from which child on
const MOST_NODES = 3000; // of one answer, whatever they are called
const MOST_VALUES = 9000;
const LONGEST_LIST = 500;

/** Lists of children, in so many questions that no answer is cut short. */
async function askLists(tree: Tree, wanted: ListPlace[], ask: (nodes: ListPlace[]) => Promise<TreeAnswer | null>, use: (answer: TreeAnswer) => void): Promise<void> {
  let portion: ListPlace[] = [];
  let room = MOST_NODES;
  const send = async (): Promise<void> => {
    const answer = portion.length ? await ask(portion) : null;
    if (answer && state.tree.value === tree) use(answer);
    portion = [];
    room = MOST_NODES;
  };
  for (const place of wanted) {
    const count = Math.min(LONGEST_LIST, tree.node(tree.idOf(place[0], place[1]))?.children ?? LONGEST_LIST);
    if (count > room || portion.length >= 400) await send();
    portion.push(place);
    room -= count;
  }
  await send();
}

/** Opens modules, and their counterparts. Those of an address come before anything is known of them. */
async function openNames(names: [Side, string][]): Promise<void> {
  const tree = state.tree.value;
  const peers = (): [Side, string][] =>
    names.flatMap(([side, name]): [Side, string][] => {
      const peer = tree.node(tree.idOf(side, name))?.peer;
      return peer == null ? [] : [[(1 - side) as Side, peer]];
    });
  const load = async (wanted: [Side, string][]): Promise<void> => {
    const missing = wanted.filter(([side, name]) => !tree.isKnown(tree.idOf(side, name)));
    const places = missing.map(([side, name]): ListPlace => [side, name, 0]);
    await askLists(tree, places, (nodes) => source.ask<TreeAnswer>("tree", { ...about(), nodes }), (answer) => tree.take(answer));
  };
  await load([...peers(), ...names]);
  await load([...peers(), ...names]); // the peers that are known by now, and what only the other side has in them
  for (const [side, name] of [...names, ...peers()]) {
    const id = tree.idOf(side, name);
    if (tree.isKnown(id)) tree.expanded.add(id);
  }
}

export async function toggle(id: number): Promise<void> {
  const tree = state.tree.value;
  const node = tree.node(id);
  if (!node || !node.children) return;
  if (tree.expanded.has(id)) {
    tree.expanded.delete(id);
    const peer = tree.peerOf(id);
    if (peer >= 0) tree.expanded.delete(peer);
  } else await openNames([[node.side, node.name]]);
  await arrange();
}

export async function loadMore(id: number, before: boolean): Promise<void> {
  const tree = state.tree.value;
  const node = tree.node(id);
  const known = tree.childrenOf(id);
  if (!node || !known) return;
  const offset = before ? Math.max(0, known.from - 500) : known.from + known.ids.length;
  const answer = await source.ask<TreeAnswer>("tree", { ...about(), nodes: [[node.side, node.name, offset]] });
  if (state.tree.value !== tree) return;
  tree.take(answer);
  await arrange();
}

export async function openLevel(level: number): Promise<void> {
  const answer = await askGraph<TreeAnswer>("tree", { level });
  if (!answer) return;
  const tree = state.tree.value;
  tree.take(answer);
  tree.expanded.clear();
  for (const list of answer.lists) {
    const id = tree.idOf(list.side, list.name);
    if (id >= 0) tree.expanded.add(id);
  }
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  if (answer.whole === false) tell(t("expandPartly", answer.lists.reduce((sum, list) => sum + list.nodes.length, 0)));
  await arrange();
}

export async function closeAll(): Promise<void> {
  const tree = state.tree.value;
  tree.expanded.clear();
  for (const root of tree.roots) if (root >= 0) tree.expanded.add(root);
  state.view.value = { ...state.view.value, y: [0, 0] };
  await arrange();
}

// ---- selection and jumps

/** Selects a node and its counterpart. `alone`: the other side keeps its selection, for matching by hand. */
export function select(side: Side, name: string, alone = false, detail?: Detail): void {
  const tree = state.tree.value;
  const node = tree.node(tree.idOf(side, name));
  const names: [string | null, string | null] = [...state.selected.value];
  names[side] = name;
  if (!alone && node?.peer != null) names[1 - side] = node.peer;
  const other = names[1 - side];
  const isPair = other != null && tree.node(tree.idOf((1 - side) as Side, other))?.peer === null;
  if (!alone && node?.peer === null && !isPair) names[1 - side] = null; // two without counterpart may be matched
  batch(() => {
    state.selected.value = names;
    state.active.value = side;
  });
  rememberPlace();
  if (detail) state.detail.value = detail;
  else void attempt(loadDetail);
}

async function loadDetail(): Promise<void> {
  const side = state.active.value;
  const name = state.selected.value[side];
  if (name === null) {
    state.detail.value = null;
    return;
  }
  const answer = await askGraph<Detail>("detail", { side, name });
  if (answer && state.active.value === side && state.selected.value[side] === name) state.detail.value = answer;
}

/** Modules whose children are all there: they need not be sent again. */
function knownLists(): [Side, string][] {
  const tree = state.tree.value;
  return [...tree.expanded].flatMap((id): [Side, string][] => {
    const node = tree.node(id);
    const known = tree.childrenOf(id);
    return node && known && known.ids.length === known.total ? [[node.side, node.name]] : [];
  });
}

/** Opens what is around a node and its counterpart, selects both and brings both into the middle. */
export async function reveal(side: Side, name: string): Promise<void> {
  const answer = await askGraph<TreeAnswer>("tree", { reveal: [side, name], known: knownLists() });
  if (answer) await showRevealed(side, name, answer);
}

async function showRevealed(side: Side, name: string, answer: TreeAnswer): Promise<void> {
  const tree = state.tree.value;
  if (!answer.revealed?.length) {
    tell(isExported ? t("notExported") : t("notOnThisRank"));
    return;
  }
  tree.take(answer);
  for (const { side: at, path } of answer.revealed) {
    for (const inner of path) {
      const id = tree.idOf(at, inner);
      if (id >= 0 && tree.isKnown(id)) tree.expanded.add(id);
    }
  }
  select(side, name, false, answer.detail);
  await arrange();
  centre();
}

/** Both selected nodes to the middle of the window. */
export function centre(): void {
  const layout = state.layout.value;
  if (!layout) return;
  const tree = state.tree.value;
  const place = ([0, 1] as const).map((side) => {
    const name = state.selected.value[side];
    const id = name === null ? -1 : tree.idOf(side, name);
    const at = id < 0 ? -1 : layout.id.indexOf(id);
    return at < 0 ? null : layout.y[at]!;
  });
  const own = place[state.active.value];
  if (own == null) return;
  const half = panes.height / state.view.value.scale / 2 - ROW_HEIGHT;
  const top = (y: number | null | undefined): number => Math.max(0, (y ?? own) - half);
  const view = { ...state.view.value, x: 0, y: [top(place[0]), top(place[1])] as [number, number] };
  state.view.value = limited(view, layout.total, panes.width, panes.height);
}

export async function showFinding(at: number): Promise<void> {
  await shown;
  if (!state.findings.value) await loadFindings();
  const finding = state.findings.value?.[at];
  if (!finding) return tell(t(state.info.value?.compare ? "noFindings" : "noOverflow"));
  state.tab.value = "findings";
  await reveal(finding.side, finding.node);
}

/** n and p: among the nodes of the filter; without one, among those beyond rounding (or that overflow). */
export async function step(backwards: boolean): Promise<void> {
  const chosen = [...state.classes.value];
  const info = state.info.value;
  const side = chosen.length ? state.active.value : 0;
  const wanted: Wanted = chosen.length ? { classes: chosen, side } : { side };
  if (!chosen.length) {
    const byClass = ["overflow", "kind"].includes(state.colour.value.by) || !info?.compare || info.task === "structure";
    if (byClass) wanted.classes = [...Array(Math.max(0, state.scale.value.classes - 1)).keys()].map((i) => i + 1).concat(info?.compare && !["overflow", "kind"].includes(state.colour.value.by) ? [-2] : []);
    else wanted.only = "suspicious";
  }
  const from = state.selected.value[side] ?? undefined;
  const question = { ...wanted, from, backwards, reveal: true, known: knownLists() };
  const answer = await askGraph<{ node: NodeRow | null; tree?: TreeAnswer }>("next", question);
  if (!answer) return;
  if (!answer.node) tell(t("noNext"));
  else if (answer.tree) await showRevealed(answer.node.side, answer.node.name, answer.tree);
}

// ---- colours and filters

export async function setColour(colour: Colour): Promise<void> {
  await giveOwnData({ ...about(), colour });
  await colourGraph(colour);
}

async function colourGraph(colour: Colour): Promise<void> {
  batch(() => {
    state.colour.value = colour;
    state.classes.value = new Set();
  });
  if (state.progress.value < 1 || isExported) return refreshValues();
  const searching = state.tab.value === "search" ? search() : null;
  await recolour();
  await searching;
}

/** The classes and values of all nodes that the page knows; where they stand stays as it is. */
async function recolour(): Promise<void> {
  const tree = state.tree.value;
  const ids: [number[], number[]] = [[], []];
  const places: [number[], number[]] = [[], []];
  tree.nodes.forEach((node, id) => {
    if (node.pos === null || ids[node.side].length >= MOST_VALUES) return;
    ids[node.side].push(id);
    places[node.side].push(node.pos);
  });
  const answer = await askGraph<{ sides: Coloured[] }>("values", { places });
  if (!answer || state.tree.value !== tree) return;
  answer.sides.forEach((side, at) => tree.recolour(ids[at]!, side));
  valuesChanged();
  state.values.value += 1;
  rememberPlace();
}

/** New values for all nodes that the page knows. */
async function refreshValues(): Promise<void> {
  const tree = state.tree.value;
  const searching = ["search", "structure"].includes(state.tab.value) ? search() : null;
  const wanted: ListPlace[] = [];
  for (const id of tree.expanded) {
    const node = tree.node(id)!;
    const known = tree.childrenOf(id);
    for (let at = 0; known && at < known.ids.length; at += LONGEST_LIST) wanted.push([node.side, node.name, known.from + at]);
  }
  await askLists(tree, wanted, (nodes) => askGraph<TreeAnswer>("tree", { nodes }), (answer) => {
    tree.refresh(answer.roots.filter((root) => root !== null));
    for (const list of answer.lists) {
      const known = tree.childrenOf(tree.idOf(list.side, list.name));
      if (known && known.total === null) known.total = list.total;
      tree.refresh(list.nodes);
    }
  });
  if (state.tree.value !== tree) return;
  state.values.value += 1;
  await arrange();
  await searching;
}

export function setClasses(classes: Set<number>): void {
  state.classes.value = classes;
  rememberPlace();
  if (state.tab.value === "search") void attempt(() => search());
}

/** What the menu of colours offers. */
export function colourBy(by: string): Colour {
  const own = ownDataOf(by);
  return own ? { by, bounds: own.bounds } : { by };
}

const ownDataOf = (by: string): OwnData | undefined => state.ownData.value.find(({ key }) => by === `own:${key}`);

interface OwnAnswer {
  by: string;
  bounds: number[];
  count: number;
}

export async function loadOwnData(name: string, text: string): Promise<void> {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch (error) {
    return tell(String(error));
  }
  const key = ownKey(JSON.stringify(data));
  const answer = await askGraph<OwnAnswer>("own", { data, key });
  if (!answer) return;
  const own: OwnData = { key, name, bounds: answer.bounds, data };
  state.ownData.value = [...state.ownData.value.filter((one) => one.key !== key), own];
  keepOwnData(own);
  tell(t("ownLoaded", answer.count));
  await colourGraph(colourBy(`own:${key}`));
}

/** Before a graph is coloured by own data the server is given them: it may never have had them for this graph. */
async function giveOwnData(asked: Question): Promise<void> {
  const own = ownDataOf((asked.colour as Colour).by);
  if (own) await source.ask<OwnAnswer & Pending>("own", { ...asked, data: own.data, key: own.key });
}

/** A link is coloured by data of its sender, which the server may have lost. */
function missOwnData(tree: Tree): void {
  const { by } = state.colour.value;
  if (!isOwn(by) || ownDataOf(by)) return;
  const counts = tree.roots.flatMap((root) => tree.node(root)?.below?.counts ?? []);
  if (counts.every((count) => count === 0)) tell(t("ownMissing"));
}

// ---- lists

const PAGE = 100;
let searchNumber = 0;

function question(): Question {
  const wanted = state.wanted.value;
  return { ...wanted, classes: wanted.only === "structure" ? [] : [...state.classes.value] };
}

/** The first page of the list that is wanted. */
export async function search(change: Wanted = {}): Promise<void> {
  state.wanted.value = { ...state.wanted.value, ...change };
  const number = (searchNumber += 1);
  const answer = await askGraph<{ total: number; nodes: NodeRow[] }>("list", { ...question(), offset: 0, limit: PAGE });
  if (!answer || number !== searchNumber) return;
  const nodes: (NodeRow | undefined)[] = Array.from({ length: answer.total });
  answer.nodes.forEach((node, i) => (nodes[i] = node));
  state.listed.value = { total: answer.total, nodes };
  rememberPlace();
}

const asking = new Set<number>();
/** The page of the list around this place. */
export async function loadList(at: number): Promise<void> {
  const list = state.listed.value;
  const page = Math.floor(at / PAGE);
  if (!list || list.nodes[at] || asking.has(page)) return;
  asking.add(page);
  try {
    const answer = await askGraph<{ total: number; nodes: NodeRow[] }>("list", { ...question(), offset: page * PAGE, limit: PAGE });
    if (!answer || state.listed.value !== list) return;
    const nodes = [...list.nodes];
    answer.nodes.forEach((node, i) => (nodes[page * PAGE + i] = node));
    state.listed.value = { total: list.total, nodes };
  } finally {
    asking.delete(page);
  }
}

export async function ask<Answer>(name: string, more: Question = {}): Promise<Answer | null> {
  return askGraph<Answer>(name, more);
}

// ---- matching by hand

function ownWorkspace(): void {
  if (state.workspace.value) return;
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  state.workspace.value = [...bytes].map((byte) => (byte % 36).toString(36)).join("");
  state.keep("workspace", state.workspace.value);
}

export async function match(what: Question): Promise<Matches | null> {
  ownWorkspace();
  const answer = await askGraph<Matches>("match", what);
  if (!answer) return null;
  state.matching.value = answer;
  rememberPlace();
  await refreshValues();
  centre(); // counterparts stand at the same height now
  await loadFindings();
  await loadDetail();
  return answer;
}

/** Matches that were kept for this workspace are applied, so a link has to name it. */
async function loadMatching(): Promise<void> {
  if (!state.workspace.value || !state.info.value?.compare || isExported) return;
  const answer = await askGraph<Matches>("match", { do: "list" });
  if (!answer || state.matching.value) return;
  state.matching.value = answer;
  rememberPlace();
}

export async function matchSelected(children: boolean): Promise<void> {
  const [target, golden] = state.selected.value;
  if (target === null) return tell(t("pickTarget"));
  if (golden === null) return tell(t("pickGolden"));
  const answer = await match({ do: "match", target, golden, children });
  if (answer) tell(t("matchedCount", answer.matched ?? 0));
}

// ---- the address

export function rememberPlace(): void {
  if (!state.info.value) return;
  const wanted = state.wanted.value;
  const fragment = toFragment({
    file: state.file.value,
    step: state.step.value,
    rank: state.rank.value,
    micro: state.micro.value,
    side: state.active.value,
    node: state.activeName.value ?? undefined,
    by: state.colour.value.by,
    bounds: state.colour.value.bounds,
    classes: [...state.classes.value],
    text: wanted.text,
    within: wanted.within,
    kind: wanted.kind,
    listSide: wanted.side,
    only: wanted.only === "structure" ? undefined : wanted.only, // that is the tab
    sort: wanted.sort,
    descending: wanted.ascending === false,
    tab: state.tab.value === "findings" ? undefined : state.tab.value,
    lower: state.lower.value === "tensors" ? undefined : state.lower.value,
    workspace: state.matching.value?.count ? state.workspace.value : undefined,
    open: openedNames(),
  });
  if (fragment !== location.hash) history.replaceState(null, "", fragment);
}
