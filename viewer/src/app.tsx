// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { useSignalEffect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { DetailPanel } from "./detail_panel";
import { makeGraph, openFile, tryAgain } from "./graphs";
import { bytes } from "./names";
import { listenToKeys, Help } from "./keys";
import { Legend } from "./legend";
import { attempt } from "./notices";
import { Panes } from "./panes";
import { SidePanel } from "./side_panel";
import * as state from "./state";
import { said, t } from "./state";
import { TopBar } from "./top_bar";
import { Trend } from "./trend";
import { isOn as isTrend, runs } from "./trend_state";
import { Splitter } from "./splitter";

export function App() {
  useSignalEffect(() => {
    document.documentElement.dataset.theme = state.dark.value ? "dark" : "light";
    document.documentElement.lang = state.language.value === "zh" ? "zh-CN" : "en";
  });
  useEffect(listenToKeys, []);
  return (
    <div class={isSmall ? "app little" : "app"}>
      {!isSmall && <TopBar />}
      {isTrend.value && runs.value.length > 0 && !state.failure.value ? <Trend /> : state.info.value && !state.failure.value ? <Work /> : <Welcome />}
      <Notice />
      {state.helpIsOpen.value && <Help />}
    </div>
  );
}

/** In a frame of another page: the graph alone. */
const isSmall = new URLSearchParams(location.hash.replace(/^#/, "")).has("little");

function Work() {
  if (isSmall) return <main class="work"><section class="centre"><Legend /><Panes /></section></main>;
  return (
    <main class="work" aria-busy={state.busy.value > 0}>
      <SidePanel />
      <Splitter variable="--side" axis="x" min={220} max={700} from="start" label={t("panel")} />
      <section class="centre">
        <Legend />
        <Panes />
        <Splitter variable="--lower" axis="y" min={90} max={800} from="end" label={t("details")} />
        <DetailPanel />
      </section>
    </main>
  );
}

/** Before a file is shown: which files there are, or why this one cannot be shown. */
function Welcome() {
  const files = state.files.value;
  const chosen = state.file.value;
  return (
    <main class="welcome">
      <div class="card">
        {state.failure.value ? (
          <div role="alert">
            <h2 class="big">{t("cannotShow")}</h2>
            <p class="reason">{said(state.failure.value)}</p>
            <button class="primary" onClick={() => void attempt(tryAgain)}>{t("tryAgain")}</button>
          </div>
        ) : files === null || (chosen && !state.failure.value) ? (
          <p>{t("loading")}</p>
        ) : null}
        {files !== null && (!chosen || state.failure.value) && (
          <>
            {files.length > 0 && (files.length > 1 || !state.failure.value) && <h2>{t("chooseFile")}</h2>}
            {files.length === 0 && !state.dumps.value.length && <p>{t("noFiles")}</p>}
            {(files.length > 1 || !state.failure.value) && (
              <ul class="files">
                {files.map((entry) => (
                  <li key={entry.name}>
                    <button onClick={() => void openFile(entry.name)}>
                      <span class="mono">{entry.name}</span>
                      <span class="soft">
                        {bytes(entry.size)} · {new Date(entry.time * 1000).toLocaleString(state.language.value === "zh" ? "zh-CN" : undefined)}
                      </span>
                    </button>
                  </li>
                ))}
              </ul>
            )}
            {state.hasMoreFiles.value && <p class="soft">{t("moreFiles")}</p>}
            {!chosen && state.dumps.value.length > 0 && <Dumps />}
          </>
        )}
      </div>
    </main>
  );
}

/** Dumps of which no graph was made yet. */
function Dumps() {
  const names = state.dumps.value;
  const [target, setTarget] = useState(names[0]!);
  const [reference, setReference] = useState("");
  const choice = (label: string, value: string, options: [string, string][], choose: (name: string) => void) => (
    <label class="place">
      {label}
      <select value={value} disabled={state.isMaking.value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([name, text]) => <option key={name} value={name}>{text}</option>)}
      </select>
    </label>
  );
  const named = names.map((name): [string, string] => [name, name]);
  return (
    <section class="dumps">
      <h2>{t("dumps")}</h2>
      <p class="soft">{t("dumpsHelp")}</p>
      <p class="choices">
        {choice(t("target"), target, named, setTarget)}
        {choice(t("reference"), reference, [["", t("none")], ...named.filter(([name]) => name !== target)], setReference)}
        <button class="primary" disabled={state.isMaking.value} onClick={() => void attempt(() => makeGraph(target, reference === target ? null : reference || null))}>
          {t(state.isMaking.value ? "making" : "makeGraph")}
        </button>
      </p>
    </section>
  );
}

function Notice() {
  const reading = state.info.value !== null && state.progress.value < 1;
  return (
    <div class="notices" aria-live="polite">
      {reading && <div class="notice">{t("reading", Math.round(state.progress.value * 100))}</div>}
      {state.notice.value && (
        <div class="notice" onClick={() => (state.notice.value = "")}>
          {state.notice.value}
        </div>
      )}
    </div>
  );
}
