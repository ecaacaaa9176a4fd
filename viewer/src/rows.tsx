// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// A list of any length that only has the rows in sight in the page.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Shape {
  count: number;
  height: number;
  row: (index: number) => ComponentChildren;
  seen?: (first: number, last: number) => void;
  label: string;
}

export function Rows({ count, height, row, seen, label }: Shape) {
  const box = useRef<HTMLDivElement>(null);
  const [, draw] = useState(0);
  const made = useRef<Virtualizer<HTMLDivElement, Element> | null>(null);
  const options = {
    count,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => draw((number) => number + 1),
  };
  made.current ??= new Virtualizer(options);
  made.current.setOptions(options);
  useEffect(() => made.current!._didMount(), []);
  useEffect(() => made.current!._willUpdate());
  const items = made.current.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => seen?.(first, last), [first, last, count]);
  return (
    <div class="rows" ref={box} role="list" aria-label={label} tabIndex={-1}>
      <div style={{ height: `${made.current.getTotalSize()}px`, position: "relative" }}>
        {items.map((item) => (
          <div key={item.index} class="row" role="listitem" style={{ transform: `translateY(${item.start}px)`, height: `${height}px` }}>
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
