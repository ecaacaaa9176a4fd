// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { keep, t } from "./state";

interface Shape {
  variable: string; // of CSS; its value is kept
  axis: "x" | "y";
  min: number;
  max: number;
  from: "start" | "end"; // which side of the splitter has this size
  label: string;
}

const set = (variable: string, value: number): void => {
  document.documentElement.style.setProperty(variable, `${value}px`);
  keep(`size${variable}`, String(value));
};

for (const variable of ["--side", "--lower"]) {
  try {
    const value = Number(localStorage.getItem(`msprobe.size${variable}`));
    if (value > 0) document.documentElement.style.setProperty(variable, `${value}px`);
  } catch {
    // nothing is kept here
  }
}

/** A border that can be moved, with the mouse and with the arrow keys. */
export function Splitter({ variable, axis, min, max, from, label }: Shape) {
  const sizeNow = (element: HTMLElement): number => {
    const other = (from === "start" ? element.previousElementSibling : element.nextElementSibling) as HTMLElement;
    return axis === "x" ? other.offsetWidth : other.offsetHeight;
  };
  const [size, keepSize] = useState(() => Number.parseInt(getComputedStyle(document.documentElement).getPropertyValue(variable), 10) || min);
  const resize = (value: number): void => {
    const limited = Math.round(Math.max(min, Math.min(max, value)));
    set(variable, limited);
    keepSize(limited);
  };
  const begin = (event: PointerEvent): void => {
    const element = event.currentTarget as HTMLElement;
    element.setPointerCapture(event.pointerId);
    const start = sizeNow(element);
    const origin = axis === "x" ? event.clientX : event.clientY;
    element.onpointermove = (move) => {
      const moved = (axis === "x" ? move.clientX : move.clientY) - origin;
      resize(start + (from === "start" ? moved : -moved));
    };
    element.onpointerup = () => (element.onpointermove = null);
  };
  const byKey = (event: KeyboardEvent): void => {
    const direction = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (direction === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    resize(sizeNow(event.currentTarget as HTMLElement) + direction * (from === "start" ? 24 : -24));
  };
  return (
    <div
      class={`splitter ${axis}`}
      role="separator"
      aria-orientation={axis === "x" ? "vertical" : "horizontal"}
      aria-label={`${label}: ${t("resize")}`}
      aria-valuenow={size}
      aria-valuemin={min}
      aria-valuemax={max}
      tabIndex={0}
      onPointerDown={begin}
      onKeyDown={byKey}
    />
  );
}
