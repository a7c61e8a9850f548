// Latency against rate: percentiles on a logarithmic scale, a mark with its verdict for every step,
// the SLO's limits and the band of the load line.

import { byRate, line, middle, type Run, type Step } from "../data";
import { duration, number, percent } from "../format";
import type { Palette } from "../palette";
import { bottom, frame, leftLog, type Build, type Pen } from "./base";
import { dot, ends, lineBand, mark, rule, text, topLabel, type End } from "./marks";

const lines: {
  key: "p50_ns" | "p90_ns" | "p99_ns" | "p99_9_ns";
  colour: keyof Palette;
  words: string;
  width: number;
}[] = [
  { key: "p50_ns", colour: "p50", words: "p50", width: 1.6 },
  { key: "p90_ns", colour: "p90", words: "p90", width: 1.6 },
  { key: "p99_ns", colour: "p99", words: "p99", width: 2.4 },
  { key: "p99_9_ns", colour: "p999", words: "p99.9", width: 1.6 },
];

export function latency(run: Run): Build {
  const steps = run.steps ?? [];
  const groups = byRate(steps);
  const values = steps
    .flatMap((s) => lines.map((l) => s[l.key]))
    .filter((v): v is number => v !== null && v > 0);
  for (const goal of run.goals ?? []) if (goal.limit_ns > 0) values.push(goal.limit_ns);
  const low = Math.min(...values) / 1.4;
  const high = Math.max(...values) * 1.5;
  const top = Math.max(...steps.map((s) => s.rate_per_second)) * 1.03;
  return (width, p) => {
    if (groups.length === 0 || values.length === 0) return null;
    const columns = lines.map((l) => groups.map((g) => middle(g.steps, (s) => s[l.key])));
    return {
      data: [groups.map((g) => g.rate), ...columns],
      options: frame({
        width,
        height: width < 500 ? 320 : 400,
        right: 46,
        scales: {
          x: { time: false, range: [0, top] },
          y: { distr: 3, log: 10, range: [low, high] },
        },
        series: [
          {},
          ...lines.map((l) => ({
            scale: "y",
            stroke: p[l.colour],
            width: l.width,
            points: { show: false },
          })),
        ],
        axes: [bottom(p, "requests offered a second", number), leftLog(p, duration)],
        under: (pen) => lineBand(pen, p, line(run)),
        over: (pen) => {
          topLabel(pen, p, "response time");
          for (const goal of run.goals ?? [])
            if (goal.limit_ns > 0) rule(pen, p, p.fail, pen.y(goal.limit_ns), goal.text);
          marks(pen, p, steps);
          ends(
            pen,
            labels(
              pen,
              p,
              groups.map((g) => g.rate),
              columns,
            ),
          );
        },
        tell: (i) => tell(groups[i]!.rate, groups[i]!.steps),
      }),
    };
  };
}

// marks draws every step. A p99 among the failures has no value, and its mark stands at the upper
// edge.
function marks(pen: Pen, p: Palette, steps: Step[]): void {
  for (const s of steps) {
    const x = pen.x(s.rate_per_second);
    for (const l of lines) {
      const v = s[l.key];
      if (l.key !== "p99_ns" && v !== null) dot(pen, p[l.colour], x, pen.y(v), 2);
    }
  }
  for (const s of steps) {
    const x = pen.x(s.rate_per_second);
    mark(pen, p, s.verdict, x, s.p99_ns === null ? pen.top + 8 : pen.y(s.p99_ns));
    if (s.p99_ns === null && pen.right - pen.left > 600)
      text(pen, p.fail, x - 9, pen.top + 8, `${percent(s.error_share)} failed`, "right");
  }
}

function labels(pen: Pen, p: Palette, x: number[], columns: (number | null)[][]): End[] {
  const all: End[] = [];
  lines.forEach((l, i) => {
    const column = columns[i]!;
    const last = column.findLastIndex((v) => v !== null);
    if (last >= 0)
      all.push({
        x: pen.x(x[last]!),
        y: pen.y(column[last]!),
        words: l.words,
        colour: l.key === "p50_ns" ? p.muted : p[l.colour],
      });
  });
  const right = Math.max(...all.map((e) => e.x));
  for (const e of all) e.x = right;
  return all;
}

function tell(rate: number, steps: Step[]): [string, string][] {
  const say = (v: number | null): string => (v === null ? "failed" : duration(v));
  return [
    [`${number(rate)}/s`, steps.map((s) => s.verdict || "–").join(", ")],
    ...[...lines]
      .reverse()
      .map((l): [string, string] => [l.words, steps.map((s) => say(s[l.key])).join(", ")]),
  ];
}
