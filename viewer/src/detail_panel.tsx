// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { goTo } from "./graphs";
import { NOTE } from "./marks";
import { short } from "./names";
import { Name } from "./node_row";
import { attempt, copy } from "./notices";
import { download } from "./picture";
import { rememberPlace } from "./place";
import { linkText, OVERFLOW_WORDS } from "./scales";
import { reveal } from "./selecting";
import { Tabs } from "./side_panel";
import * as state from "./state";
import { said, t, type Lower } from "./state";
import { columnsOf, csv, sorted, tabbed, type Column } from "./tensors";
import type { Detail, NodeDetail, TensorRow } from "./types";
import type { Word } from "./words";

export function DetailPanel() {
  const detail = state.detail.value;
  const now = state.lower.value;
  const sides = detail ? [detail.target, detail.reference].filter((side) => side !== null) : [];
  const links = sides.reduce((sum, side) => sum + side.links.length, 0);
  const flow = sides.reduce((sum, side) => sum + side.flow.length, 0);
  const merged = sides.reduce((sum, side) => sum + side.merged.length, 0);
  const tabs: [string, string][] = [
    ["tensors", t("comparison") + (detail ? ` (${detail.total})` : "")],
    ["flow", t("flow") + (flow ? ` (${flow})` : "")],
    ["stack", t("stack")],
  ];
  if (links || now === "links") tabs.push(["links", `${t("links")} (${links})`]);
  if (merged || now === "merged") tabs.push(["merged", `${t("merged")} (${merged})`]);
  return (
    <section class="lower" aria-label={t("details")}>
      <div class="lower-head">
        <Tabs
          tabs={tabs}
          now={now}
          choose={(tab) => {
            state.lower.value = tab as Lower;
            rememberPlace();
          }}
          label={t("details")}
        />
        {detail && <Facts detail={detail} />}
      </div>
      <div class="lower-body" role="tabpanel" tabIndex={0}>
        {!detail && <p class="soft pad">{state.activeName.value ? t("loading") : t("nothingSelected")}</p>}
        {detail && now === "tensors" && <Tensors detail={detail} />}
        {detail && now === "flow" && <Sides detail={detail} show={(side) => <Flow side={side} />} />}
        {detail && now === "stack" && <Sides detail={detail} show={(side) => <Stack key={side.name} side={side} />} />}
        {detail && now === "merged" && <Sides detail={detail} show={(side) => <Lines lines={side.merged} none="noMerged" />} />}
        {detail && now === "links" && <Sides detail={detail} show={(side) => <Links side={side} />} />}
      </div>
    </section>
  );
}

function Facts({ detail }: { detail: Detail }) {
  const target = detail.target ?? detail.reference!;
  const info = state.info.value!;
  const names = new Set([detail.target?.name, detail.reference?.name]);
  const notes = [...names].map((name) => name && state.notes.value.get(name)).filter(Boolean);
  return (
    <p class="facts">
      {notes.map((note) => <span key={note} class="note-text">{NOTE} <b>{note}</b></span>)}
      {typeof target.index === "number" && <span>{t("index")} <b>{short(target.index)}</b></span>}
      {target.overflow && <span>{t("overflowLevel")} <b>{t(OVERFLOW_WORDS[["", "medium", "high", "critical"].indexOf(target.overflow)] ?? "none")}</b></span>}
      {info.compare && !(detail.target && detail.reference) && <span class="alone">{t("noCounterpart")}{target.reason ? `: ${said(target.reason)}` : ""}</span>}
    </p>
  );
}

function Sides({ detail, show }: { detail: Detail; show: (side: NodeDetail) => preact.ComponentChildren }) {
  const info = state.info.value!;
  return (
    <div class={info.compare ? "two-columns" : ""}>
      {([["reference", detail.reference], ["target", detail.target]] as const).map(([word, side]) =>
        side ? (
          <div key={word}>
            {info.compare && <h3>{t(word)}</h3>}
            <p class="mono full"><Name text={side.name} /></p>
            {show(side)}
          </div>
        ) : (
          info.compare && <div key={word}><h3>{t(word)}</h3><p class="soft">{t("noCounterpart")}</p></div>
        ),
      )}
    </div>
  );
}

function Lines({ lines, none }: { lines: string[]; none: Word }) {
  if (!lines.length) return <p class="soft">{t(none)}</p>;
  return <ul class="lines">{lines.map((line, at) => <li key={at}>{said(line)}</li>)}</ul>;
}

// ---- stack

interface Frame {
  place: string;
  code: string;
  isLibrary: boolean;
}

/** "File F, line N, in NAME, \n CODE" */
export function frameOf(text: string): Frame {
  const [place = "", ...code] = text.split(/,?\s*\n/);
  return { place: place.trim(), code: code.join("\n").trim(), isLibrary: /site-packages|dist-packages|[/\\]lib[/\\]python\d/.test(place) };
}

function Stack({ side }: { side: NodeDetail }) {
  const [all, setAll] = useState(false);
  if (!side.stack.length) return <p class="soft">{t("noStack")}</p>;
  const frames = side.stack.map(frameOf);
  const own = frames.filter((frame) => !frame.isLibrary);
  const shown = all || !own.length ? frames : own;
  return (
    <>
      <p class="buttons">
        <button onClick={() => void copy(side.stack.join("\n"), t("copied"))}>{t("copy")}</button>
        {own.length > 0 && own.length < frames.length && (
          <label><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> {t("showLibrary")} ({frames.length - own.length})</label>
        )}
      </p>
      <ol class="stack">
        {shown.map((frame, at) => (
          <li key={at} class={frame.isLibrary ? "library" : ""}>
            <span class="place">{frame.place}</span>
            {frame.code && <code>{frame.code}</code>}
          </li>
        ))}
      </ol>
    </>
  );
}

