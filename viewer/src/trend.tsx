// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The page about records of the monitor.
import { useEffect, useState } from "preact/hooks";
import { attempt } from "./notices";
import { Tabs } from "./side_panel";
import { Splitter } from "./splitter";
import * as state from "./state";
import { said, t } from "./state";
import { Chart, Readout } from "./trend_chart";
import { runColour } from "./trend_colours";
import { HeatMap } from "./trend_heat";
import * as trend from "./trend_state";
import { digits } from "./trend_state";

const MOST_LISTED = 200;

export function Trend() {
  useEffect(listen, []);
  return (
    <main class="work" aria-busy={trend.partings.value ? !trend.partings.value.done : trend.runs.value.length > 1}>
      <aside class="side" aria-label={t("panel")}>
        <Tabs
          tabs={[["start", t("tabFindings")], ["series", t("trendSeries")]]}
          now={trend.tab.value}
          choose={(tab) => (trend.tab.value = tab as "start" | "series")}
          label={t("panel")}
        />
        <div class="tab-body" role="tabpanel">{trend.tab.value === "start" ? <Start /> : <SeriesList />}</div>
      </aside>
      <Splitter variable="--side" axis="x" min={220} max={700} from="start" label={t("panel")} />
      <section class="centre">
        <Runs />
        <section class="pane" aria-label={t("trendCurves")}>
          <div class="pane-head">
            <b class="mono path" title={trend.key.value}>{trend.key.value}</b>
            <span class="soft">{trend.byKey.value.get(trend.key.value)?.unit}</span>
            <Readout />
          </div>
          <Chart />
        </section>
        <Splitter variable="--lower" axis="y" min={90} max={800} from="end" label={t("trendHeat")} />
        <section class="lower" aria-label={t("trendHeat")}><HeatMap /></section>
      </section>
    </main>
  );
}

