// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where the rows of the graph stand, and which part of them is on the screen.
import { limited } from "./camera";
import { ROW_HEIGHT, type Layout } from "./layout";
import LayoutWorker from "./layout_worker?worker&inline";
import { rememberPlace } from "./place";
import { valuesChanged } from "./scene";
import * as state from "./state";

/** The place of the graph on the screen, set by the panes. */
export const panes = { width: 600, height: 400 };

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
