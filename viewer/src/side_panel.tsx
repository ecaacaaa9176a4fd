// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { isExported } from "./asking";
import { showFinding } from "./findings";
import { loadList, search } from "./lists";
import { MatchTab } from "./match_tab";
import { Name, NodeRowButton } from "./node_row";
import { short } from "./names";
import { attempt } from "./notices";
import { rememberPlace } from "./place";
import { RanksTab } from "./ranks_tab";
import { Rows } from "./rows";
import { isOwn } from "./own_data";
import { OVERFLOW_WORDS, scaleName } from "./scales";
import * as state from "./state";
import { t, type Tab } from "./state";
import type { Finding, Side, Wanted } from "./types";
import type { Word } from "./words";

const TABS: [Tab, Word][] = [
  ["findings", "tabFindings"],
  ["search", "tabSearch"],
  ["structure", "tabStructure"],
  ["match", "tabMatch"],
  ["ranks", "tabRanks"],
];

export function SidePanel() {
  const info = state.info.value!;
  const shown = TABS.filter(([tab]) => {
    if (tab === "structure") return info.compare;
    if (tab === "match") return info.compare && !isExported;
    return tab !== "ranks" || info.ranks.length > 1 || info.steps.length > 1;
  });
  const now = shown.some(([tab]) => tab === state.tab.value) ? state.tab.value : "findings";
  return (
    <aside class="side" aria-label={t("panel")}>
      <Tabs
        tabs={shown.map(([tab, word]) => [tab, t(word)])}
        now={now}
        choose={(tab) => {
          state.tab.value = tab as Tab;
          rememberPlace();
        }}
        label={t("panel")}
      />
      <div class="tab-body" role="tabpanel">
        {now === "findings" && <Findings />}
        {now === "search" && <Search />}
        {now === "structure" && <Structure />}
        {now === "match" && <MatchTab />}
        {now === "ranks" && <RanksTab />}
      </div>
    </aside>
  );
}

interface TabsShape {
  tabs: [string, string][];
  now: string;
  choose: (tab: string) => void;
  label: string;
}

export function Tabs({ tabs, now, choose, label }: TabsShape) {
  const byKey = (event: KeyboardEvent): void => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (direction === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const at = tabs.findIndex(([tab]) => tab === now);
    const next = tabs[(at + direction + tabs.length) % tabs.length]!;
    choose(next[0]);
    const buttons = (event.currentTarget as HTMLElement).querySelectorAll("button");
    buttons[(at + direction + tabs.length) % tabs.length]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={byKey}>
      {tabs.map(([tab, text]) => (
        <button key={tab} role="tab" aria-selected={tab === now} tabIndex={tab === now ? 0 : -1} onClick={() => choose(tab)}>
          {text}
        </button>
      ))}
    </div>
  );
}

function Help({ children }: { children: ComponentChildren }) {
  return <p class="help">{children}</p>;
}

// ---- where the difference begins

const KINDS: Record<string, Word> = {
  output: "findOutput",
  weight: "findWeight",
  input: "findInput",
  gradient: "findGradient",
  rounding: "findRounding",
  unmatched: "findUnmatched",
};

/** What a file states has two lines, in plain words and by its names. */
const stated = (finding: Finding): string[] =>
  (state.language.value === "zh" && finding.chinese ? finding.chinese : finding.sentence ?? "").split("\n");
const secondLine = (finding: Finding): string | undefined => stated(finding)[1];

function sentence(finding: Finding): string {
  if (finding.sentence) return stated(finding)[0]!;
  if (finding.kind === "overflow") return t("findOverflow", t(OVERFLOW_WORDS[Number(finding.value)] ?? "none"));
  return KINDS[finding.kind] ? t(KINDS[finding.kind]!) : finding.kind;
}

