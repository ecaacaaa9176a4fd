// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { layOut, type LayoutInput } from "./layout";

self.onmessage = (event: MessageEvent<{ number: number; input: LayoutInput }>) => {
  const layout = layOut(event.data.input);
  const parts = [layout.id, layout.side, layout.kind, layout.depth, layout.y, layout.height];
  (self as unknown as Worker).postMessage(
    { number: event.data.number, layout },
    parts.map((part) => part.buffer),
  );
};