/** What stands in the bar at the top. */
export function TrendBar() {
  return (
    <>
      <label class="place">
        {t("trendMetric")}
        <select value={trend.metric.value} onChange={(event) => trend.chooseMetric(event.currentTarget.value)}>
          {trend.metrics.value.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      <span class="group">
        <button aria-label={t("zoomIn")} title={t("zoomIn")} onClick={() => trend.zoomBy(0.5)}>+</button>
        <button aria-label={t("zoomOut")} title={t("zoomOut")} onClick={() => trend.zoomBy(2)}>−</button>
      </span>
      <button disabled={!trend.range.value} onClick={() => trend.zoomTo(...trend.whole.value)} title="0">{t("trendWhole")}</button>
      <button
        aria-pressed={trend.isLog.value}
        class={trend.isLog.value ? "primary" : ""}
        title="l"
        onClick={toggleLog}
      >
        {t("trendLog")}
      </button>
    </>
  );
}

function toggleLog(): void {
  trend.isLog.value = !trend.isLog.value;
}

const ACTIONS: Record<string, () => void> = {
  "+": () => trend.zoomBy(0.5),
  "=": () => trend.zoomBy(0.5),
  "-": () => trend.zoomBy(2),
  "0": () => trend.zoomTo(...trend.whole.value),
  l: toggleLog,
  "?": () => void (state.helpIsOpen.value = true),
  "/": () => {
    trend.tab.value = "series";
    requestAnimationFrame(() => document.getElementById("search")?.focus());
  },
};

function listen(): () => void {
  const act = (event: KeyboardEvent): void => {
    const place = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || state.helpIsOpen.value || place.closest("input, select, [role=separator]")) return;
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", act);
  return () => document.removeEventListener("keydown", act);
}

function Runs() {
  return (
    <div class="legend runs" role="group" aria-label={t("trendRuns")}>
      {trend.runs.value.map((run, number) => (
        <button
          key={number}
          class="class"
          aria-pressed={!trend.hidden.value.has(number)}
          title={t("trendHide")}
          onClick={() => {
            const next = new Set(trend.hidden.value);
            if (!next.delete(number)) next.add(number);
            trend.hidden.value = next;
          }}
        >
          <i style={{ background: runColour(number, state.dark.value) }} />
          {run.name}
          {run.rank !== null && ` (${t("rank")} ${run.rank})`}
          {trend.runs.value.length > 1 && <span class="soft">{t(number === 0 ? "trendReference" : "trendTarget")}</span>}
          <b>{run.steps.toLocaleString("en-US")}</b>
        </button>
      ))}
      {trend.runs.value.length > 1 && <span class="class note"><i class="band-key" />{t("trendBand")}</span>}
    </div>
  );
}

function Start() {
  const answer = trend.partings.value;
  const alarms = trend.runs.value.some((run) => run.alarmCount > 0);
  return (
    <>
      {trend.runs.value.length > 1 && (
        <>
          <h2 class="pad">{t("trendWhere")}</h2>
          {!answer?.done && <p class="pad soft">{t("readingShort", Math.round((answer?.progress ?? 0) * 100))}</p>}
          {answer?.comparisons.map((one, at) => <Parted key={at} one={one} run={at + 1} />)}
          <p class="help">{t("trendWhereHelp")}</p>
        </>
      )}
      <h2 class="pad">{t("trendAlarms")}</h2>
      {!alarms && <p class="pad soft">{t("trendNoAlarm")}</p>}
      {trend.runs.value.map((run, number) => run.alarmCount > 0 && (
        <div class="findings" key={number}>
          {run.alarms.slice(0, MOST_LISTED).map((alarm, at) => (
            <button key={at} class={`finding${at === 0 ? " first" : ""}`} aria-current={trend.key.value === alarm[2]} onClick={() => show(alarm[2], alarm[0])}>
              <span class="soft">{t("step")} {alarm[0].toLocaleString("en-US")} · {alarm[1]}{trend.runs.value.length > 1 && ` · ${run.name}`}</span>
              <span class="name mono">{alarm[2]}</span>
              <span>{digits(alarm[3])}{alarm[4] !== null && <span class="soft"> ({t("trendExpected", digits(alarm[4]))})</span>}</span>
            </button>
          ))}
          {run.alarmCount > MOST_LISTED && <p class="pad soft">{t("more", run.alarmCount - MOST_LISTED)}</p>}
        </div>
      ))}
    </>
  );
}

function Parted({ one, run }: { one: trend.Comparison; run: number }) {
  const name = trend.runs.value[run]!.name;
  if (one.fault) return <p class="pad" role="alert">{name}: {said(one.fault)}</p>;
  if (!one.partings.length) return <p class="pad">{name}: {t(one.firstDifference ? "trendInNoise" : "trendEqual", one.steps)}</p>;
  return (
    <div class="findings">
      {one.partings.slice(0, MOST_LISTED).map((part, at) => (
        <button key={part.series} class={`finding${at === 0 ? " first" : ""}`} aria-current={trend.key.value === part.series} onClick={() => show(part.series, part.step)}>
          <span class="soft">{t("step")} {part.step.toLocaleString("en-US")} · {name}</span>
          <span class="name mono">{part.series}</span>
          <span>{digits(part.reference)} ± {digits(part.band)} → <b>{digits(part.target)}</b></span>
        </button>
      ))}
      {one.partingCount > MOST_LISTED && <p class="pad soft">{t("more", one.partingCount - MOST_LISTED)}</p>}
    </div>
  );
}

function show(series: string, step: number): void {
  if (trend.byKey.value.has(series)) trend.choose(series, step);
}

function SeriesList() {
  const [text, setText] = useState("");
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = trend.series.value.filter((one) => words.every((word) => one.key.toLowerCase().includes(word)));
  return (
    <>
      <div class="query">
        <input id="search" type="search" value={text} placeholder={t("searchHint")} aria-label={t("trendSearch")} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <p class="count">{t("trendCount", found.length)}</p>
      <div class="pairs">
        {found.slice(0, MOST_LISTED).map((one) => (
          <button key={one.key} class="pair" aria-current={trend.key.value === one.key} onClick={() => void attempt(async () => trend.choose(one.key))}>
            <span class="name">{one.key}</span>
          </button>
        ))}
      </div>
      {found.length > MOST_LISTED && <p class="pad soft">{t("more", found.length - MOST_LISTED)}</p>}
    </>
  );
}
