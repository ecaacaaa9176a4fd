// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The classes of the colouring, how many nodes of the target are in each (without counterpart: of both sides), and the
// filter: a click dims the rest.
import { setClasses } from "./colouring";
import { colourOf, culpritColour } from "./colours";
import { showFinding } from "./findings";
import { attempt } from "./notices";
import { className, scaleName } from "./scales";
import * as state from "./state";
import { t } from "./state";
import { UNMATCHED, type NodeRow } from "./types";

export function Legend() {
  const info = state.info.value!;
  const colours = state.colours.value;
  const chosen = state.classes.value;
  void state.values.value;
  void state.layout.value;
  const tree = state.tree.value;
  const [root, reference] = tree.roots.map((id) => tree.node(id));
  const hasNoValues = info.task === "structure" && state.colour.value.by === "index";
  const numbers: number[] = Array.from({ length: hasNoValues ? 0 : state.scale.value.classes }, (_, i) => i);
  const hasUnmatched = info.compare && !["overflow", "kind"].includes(state.colour.value.by);
  if (hasUnmatched) numbers.push(UNMATCHED);
  const change = (number: number, more: boolean): void => {
    const next = new Set(more ? chosen : chosen.has(number) && chosen.size === 1 ? [number] : []);
    if (chosen.has(number) && (more || chosen.size === 1)) next.delete(number);
    else next.add(number);
    setClasses(next);
  };
  return (
    <div class="legend" role="group" aria-label={`${t("colourBy")}: ${scaleName(state.colour.value.by)}. ${t("filterHint")}`}>
      {state.culprits.value.length > 0 && (
        <button class="begins" title={t("firstDivergence")} onClick={() => void attempt(() => showFinding(0))}>
          <i style={{ background: culpritColour(state.dark.value) }} />
          {t("legendCulprit")}
        </button>
      )}
      {numbers.map((number) => {
        const count = number === UNMATCHED ? aloneOf(root, reference) : root?.below?.counts[number];
        return (
          <button
            key={number}
            class="class"
            aria-pressed={chosen.has(number)}
            title={t("filterHint")}
            onClick={(event) => change(number, event.shiftKey || event.ctrlKey || event.metaKey)}
          >
            <i style={{ background: colourOf(colours, number) }} />
            {number === UNMATCHED ? t("unmatched") : className(number)}
            {count !== undefined && <b>{count.toLocaleString("en-US")}</b>}
          </button>
        );
      })}
      {chosen.size > 0 && <button class="quiet" onClick={() => setClasses(new Set())}>{t("clearFilter")}</button>}
    </div>
  );
}

const aloneOf = (...roots: (NodeRow | undefined)[]): number | undefined => {
  const counts = roots.flatMap((root) => (root?.below ? [root.below.unmatched] : []));
  return counts.length ? counts.reduce((sum, count) => sum + count, 0) : undefined;
};
