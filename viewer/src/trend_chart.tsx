// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The curves of one series: of each run its mean, least and most, the noise of the reference, alarms, where runs part.
import { useEffect, useRef, useState } from "preact/hooks";
import * as state from "./state";
import { t } from "./state";
import { badColour, runColour } from "./trend_colours";
import * as trend from "./trend_state";
import { digits, pointAt, type Point } from "./trend_state";

export const LEFT = 150; // the names of the rows of the map below, which has the same steps
export const RIGHT = 12;
const TOP = 18;
const BOTTOM = 24;

export function useSize(): [{ current: HTMLDivElement | null }, number, number] {
  const box = useRef<HTMLDivElement>(null);
  const [[width, height], set] = useState<[number, number]>([0, 0]);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && set([box.current.clientWidth, box.current.clientHeight]));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  return [box, width, height];
}

export function Chart() {
  const [box, width, height] = useSize();
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [first, last] = trend.steps.value;
  const span = Math.max(last - first, 1);
  const inner = Math.max(width - LEFT - RIGHT, 1);
  const x = (step: number): number => LEFT + ((step - first) / span) * inner;
  const stepAt = (event: PointerEvent): number => {
    const place = event.clientX - box.current!.getBoundingClientRect().left - LEFT;
    return Math.round(first + Math.max(0, Math.min(1, place / inner)) * span);
  };
  const axis = axisOf(height);
  return (
    <div
      class="pane-body chart"
      ref={box}
      role="img"
      aria-label={`${trend.key.value}: ${t("trendSteps", first, last)}`}
      onPointerMove={(event) => {
        const step = stepAt(event);
        trend.at.value = step;
        if (drag) setDrag([drag[0], step]);
      }}
      onPointerLeave={() => !drag && (trend.at.value = null)}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([stepAt(event), stepAt(event)]);
      }}
      onPointerUp={() => {
        if (drag && Math.abs(x(drag[1]) - x(drag[0])) > 6) trend.zoomTo(drag[0], drag[1]);
        setDrag(null);
      }}
      onDblClick={() => trend.zoomTo(...trend.whole.value)}
    >
      {width > 0 && axis && (
        <svg width={width} height={height} aria-hidden="true">
          {axis.ticks.map((value) => (
            <g key={value} class="grid">
              <line x1={LEFT} x2={width - RIGHT} y1={axis.y(value)} y2={axis.y(value)} />
              <text x={LEFT - 7} y={axis.y(value) + 4} text-anchor="end">{digits(value)}</text>
            </g>
          ))}
          {niceTicks(first, last, Math.max(2, Math.floor(inner / 110))).filter(Number.isInteger).map((step) => (
            <text key={step} class="tick" x={x(step)} y={height - 7} text-anchor="middle">{step.toLocaleString("en-US")}</text>
          ))}
          <Marks x={x} height={height} />
          <clipPath id="plot"><rect x={LEFT} y={TOP} width={inner} height={Math.max(height - TOP - BOTTOM, 0)} /></clipPath>
          <g clip-path="url(#plot)"><NoiseBand x={x} y={axis.y} /></g>
          {trend.curve.value.map((points, run) => points && !trend.hidden.value.has(run) && <Curve key={run} run={run} points={points} x={x} y={axis.y} bottom={height - BOTTOM} />)}
          {trend.at.value !== null && <line class="cross" x1={x(trend.at.value)} x2={x(trend.at.value)} y1={TOP} y2={height - BOTTOM} />}
          {drag && <rect class="drag" x={Math.min(x(drag[0]), x(drag[1]))} y={TOP} width={Math.abs(x(drag[1]) - x(drag[0]))} height={height - TOP - BOTTOM} />}
        </svg>
      )}
      {trend.curve.value.length > 0 && !axis && <p class="pad soft">{t("trendNoNumber")}</p>}
    </div>
  );
}

interface Axis {
  ticks: number[];
  y: (value: number) => number;
}

function axisOf(height: number): Axis | null {
  const shown = trend.curve.value.filter((points, run) => points && !trend.hidden.value.has(run)) as Point[][];
  let [low, high] = [Infinity, -Infinity];
  for (const points of shown)
    for (const point of points) {
      if (point[2] !== null && (!trend.isLog.value || point[2] > 0)) low = Math.min(low, point[2]);
      if (point[3] !== null) high = Math.max(high, point[3]);
    }
  if (!(low <= high)) return null;
  const isLog = trend.isLog.value && low > 0;
  if (low === high) [low, high] = low === 0 ? [-1, 1] : isLog ? [low / 2, low * 2] : [low - Math.abs(low) * 0.1, low + Math.abs(low) * 0.1];
  const scale = (value: number): number => (isLog ? Math.log10(Math.max(value, low / 10)) : value);
  const [from, to] = [scale(low), scale(high)];
  const room = (to - from) * 0.05;
  const inner = height - TOP - BOTTOM;
  const y = (value: number): number => TOP + inner - ((scale(value) - from + room) / (to - from + 2 * room)) * inner;
  const plain = (): number[] => niceTicks(low, high, Math.max(2, Math.floor(inner / 44)));
  const powers = niceTicks(from, to, 8).filter(Number.isInteger).map((power) => 10 ** power);
  return { ticks: isLog && powers.length > 1 ? powers : plain().filter((value) => !isLog || value > 0), y };
}

