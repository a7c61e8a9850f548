// The whole run in the order it was made: what was offered and what ended well, and under it the
// percentiles of each window.

import type { Run, Step } from "../data";
import { duration, number } from "../format";
import type { Palette } from "../palette";
import { axis, bottom, frame, left, leftLog, type Build, type Pen } from "./base";
import { ends, mark, rule, text, topLabel, tone } from "./marks";

export function timelineRate(run: Run): Build {
  const t = run.timeline;
  const at = t.at_seconds ?? [];
  const end = endOf(run);
  const high = Math.max(...(t.offered_per_second ?? []), ...(t.good_per_second ?? []), 1) * 1.08;
  return (width, p) => {
    if (at.length === 0) return null;
    return {
      data: [at, t.offered_per_second ?? [], t.good_per_second ?? []],
      options: frame({
        width,
        height: 215,
        right: 66,
        top: 50,
        scales: { x: { time: false, range: [0, end] }, y: { range: [0, high] } },
        series: [
          {},
          { scale: "y", stroke: p.muted, width: 1.2, points: { show: false } },
          { scale: "y", stroke: p.accent, width: 2, points: { show: false } },
        ],
        axes: [axis(p, { scale: "x", size: 8, values: () => [] }), left(p, number)],
        under: (pen) => spans(pen, p, run, true),
        over: (pen) => {
          topLabel(pen, p, "a second");
          const last = (t.good_per_second ?? []).length - 1;
          ends(pen, [
            {
              x: pen.right,
              y: pen.y(t.offered_per_second?.[last] ?? 0),
              words: "offered",
              colour: p.muted,
            },
            {
              x: pen.right,
              y: pen.y(t.good_per_second?.[last] ?? 0),
              words: "good",
              colour: p.accent,
            },
          ]);
        },
        tell: (i) => [
          [`at ${number(at[i]!)} s`, ""],
          ["offered", `${number(t.offered_per_second?.[i] ?? 0)}/s`],
          ["ended well", `${number(t.good_per_second?.[i] ?? 0)}/s`],
        ],
      }),
    };
  };
}

export function timelineLatency(run: Run): Build {
  const t = run.timeline;
  const at = t.at_seconds ?? [];
  const p50 = t.p50_ns ?? [];
  const p99 = t.p99_ns ?? [];
  const values = [...p50, ...p99].filter((v): v is number => v !== null && v > 0);
  for (const goal of run.goals ?? []) if (goal.limit_ns > 0) values.push(goal.limit_ns);
  return (width, p) => {
    if (at.length === 0 || values.length === 0) return null;
    const low = Math.min(...values) / 1.4;
    const high = Math.max(...values) * 1.5;
    return {
      data: [at, p50, p99],
      options: frame({
        width,
        height: 260,
        right: 66,
        scales: {
          x: { time: false, range: [0, endOf(run)] },
          y: { distr: 3, log: 10, range: [low, high] },
        },
        series: [
          {},
          { scale: "y", stroke: p.p50, width: 1.4, points: { show: false } },
          { scale: "y", stroke: p.p99, width: 1.8, points: { show: false } },
        ],
        axes: [bottom(p, "seconds of load", number), leftLog(p, duration)],
        under: (pen) => spans(pen, p, run, false),
        over: (pen) => {
          topLabel(pen, p, "response time of a window");
          for (const goal of run.goals ?? [])
            if (goal.limit_ns > 0) rule(pen, p, p.fail, pen.y(goal.limit_ns), goal.text);
          failed(pen, p, at, p99);
          ends(pen, [lastOf(pen, p50, "p50", p.muted), lastOf(pen, p99, "p99", p.p99)]);
        },
        tell: (i) => [
          [`at ${number(at[i]!)} s`, ""],
          ["p99", p99[i] == null ? "failed" : duration(p99[i])],
          ["p50", p50[i] == null ? "failed" : duration(p50[i])],
        ],
      }),
    };
  };
}

function endOf(run: Run): number {
  return Math.max(1, ...(run.timeline.steps ?? []).map((s) => s.to_seconds));
}

function lastOf(
  pen: Pen,
  column: (number | null)[],
  words: string,
  colour: string,
): { x: number; y: number; words: string; colour: string } {
  const v = column.findLast((one) => one !== null);
  return { x: pen.right, y: v == null ? pen.top : pen.y(v), words, colour };
}

// spans shades every other step, and names each above the chart where there is room.
function spans(pen: Pen, p: Palette, run: Run, named: boolean): void {
  const steps = new Map<number, Step>((run.steps ?? []).map((s) => [s.number, s]));
  (run.timeline.steps ?? []).forEach((span, i) => {
    const from = pen.x(span.from_seconds);
    const to = pen.x(span.to_seconds);
    if (i % 2 === 0) {
      pen.ctx.save();
      pen.ctx.globalAlpha = 0.45;
      pen.ctx.fillStyle = p.grid;
      pen.ctx.fillRect(from, pen.top, to - from, pen.bottom - pen.top);
      pen.ctx.restore();
    }
    const step = steps.get(span.number);
    if (!named || !step) return;
    const middle = (from + to) / 2;
    mark(pen, p, step.verdict, middle, pen.top - 30, 4);
    if (to - from > 22)
      text(pen, p[tone(step.verdict)], middle, pen.top - 14, String(span.number), "center");
  });
}

// failed marks windows whose p99 lies among failures along the upper edge.
function failed(pen: Pen, p: Palette, at: number[], column: (number | null)[]): void {
  pen.ctx.fillStyle = p.fail;
  const half = Math.max(1, (pen.x(at[1] ?? 1) - pen.x(at[0] ?? 0)) / 2);
  column.forEach((v, i) => {
    if (v === null) pen.ctx.fillRect(pen.x(at[i]!) - half, pen.top, 2 * half, 3);
  });
}
