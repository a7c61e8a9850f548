// Latency against rate: percentiles on a logarithmic scale, a mark with its verdict for every step, the SLO's limits and the knee band.

import { byRate, line, middle, type Run, type Step } from "../data";
import { duration, number, percent } from "../format";
import type { Palette } from "../palette";
import { bottom, frame, leftLog, type Build, type Pen } from "./base";
import { dot, ends, kneeBand, mark, rule, text, topLabel, type End } from "./marks";

const lines: { key: "P50" | "P90" | "P99" | "P999"; colour: keyof Palette; words: string; width: number }[] = [
  { key: "P50", colour: "p50", words: "p50", width: 1.6 },
  { key: "P90", colour: "p90", words: "p90", width: 1.6 },
  { key: "P99", colour: "p99", words: "p99", width: 2.4 },
  { key: "P999", colour: "p999", words: "p99.9", width: 1.6 },
];

export function latency(run: Run): Build {
  const steps = run.Steps ?? [];
  const groups = byRate(steps);
  const values = steps.flatMap((s) => lines.map((l) => s[l.key])).filter((v): v is number => v !== null && v > 0);
  for (const goal of run.Goals ?? []) if (goal.Limit > 0) values.push(goal.Limit);
  const low = Math.min(...values) / 1.4;
  const high = Math.max(...values) * 1.5;
  const top = Math.max(...steps.map((s) => s.Rate)) * 1.03;
  return (width, p) => {
    if (groups.length === 0 || values.length === 0) return null;
    const columns = lines.map((l) => groups.map((g) => middle(g.steps, (s) => s[l.key])));
    return {
      data: [groups.map((g) => g.rate), ...columns],
      options: frame({
        width, height: width < 500 ? 320 : 400, right: 46,
        scales: { x: { time: false, range: [0, top] }, y: { distr: 3, log: 10, range: [low, high] } },
        series: [{}, ...lines.map((l) => ({ scale: "y", stroke: p[l.colour], width: l.width, points: { show: false } }))],
        axes: [bottom(p, "requests offered a second", number), leftLog(p, duration)],
        under: (pen) => kneeBand(pen, p, line(run)),
        over: (pen) => {
          topLabel(pen, p, "response time");
          for (const goal of run.Goals ?? []) if (goal.Limit > 0) rule(pen, p, p.fail, pen.y(goal.Limit), goal.Text);
          marks(pen, p, steps);
          ends(pen, labels(pen, p, groups.map((g) => g.rate), columns));
        },
        tell: (i) => tell(groups[i]!.rate, groups[i]!.steps),
      }),
    };
  };
}

// marks draws every step. A p99 among the failures has no value, and its mark stands at the upper edge.
function marks(pen: Pen, p: Palette, steps: Step[]): void {
  for (const s of steps) {
    const x = pen.x(s.Rate);
    for (const l of lines) {
      const v = s[l.key];
      if (l.key !== "P99" && v !== null) dot(pen, p[l.colour], x, pen.y(v), 2);
    }
  }
  for (const s of steps) {
    const x = pen.x(s.Rate);
    mark(pen, p, s.Verdict, x, s.P99 === null ? pen.top + 8 : pen.y(s.P99));
    if (s.P99 === null && pen.right - pen.left > 600) text(pen, p.fail, x - 9, pen.top + 8, `${percent(s.Errors)} failed`, "right");
  }
}

function labels(pen: Pen, p: Palette, x: number[], columns: (number | null)[][]): End[] {
  const all: End[] = [];
  lines.forEach((l, i) => {
    const column = columns[i]!;
    const last = column.findLastIndex((v) => v !== null);
    if (last >= 0) all.push({ x: pen.x(x[last]!), y: pen.y(column[last]!), words: l.words, colour: l.key === "P50" ? p.muted : p[l.colour] });
  });
  const right = Math.max(...all.map((e) => e.x));
  for (const e of all) e.x = right;
  return all;
}

function tell(rate: number, steps: Step[]): [string, string][] {
  const say = (v: number | null): string => (v === null ? "failed" : duration(v));
  return [
    [`${number(rate)}/s`, steps.map((s) => s.Verdict || "–").join(", ")],
    ...[...lines].reverse().map((l): [string, string] => [l.words, steps.map((s) => say(s[l.key])).join(", ")]),
  ];
}
