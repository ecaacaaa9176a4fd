// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from "preact/hooks";
import { askGraph } from "./asking";
import { classOf, colourOf, isOnlyRounding, palette, textOn, type Palette } from "./colours";
import { goTo } from "./graphs";
import { short } from "./names";
import { Name } from "./node_row";
import { attempt } from "./notices";
import { linkText, OVERFLOW_WORDS } from "./scales";
import { reveal } from "./selecting";
import * as state from "./state";
import { t } from "./state";
import type { CommunicationCell, Info, Link, OverviewCell } from "./types";

type Operation = Link;

export function RanksTab() {
  return (
    <>
      <HeatMap />
      <Communication />
    </>
  );
}

/** The colours of the file, whatever the graph is coloured by. */
const fileColours = (info: Info): Palette => palette(info, info.compare ? "index" : "overflow", info.compare ? info.colours.length : 4, state.dark.value);

function HeatMap() {
  const info = state.info.value!;
  const [cells, setCells] = useState<OverviewCell[]>([]);
  useEffect(() => {
    let ended = false;
    void attempt(async () => {
      for (;;) {
        const answer = await askGraph<{ cells: OverviewCell[]; done: boolean }>("overview");
        if (ended || !answer) return;
        setCells(answer.cells);
        if (answer.done) return;
        await new Promise((done) => setTimeout(done, 700));
      }
    });
    return () => {
      ended = true;
    };
  }, [state.file.value]);
  const byPlace = new Map(cells.map((cell) => [`${cell.step}/${cell.rank}`, cell]));
  const colours = fileColours(info);
  const byOverflow = !info.compare || info.task === "structure";
  return (
    <section>
      <h2 class="pad">{t("ranksSteps")}</h2>
      <p class="help">{t(byOverflow ? "ranksOverflow" : "ranksHelp")}</p>
      <div class="scroll" tabIndex={0}>
        <table class="heat">
          <thead>
            <tr>
              <th scope="col">{t("rank")} \ {t("step")}</th>
              {info.steps.map((step) => <th key={step} scope="col">{step}</th>)}
            </tr>
          </thead>
          <tbody>
            {info.ranks.map((rank) => (
              <tr key={rank}>
                <th scope="row">{rank}</th>
                {info.steps.map((step) => {
                  const cell = byPlace.get(`${step}/${rank}`);
                  if (!cell) return <td key={step} class="wait" />;
                  const worst = typeof cell.worst === "number" ? cell.worst : null;
                  const isRounding = isOnlyRounding(info, cell);
                  const fill = byOverflow
                    ? colourOf(palette(info, "overflow", 4, state.dark.value), cell.overflow)
                    : colourOf(colours, isRounding ? 0 : classOf(info, worst));
                  const text = byOverflow ? t(OVERFLOW_WORDS[cell.overflow] ?? "none") : `${isRounding ? "≈ " : ""}${short(worst)}`;
                  const here = step === state.step.value && rank === state.rank.value;
                  return (
                    <td key={step}>
                      <button
                        class="cell"
                        style={{ background: fill, color: textOn(fill) }}
                        aria-current={here}
                        title={`${t("step")} ${step}, ${t("rank")} ${rank}: ${cell.nodes}; ${t("unmatched")}: ${cell.unmatched}${!byOverflow && isRounding ? `; ${t("rounding")}` : ""}`}
                        onClick={() => void goTo(step, rank)}
                      >
                        {text || "–"}
                        {!byOverflow && !isRounding && <Strip counts={cell.counts} colours={colours} />}
                      </button>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Strip({ counts, colours }: { counts: number[]; colours: Palette }) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return null;
  return (
    <span class="strip" aria-hidden="true">
      {counts.map((count, number) => <i key={number} style={{ flexGrow: count, background: colourOf(colours, number) }} />)}
    </span>
  );
}

function Communication() {
  const info = state.info.value!;
  const [answer, setAnswer] = useState<{ ranks: number[]; cells: CommunicationCell[] } | null>(null);
  const [chosen, setChosen] = useState<{ from: number; to: number; operations: Operation[] } | null>(null);
  const step = state.step.value;
  useEffect(() => {
    setChosen(null);
    void attempt(async () => setAnswer(await askGraph("communication")));
  }, [state.file.value, step]);
  if (info.ranks.length < 2) return null;
  const show = (from: number, to: number): void =>
    void attempt(async () => {
      const found = await askGraph<{ operations: Operation[] }>("operations", { from, to });
      if (found) setChosen({ from, to, operations: found.operations });
    });
  const cells = new Map(answer?.cells.map((cell) => [`${cell.from}/${cell.to}`, cell]));
  const colours = fileColours(info);
  return (
    <section>
      <h2 class="pad">{t("communication")}</h2>
      {answer && !answer.cells.length && <p class="soft pad">{t("noCommunication")}</p>}
      {answer && answer.cells.length > 0 && (
        <>
          <p class="help">{t("communicationHelp")}</p>
          <div class="scroll" tabIndex={0}>
            <table class="heat">
              <thead>
                <tr>
                  <td />
                  {answer.ranks.map((rank) => <th key={rank} scope="col">{rank}</th>)}
                </tr>
              </thead>
              <tbody>
                {answer.ranks.map((from) => (
                  <tr key={from}>
                    <th scope="row">{from}</th>
                    {answer.ranks.map((to) => {
                      const cell = cells.get(`${from}/${to}`);
                      if (!cell) return <td key={to} />;
                      const fill = info.compare ? colourOf(colours, classOf(info, cell.worst)) : colours.none;
                      return (
                        <td key={to}>
                          <button class="cell" style={{ background: fill, color: textOn(fill) }} aria-current={chosen?.from === from && chosen.to === to} onClick={() => show(from, to)}>
                            {cell.count}
                          </button>
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {chosen && (
        <>
          <p class="count">{t("operations", chosen.operations.length, chosen.from, chosen.to)}</p>
          <ul class="pairs">
            {chosen.operations.map((operation, at) => (
              <li key={at}>
                <button
                  class="pair"
                  onClick={() => void attempt(async () => {
                    const isThere = state.rank.value === chosen.from || (await goTo(step, chosen.from));
                    if (isThere) await reveal(0, operation.node);
                  })}
                >
                  <span class="name"><Name text={operation.node} /></span>
                  <span class="soft">{linkText(operation)}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
