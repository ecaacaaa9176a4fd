// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { isExported } from "./asking";
import { colourBy, loadOwnData, setClassColour, setColour } from "./colouring";
import { showFinding, step } from "./findings";
import { goTo, openFile } from "./graphs";
import { attempt, copy } from "./notices";
import { closeAll, openLevel } from "./opening";
import { savePng, saveSvg } from "./picture";
import { rememberPlace } from "./place";
import * as state from "./state";
import { keep, t } from "./state";
import { TrendBar } from "./trend";
import { isOn as isTrend, version } from "./trend_state";
import { boundsText, className, colourNames, parseBounds } from "./scales";

export function TopBar() {
  const info = state.info.value;
  return (
    <header class="top">
      <h1 class="brand" title={info || isTrend.value ? `msprobe ${info?.version ?? version.value}` : ""}>
        <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
          <rect width="16" height="16" rx="4" fill="currentColor" />
          <path d="M3 11l3-6 2 4 2-2 3 4" stroke="var(--card)" stroke-width="1.6" fill="none" stroke-linejoin="round" />
        </svg>
        msprobe
      </h1>
      <FileSelect />
      {isTrend.value && <TrendBar />}
      {info && (
        <>
          <Places />
          {(info.compare || info.levels) && <button class="primary" disabled={state.progress.value < 1} onClick={() => void attempt(() => showFinding(0))} title="f">
            {info.compare ? t("firstDivergence") : t("firstOverflow")}
          </button>}
          <span class="group">
            <button aria-label={t("previous")} title={t("previous")} onClick={() => void attempt(() => step(true))}>↑</button>
            <button aria-label={t("next")} title={t("next")} onClick={() => void attempt(() => step(false))}>↓</button>
          </span>
          <ColourSelect />
          <Levels />
        </>
      )}
      {info?.exported ? <span class="soft note" title={exportNote(info.exported)}>{exportNote(info.exported)}</span> : <span class="fill" />}
      <More />
      <button class="quiet" onClick={changeTheme} title={t("theme")}>{state.dark.value ? "☾ " + t("dark") : "☀ " + t("light")}</button>
      <button class="quiet" onClick={changeLanguage} lang={state.language.value === "zh" ? "en" : "zh"}>{t("language")}</button>
      <button class="quiet" aria-label={t("help")} title={t("help")} onClick={() => (state.helpIsOpen.value = true)}>?</button>
    </header>
  );
}

const exportNote = (exported: { nodes: number; of: number }): string => t("exportNote", exported.nodes, exported.of);

export function changeTheme(): void {
  state.dark.value = !state.dark.value;
  keep("theme", state.dark.value ? "dark" : "light");
}

function changeLanguage(): void {
  state.language.value = state.language.value === "zh" ? "en" : "zh";
  keep("language", state.language.value);
}

function FileSelect() {
  const files = state.files.value ?? [];
  if (isExported || !state.file.value) return <span class="mono file">{isExported ? state.file.value : ""}</span>;
  if (files.length === 1) return <span class="mono file" title={state.file.value}>{state.file.value}</span>;
  return (
    <select aria-label={t("file")} class="file" value={state.file.value} onChange={(event) => void openFile(event.currentTarget.value)}>
      {files.map((entry) => <option key={entry.name} value={entry.name}>{entry.name}</option>)}
    </select>
  );
}

function Places() {
  const info = state.info.value!;
  const choice = (word: "step" | "rank" | "microStep", values: number[], now: Signal<number>, change: (value: number) => Promise<boolean>) =>
    values.length > 1 && (
      <label class="place">
        {t(word)}
        <select
          value={now.value}
          onChange={async ({ currentTarget: box }) => {
            await change(Number(box.value));
            box.value = String(now.value); // where that graph cannot be shown, the one before stays
          }}
        >
          {values.map((value) => <option key={value} value={value}>{value < 0 ? t("all") : value}</option>)}
        </select>
      </label>
    );
  const microSteps = Array.from({ length: info.microSteps }, (_, i) => i);
  return (
    <>
      {choice("step", info.steps, state.step, (value) => goTo(value, state.rank.value))}
      {choice("rank", info.ranks, state.rank, (value) => goTo(state.step.value, value))}
      {info.microSteps > 1 && choice("microStep", [-1, ...microSteps], state.micro, (value) => goTo(state.step.value, state.rank.value, value))}
    </>
  );
}

function ColourSelect() {
  const names = colourNames(state.info.value!, state.colour.value.by);
  return (
    <label class="place">
      {t("colourBy")}
      <select value={state.colour.value.by} onChange={(event) => void attempt(() => setColour(colourBy(event.currentTarget.value)))}>
        {names.map(([by, name]) => <option key={by} value={by}>{name}</option>)}
      </select>
    </label>
  );
}

function Levels() {
  return (
    <select
      aria-label={t("expand")}
      value=""
      onChange={(event) => {
        const level = Number(event.currentTarget.value);
        event.currentTarget.value = "";
        void attempt(() => (level ? openLevel(level) : closeAll()));
      }}
    >
      <option value="" hidden>{t("expand")}</option>
      <option value="0">{t("collapseAll")}</option>
      {[2, 3, 4, 5, 6, 8, 100].map((level) => (
        <option key={level} value={level}>{level === 100 ? t("all_") : t("expandTo", level)}</option>
      ))}
    </select>
  );
}

/** What is seldom needed. */
function More() {
  const file = useRef<HTMLInputElement>(null);
  const menu = useRef<HTMLDetailsElement>(null);
  if (!state.info.value) return null;
  const item = (text: string, action: () => void) => (
    <button
      onClick={() => {
        menu.current!.open = false;
        action();
      }}
    >
      {text}
    </button>
  );
  return (
    <details class="menu" ref={menu}>
      <summary>{t("menu")}</summary>
      <div class="items">
        {!isExported && item(t("copyLink"), copyLink)}
        {item(t("png"), savePng)}
        {item(t("svg"), saveSvg)}
        {!isExported && item(t("ownLoad"), () => file.current!.click())}
        {!isExported && <form
          class="bounds"
          onSubmit={(event) => {
            event.preventDefault();
            const input = event.currentTarget.elements.namedItem("bounds") as HTMLInputElement;
            const bounds = parseBounds(input.value);
            menu.current!.open = false;
            void attempt(() => setColour({ by: state.colour.value.by, ...(bounds.length ? { bounds } : {}) }));
          }}
        >
          <label>
            {t("bounds")}
            <input name="bounds" key={boundsText()} defaultValue={boundsText()} placeholder={t("boundsHelp")} />
          </label>
          <button>{t("apply")}</button>
        </form>}
        <ClassColours />
      </div>
      <input
        ref={file}
        type="file"
        accept=".json,application/json"
        hidden
        onChange={(event) => {
          const chosen = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (chosen) void chosen.text().then((text) => attempt(() => loadOwnData(chosen.name, text)));
        }}
      />
    </details>
  );
}

function ClassColours() {
  return (
    <fieldset class="class-colours">
      <legend>{t("classColours")}</legend>
      {state.colours.value.classes.map((colour, number) => (
        <input
          key={number}
          type="color"
          value={colour.toLowerCase()}
          title={className(number)}
          aria-label={className(number)}
          onInput={(event) => setClassColour(number, event.currentTarget.value)}
        />
      ))}
      <button onClick={() => setClassColour(-1, null)}>{t("reset")}</button>
    </fieldset>
  );
}

function copyLink(): void {
  rememberPlace();
  void copy(location.href, t("linkCopied"));
}
