// The percentile plot, as HdrHistogram's: the further right, the rarer. A curve of a step with
// failures ends where these begin.

import type { Step } from "../data";
import { duration, number, percentile } from "../format";
import type { Palette } from "../palette";
import { axis, frame, leftLog, type Build } from "./base";
import { ends, text, topLabel, type End } from "./marks";

export interface Curve {
  step: Step;
  words: string;
  colour: keyof Palette;
  dash?: number[];
}

// chosen is asked at each drawing, as the reader may choose other steps.
export function percentiles(chosen: () => Curve[]): Build {
  return (width, p) => {
    const curves = chosen().filter((c) => (c.step.curve ?? []).length > 1);
    const xs = [
      ...new Set(curves.flatMap((c) => (c.step.curve ?? []).map((q) => Math.max(1, q.x)))),
    ].sort((a, b) => a - b);
    const ys = curves.flatMap((c) => (c.step.curve ?? []).map((q) => q.y)).filter((y) => y > 0);
    if (curves.length === 0 || xs.length < 2 || ys.length === 0) return null;
    const columns = curves.map((c) => spread(c, xs));
    const low = Math.min(...ys) / 1.3;
    const high = Math.max(...ys) * 1.4;
    return {
      data: [xs, ...columns],
      options: frame({
        width,
        height: width < 500 ? 320 : 380,
        right: width < 500 ? 74 : 118,
        scales: {
          x: { time: false, distr: 3, log: 10, range: [1, Math.max(10, xs[xs.length - 1]!)] },
          y: { distr: 3, log: 10, range: [low, high] },
        },
        series: [
          {},
          ...curves.map((c) => ({
            scale: "y",
            stroke: p[c.colour],
            width: 2,
            spanGaps: true,
            points: { show: false },
            ...(c.dash ? { dash: c.dash } : {}),
          })),
        ],
        axes: [
          axis(p, {
            scale: "x",
            label: "percentile of all requests",
            size: 30,
            values: (_u, splits) =>
              splits.map((v) => (v !== null && decade(v) ? percentile(v) : null)),
            grid: {
              stroke: p.grid,
              width: 1,
              filter: (_u, splits) => splits.map((v) => (decade(v) ? v : null)),
            },
          }),
          leftLog(p, duration),
        ],
        over: (pen) => {
          topLabel(pen, p, "response time");
          const all: End[] = [];
          for (const c of curves) {
            const last = c.step.curve![c.step.curve!.length - 1]!;
            const x = pen.x(last.x);
            if (c.step.error_share > 0) text(pen, p[c.colour], x, pen.y(last.y), "✕", "center");
            all.push({
              x: x + (c.step.error_share > 0 ? 4 : 0),
              y: pen.y(last.y),
              words: c.words,
              colour: c.colour === "p50" ? p.muted : p[c.colour],
            });
          }
          ends(pen, all);
        },
        tell: (i) => [
          [percentile(xs[i]!), `1 in ${number(xs[i]!)} is slower`],
          ...curves.map((c): [string, string] => [c.words, at(c, xs[i]!)]),
        ],
      }),
    };
  };
}

function decade(v: number): boolean {
  const power = Math.log10(v);
  return Math.abs(power - Math.round(power)) < 1e-9;
}

// spread puts a curve's points into the columns that all curves share.
function spread(c: Curve, xs: number[]): (number | null)[] {
  const at = new Map((c.step.curve ?? []).map((q) => [Math.max(1, q.x), q.y]));
  return xs.map((x) => at.get(x) ?? null);
}

// at reads a curve at x: the first point that is not left of it.
function at(c: Curve, x: number): string {
  const point = (c.step.curve ?? []).find((q) => q.x >= x);
  return point ? duration(point.y) : c.step.error_share > 0 ? "failed" : "–";
}
