// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { useRef, useState } from "preact/hooks";
import { askGraph } from "./asking";
import { match, matchSelected } from "./matching";
import { attempt, tell } from "./notices";
import { download } from "./picture";
import { Name } from "./node_row";
import { reveal } from "./selecting";
import * as state from "./state";
import { said, t } from "./state";

export function MatchTab() {
  const [children, setChildren] = useState(true);
  const [failed, setFailed] = useState<string[]>([]);
  const file = useRef<HTMLInputElement>(null);
  const [target, reference] = state.selected.value;
  const matching = state.matching.value;
  const run = (what: Record<string, unknown>): void =>
    void attempt(async () => {
      const answer = await match(what);
      if (answer?.cancelled) tell(t("cancelledCount", answer.cancelled));
      if (what.do === "load") {
        tell(t("matchedCount", answer?.matched ?? 0));
        setFailed(answer?.failed ?? []);
      }
    });
  void state.values.value;
  void state.layout.value;
  const node = target === null ? undefined : state.tree.value.node(state.tree.value.idOf(0, target));
  return (
    <>
      <h2 class="pad">{t("matching")}</h2>
      <p class="help">{t("matchHelp")}</p>
      <dl class="picked">
        <dt>{t("target")}</dt>
        <dd class="mono">{target ? <Name text={target} /> : <span class="soft">{t("pickTarget")}</span>}</dd>
        <dt>{t("reference")}</dt>
        <dd class="mono">{reference ? <Name text={reference} /> : <span class="soft">{t("pickReference")}</span>}</dd>
      </dl>
      <div class="buttons">
        <button class="primary" disabled={target === null || reference === null} onClick={() => void attempt(() => matchSelected(children))}>{t("match")}</button>
        <button disabled={target === null || !node?.peer} onClick={() => run({ do: "cancel", target, children })}>{t("unmatch")}</button>
        <label><input type="checkbox" checked={children} onChange={(event) => setChildren(event.currentTarget.checked)} /> {t("withChildren")}</label>
      </div>
      <div class="buttons">
        <button disabled={!matching?.undo} onClick={() => run({ do: "undo" })}>{t("undo")}</button>
        <button disabled={!matching?.redo} onClick={() => run({ do: "redo" })}>{t("redo")}</button>
        <button onClick={() => file.current!.click()}>{t("loadConfig")}</button>
        <button disabled={!matching?.count} onClick={() => void attempt(save)}>{t("saveConfig")}</button>
      </div>
      <input
        ref={file}
        type="file"
        accept=".config,.json"
        hidden
        onChange={(event) => {
          const chosen = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (chosen) void chosen.text().then((text) => run({ do: "load", text }));
        }}
      />
      {failed.length > 0 && (
        <div class="pad" role="alert">
          <p>{t("matchFailed", failed.length)}</p>
          <ul class="failed">{failed.map((reason) => <li key={reason}>{said(reason)}</li>)}</ul>
        </div>
      )}
      <h3 class="pad">{t("manualPairs")}{matching?.count ? ` (${matching.count})` : ""}</h3>
      {!matching?.count && <p class="soft pad">{t("noManual")}</p>}
      <ul class="pairs">
        {matching?.pairs.map(([ours, theirs]) => (
          <li key={ours}>
            <button class="pair" aria-current={ours === target} onClick={() => void attempt(() => reveal(0, ours))}>
              <span class="name"><Name text={ours} /></span>
              <span class="soft">→ {theirs ? <Name text={theirs} /> : t("takenAway")}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

async function save(): Promise<void> {
  const answer = await askGraph<{ text: string }>("match", { do: "save" });
  if (!answer) return;
  const tag = state.file.value.split("/").pop()!.replace(/\.vis\.db$/, "");
  download(`${tag}_${state.step.value}_${state.rank.value}.vis.config`, "application/json", answer.text);
}