function Findings() {
  const findings = state.findings.value;
  if (!findings) return <p class="soft pad">{state.progress.value < 1 ? t("readingShort", Math.round(state.progress.value * 100)) : t("loading")}</p>;
  if (!findings.length) return <p class="pad">{t(state.info.value!.compare ? "noFindings" : "noOverflow")}</p>;
  const overflowing = findings[0]!.kind === "overflow";
  const help: Word = overflowing ? "overflowHelp" : findings[0]!.kind === "stated" ? "findHelpStated" : "findHelp";
  return (
    <>
      <h2 class="pad">{t(overflowing ? "overflowing" : "findings")}</h2>
      <Help>{t(help)}</Help>
      <ol class="findings">
        {findings.map((finding, at) => (
          <li key={at}>
            <button
              class={at === 0 ? "finding first" : "finding"}
              aria-current={state.selected.value[finding.side] === finding.node}
              onClick={() => void attempt(() => showFinding(at))}
            >
              <span class="mono name"><Name text={finding.node} /></span>
              <span>{sentence(finding)}</span>
              {secondLine(finding) && <span class="soft">{secondLine(finding)}</span>}
              {finding.sum && state.selected.value[finding.side] === finding.node && <pre class="soft sum">{finding.sum}</pre>}
              {finding.value !== undefined && finding.kind !== "overflow" && (
                <span class="soft">
                  {finding.value === "inf" ? t("boundless") : t("roundingErrors", short(finding.value))}
                  {finding.before !== undefined && finding.kind !== "input" && ` · ${t("before", short(finding.before) || "0")}`}
                </span>
              )}
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

// ---- search, filter, ranking

function Search() {
  const wanted = state.wanted.value;
  const info = state.info.value!;
  const list = state.listed.value;
  useEffect(() => {
    if (wanted.only === "structure") state.wanted.value = { ...wanted, only: undefined };
    void attempt(() => search());
  }, [state.tree.value]); // another graph has another list
  const change = (more: Wanted): void => void attempt(() => search(more));
  const select = (label: string, value: string, options: [string, string][], put: (value: string) => void) => (
    <select aria-label={label} value={value} onChange={(event) => put(event.currentTarget.value)}>
      {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
    </select>
  );
  const sorts: [string, string][] = [
    ["order", t("sortOrder")],
    ["name", t("sortName")],
    ...Object.keys(info.scales).map((by): [string, string] => [by, scaleName(by)]),
  ];
  const colour = state.colour.value.by;
  if (isOwn(colour) || wanted.sort === "colour") sorts.push(["colour", scaleName(colour)]);
  const smallIsBadOf = (sort: string): boolean => (sort === "colour" ? state.scale.value : info.scales[sort])?.smallIsBad ?? false;
  const isMeasure = (sort: string): boolean => !["order", "name", "kind"].includes(sort);
  const now = wanted.sort ?? "order";
  return (
    <>
      <div class="query">
        <input
          id="search"
          type="search"
          aria-label={t("search")}
          placeholder={t("searchHint")}
          value={wanted.text}
          spellcheck={false}
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
        {select(t("search"), wanted.within ?? "name", [["name", t("withinName")], ["regex", t("withinRegex")], ["shape", t("withinShape")], ["stack", t("withinStack")]], (within) => change({ within: within as Wanted["within"] }))}
        {select(t("anyType"), String(wanted.kind ?? ""), [["", t("anyType")], ["0", t("module")], ["1", t("api")], ["9", t("collection")]], (kind) => change({ kind: kind ? Number(kind) : undefined }))}
        {info.compare && select(t("bothSides"), String(wanted.side ?? ""), [["", t("bothSides")], ["0", t("target")], ["1", t("reference")]], (side) => change({ side: side ? (Number(side) as Side) : undefined }))}
        {select(t("onlyAny"), wanted.only ?? "", [["", t("onlyAny")], ["leaves", t("onlyLeaves")], ["modules", t("onlyModules")], ...(info.compare ? [["suspicious", t("onlySuspicious")] as [string, string]] : [])], (only) => change({ only: only || undefined }))}
        <span class="sort">{select(t("sortBy"), now, sorts, (sort) => change({ sort, side: info.compare && isMeasure(sort) ? 0 : wanted.side, ascending: !isMeasure(sort) || smallIsBadOf(sort) }))}
        {isMeasure(now) && (
          <button onClick={() => change({ ascending: !wanted.ascending })}>{wanted.ascending === smallIsBadOf(now) ? t("descending") : t("ascending")}</button>
        )}</span>
      </div>
      <p class="count" aria-live="polite">{list ? (list.total ? t("results", list.total) : t("noResults")) : t("loading")}</p>
      {list && <NodeList />}
    </>
  );
}

function NodeList() {
  const list = state.listed.value!;
  return (
    <Rows
      count={list.total}
      height={44}
      label={t("tabSearch")}
      seen={(first, last) => {
        void attempt(() => loadList(first));
        void attempt(() => loadList(Math.min(last, Math.max(0, list.total - 1))));
      }}
      row={(at) => <NodeRowButton node={list.nodes[at]} sort={state.wanted.value.sort} />}
    />
  );
}

// ---- structure

function Structure() {
  const list = state.listed.value;
  const only = state.wanted.value.only;
  useEffect(() => {
    void attempt(() => search({ text: "", within: "name", only: "structure", sort: "order", ascending: true, side: undefined, kind: undefined }));
    return () => {
      state.wanted.value = { ...state.wanted.value, only: undefined };
    };
  }, [state.tree.value]);
  const shown = only === "structure" ? list : null;
  return (
    <>
      <h2 class="pad">{t("structure")}</h2>
      <Help>{t("structureHelp")}</Help>
      {!shown && <p class="soft pad">{t("loading")}</p>}
      {shown && !shown.total && <p class="pad">{t("noStructure")}</p>}
      {shown && shown.total > 0 && (
        <Rows
          count={shown.total}
          height={44}
          label={t("structure")}
          seen={(first, last) => {
            void attempt(() => loadList(first));
            void attempt(() => loadList(Math.min(last, shown.total - 1)));
          }}
          row={(at) => {
            const node = shown.nodes[at];
            const mark = !node ? "" : node.peer !== null ? t("moved") : node.side === 0 ? t("added") : t("removed");
            return <NodeRowButton node={node} mark={mark} />;
          }}
        />
      )}
    </>
  );
}