function Links({ side }: { side: NodeDetail }) {
  if (!side.links.length) return <p class="soft">{t("noLinks")}</p>;
  const word = (kind: string): Word => (kind === "send" ? "sends" : kind === "receive" ? "receives" : "exchanges");
  return (
    <ul class="pairs">
      {side.links.map((link, at) => (
        <li key={at}>
          <button
            class="pair"
            title={t("goToRank", link.rank)}
            onClick={() => void attempt(async () => {
              if (await goTo(state.step.value, link.rank)) await reveal(side.side, link.node);
            })}
          >
            <span>{t(word(link.kind))} <b>{t("rank")} {link.rank}</b></span>
            <span class="mono">{link.node}</span>
            <span class="soft">{linkText(link)}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

// ---- data flow

function Flow({ side }: { side: NodeDetail }) {
  if (!side.flow.length) return <p class="soft">{t("noFlow")}</p>;
  return (
    <>
      {([true, false] as const).map((into) => {
        const ends = side.flow.filter((end) => end.into === into);
        return (
          ends.length > 0 && (
            <section key={String(into)}>
              <h4>{t(into ? "comesFrom" : "goesTo")}</h4>
              <ul class="pairs flow">
                {ends.map((end, at) => (
                  <li key={at}>
                    <button class="pair" onClick={() => void attempt(() => reveal(side.side, end.node))}>
                      <span class="soft">{end.port.startsWith(`${side.name}.`) ? end.port.slice(side.name.length + 1) : end.port} {into ? "←" : "→"}</span>
                      <span class="name"><Name text={end.node} /></span>
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          )
        );
      })}
      <p class="soft small">{t("flowHelp")}</p>
    </>
  );
}

// ---- tensors

function Tensors({ detail }: { detail: Detail }) {
  const [order, setOrder] = useState<{ key: string; down: boolean } | null>(null);
  const info = state.info.value!;
  if (!detail.rows.length) return <p class="soft pad">{t("noTensors")}</p>;
  const words: Record<string, string> = {
    tensor: t("tensor"), distance: t("distance"), dtype: t("dtype"), shape: t("shape"), target: t("target"), reference: t("reference"),
    value: t("value"), name: t("name"), kind: t("tensor"), input: t("input"), weight: t("weight"), gradient: t("gradient"), output: t("output"),
  };
  const columns = columnsOf(detail.rows, info.compare && detail.target !== null && detail.reference !== null, detail.target?.name ?? "", detail.reference?.name ?? "", words);
  const rows = sorted(detail.rows, columns.find((column) => column.key === order?.key), order?.down ?? false);
  const sort = (key: string): void => setOrder(order?.key !== key ? { key, down: key !== "name" } : order.down ? { key, down: false } : null);
  return (
    <>
      <table class="tensors">
        <thead>
          <Groups columns={columns} />
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" class={edge(columns, column)} aria-sort={order?.key === column.key ? (order.down ? "descending" : "ascending") : "none"}>
                <button title={column.key === "ulps" ? t("distanceHelp") : column.head} onClick={() => sort(column.key)}>
                  {column.head}
                  {order?.key === column.key && (order.down ? " ↓" : " ↑")}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{rows.map((row) => <Tensor key={`${row.group}/${row.name}/${row.peer}`} row={row} columns={columns} />)}</tbody>
      </table>
      <p class="buttons pad">
        <button onClick={() => void copy(tabbed(rows, columns, words), t("copied"))}>{t("copy")}</button>
        <button onClick={() => download(`${detail.target?.name ?? detail.reference!.name}.csv`, "text/csv", `\ufeff${csv(rows, columns, words)}`)}>{t("csv")}</button>
        {detail.total > detail.rows.length && <span class="soft">{t("tensorsCut", detail.rows.length, detail.total)}</span>}
      </p>
    </>
  );
}

/** Where a group of columns begins. */
const edge = (columns: Column[], column: Column): string => {
  const before = columns[columns.indexOf(column) - 1];
  return column.group && before?.group !== column.group ? "edge" : column.group ? "" : before?.group ? "edge" : "";
};

function Groups({ columns }: { columns: Column[] }) {
  if (!columns.some((column) => column.group)) return null;
  const groups: { name: string; span: number }[] = [];
  for (const column of columns) {
    const last = groups[groups.length - 1];
    if (last && last.name === (column.group ?? "")) last.span += 1;
    else groups.push({ name: column.group ?? "", span: 1 });
  }
  return (
    <tr class="groups">
      {groups.map((group, at) => (group.name ? <th key={at} colSpan={group.span} scope="colgroup" class="edge">{group.name}</th> : <td key={at} colSpan={group.span} />))}
    </tr>
  );
}

function Tensor({ row, columns }: { row: TensorRow; columns: Column[] }) {
  const alone = state.info.value!.compare && (!row.target || !row.reference);
  return (
    <tr class={alone ? "alone" : ""}>
      {columns.map((column, at) =>
        at === 0 ? (
          <th key={column.key} scope="row" title={[row.name, row.peer].filter(Boolean).join("\n")}>
            <span class={`tag ${row.group}`}>{t(row.group)}</span>
            {column.text(row)}
          </th>
        ) : (
          <td key={column.key} class={`${column.marks?.(row) ? "marked" : ""} ${edge(columns, column)}`}>{column.text(row)}</td>
        ),
      )}
    </tr>
  );
}
