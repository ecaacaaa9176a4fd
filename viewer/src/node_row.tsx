// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { colourOf } from "./colours";
import { short } from "./names";
import { attempt } from "./notices";
import { reveal } from "./selecting";
import * as state from "./state";
import { t } from "./state";
import type { NodeRow } from "./types";

/** A full name that is broken after dots; the whole text stays one text for search and copy. */
export function Name({ text }: { text: string }) {
  return <>{text.split(/(?<=[.])/).map((part, at) => [at > 0 && <wbr key={at} />, part])}</>;
}

const TAIL = 18;
/** A name in one line: where there is no room its middle is left out, as both ends tell something. */
function Ends({ text }: { text: string }) {
  return text.length <= TAIL ? <span class="name">{text}</span> : <span class="name"><span>{text.slice(0, -TAIL)}</span>{text.slice(-TAIL)}</span>;
}

/** A node in a list: what it is called, where it is, and its value. */
export function NodeRowButton({ node, mark, sort }: { node: NodeRow | undefined; mark?: string; sort?: string }) {
  if (!node) return <span class="soft">…</span>;
  const isSelected = state.selected.value[node.side] === node.name;
  const info = state.info.value!;
  const side = info.compare && !mark ? t(node.side === 0 ? "target" : "reference") : "";
  const value = sort === "difference" ? short(node.ulps) : sort === "index" ? short(node.index) : short(node.value);
  const kind = node.kind === 9 ? t("collection") : node.children || node.kind === 0 ? t("module") : t("api");
  return (
    <button class="node" aria-current={isSelected} title={node.name} onClick={() => void attempt(() => reveal(node.side, node.name))}>
      <i style={{ background: colourOf(state.colours.value, node.class) }} />
      <Ends text={node.name} />
      <span class="facts">
        {[mark, side, kind].filter(Boolean).join(" · ")}
        <b>{value}</b>
      </span>
    </button>
  );
}