export function niceTicks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= raw) ?? 10);
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

interface Scales {
  x: (step: number) => number;
  y: (value: number) => number;
}

const middle = (point: Point): number => (point[0] + point[1]) / 2;

function Curve({ run, points, x, y, bottom }: Scales & { run: number; points: Point[]; bottom: number }) {
  const colour = runColour(run, state.dark.value);
  const line: string[] = [];
  let pen = "M";
  for (const point of points) {
    if (point[4] === null) pen = "M";
    else {
      line.push(`${pen}${x(middle(point)).toFixed(1)} ${y(point[4]).toFixed(1)}`);
      pen = "L";
    }
  }
  const wide = points.filter((point) => point[2] !== null && point[1] > point[0]);
  const up = wide.map((point) => `${x(middle(point)).toFixed(1)} ${y(point[3]!).toFixed(1)}`);
  const down = wide.map((point) => `${x(middle(point)).toFixed(1)} ${y(point[2]!).toFixed(1)}`).reverse();
  return (
    <g class="curve">
      {wide.length > 1 && <path d={`M${[...up, ...down].join("L")}Z`} fill={colour} opacity="0.16" />}
      <path d={line.join("")} fill="none" stroke={colour} stroke-width={run === 0 ? 1.8 : 1.5} stroke-dasharray={run > 0 && run % 2 === 0 ? "5 3" : undefined} />
      {points.filter((point) => point[5] > 0).slice(0, 400).map((point) => (
        <circle key={point[0]} class="bad" cx={x(middle(point))} cy={bottom - 4} r="3" />
      ))}
    </g>
  );
}

function NoiseBand({ x, y }: Scales) {
  const band = trend.band.value;
  const points = trend.curve.value[0];
  if (!band || !points || trend.hidden.value.has(0)) return null;
  const sides: [number, number, number][] = points.flatMap((point, at) => {
    const half = band.half[at] ?? null;
    return half === null || point[4] === null ? [] : [[x(middle(point)), y(point[4] + half), y(point[4] - half)]];
  });
  const up = sides.map(([at, high]) => `${at.toFixed(1)} ${high.toFixed(1)}`);
  const down = sides.map(([at, , low]) => `${at.toFixed(1)} ${low.toFixed(1)}`).reverse();
  return sides.length > 1 ? <path class="band" d={`M${[...up, ...down].join("L")}Z`} /> : null;
}

/** Alarms as triangles at the top, those of this series filled; where runs part as lines. */
function Marks({ x, height }: { x: (step: number) => number; height: number }) {
  const [first, last] = trend.steps.value;
  const bad = badColour(state.dark.value);
  const inside = (step: number): boolean => step >= first && step <= last;
  const places = new Set<string>(); // no two triangles at one place
  const alarms = trend.runs.value.flatMap((run, number) =>
    trend.hidden.value.has(number) ? [] : run.alarms.filter((alarm) => inside(alarm[0])).map((alarm) => ({ alarm, number, own: alarm[2] === trend.key.value })),
  );
  alarms.sort((a, b) => Number(b.own) - Number(a.own));
  return (
    <g>
      {alarms.map(({ alarm, number, own }) => {
        const place = x(alarm[0]);
        const name = `${Math.round(place / 4)}`;
        if (places.has(name)) return null;
        places.add(name);
        return (
          <path key={`${number} ${alarm[0]} ${alarm[2]}`} class="alarm" d={`M${place - 5} 4h10l-5 9z`} fill={own ? bad : "none"} stroke={bad}>
            <title>{`${trend.runs.value[number]!.name}: ${t("step")} ${alarm[0]}, ${alarm[2]} = ${digits(alarm[3])} (${alarm[1]})`}</title>
          </path>
        );
      })}
      {trend.partingOf(trend.key.value).map((part, at) =>
        part && inside(part.step) && !trend.hidden.value.has(at + 1) ? (
          <g key={at} class="parting">
            <line x1={x(part.step)} x2={x(part.step)} y1={TOP} y2={height - BOTTOM} stroke={runColour(at + 1, state.dark.value)} />
            <text x={x(part.step) + 5} y={TOP + 11} fill={runColour(at + 1, state.dark.value)}>{t("trendParts", part.step)}</text>
          </g>
        ) : null,
      )}
    </g>
  );
}

/** The numbers at the step under the mouse. */
export function Readout() {
  const step = trend.at.value;
  const [first, last] = trend.steps.value;
  if (step === null) return <span class="soft">{t("trendSteps", first, last)}</span>;
  const band = trend.band.value;
  const half = band ? band.half[band.steps.findLastIndex((one) => one <= step)] : null;
  return (
    <span class="readout">
      <span class="soft">{t("step")} {step.toLocaleString("en-US")}</span>
      {trend.runs.value.map((_, number) => {
        const point = trend.hidden.value.has(number) ? undefined : pointAt(trend.curve.value[number], step);
        return point && (
          <span key={number}>
            <i style={{ background: runColour(number, state.dark.value) }} /> {digits(point[4])}
            {number === 0 && typeof half === "number" && <span class="soft"> ± {digits(half)}</span>}
          </span>
        );
      })}
    </span>
  );
}
