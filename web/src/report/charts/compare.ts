// Two runs on one chart: A dashed with hollow ends, B in full.

import { byRate, line, middle, type Group, type Pair, type Step } from "../data";
import { duration, number } from "../format";
import type { Palette } from "../palette";
import { bottom, frame, left, leftLog, type Build, type Pen } from "./base";
import { dashed, dot, ends, lineBand, topLabel, type End } from "./marks";

export interface Figure {
  words: string;
  log: boolean;
  say: (v: number) => string;
  of: (s: Step) => number | null;
  diagonal?: boolean;
}

export const p99: Figure = {
  words: "p99 of the response time",
  log: true,
  say: duration,
  of: (s) => s.p99_ns,
};
export const good: Figure = {
  words: "requests that ended well, a second",
  log: false,
  say: number,
  of: (s) => s.goodput_per_second.estimate,
  diagonal: true,
};

// overlay draws one figure of both runs against the offered rate.
export function overlay(pair: Pair, f: Figure): Build {
  const a = byRate(pair.a.steps ?? []);
  const b = byRate(pair.b.steps ?? []);
  const rates = [...new Set([...a, ...b].map((g) => g.rate))].sort((x, y) => x - y);
  const columns = [a, b].map((groups) => column(rates, groups, f));
  const values = columns.flat().filter((v): v is number => v !== null && v > 0);
  const top = Math.max(...rates) * 1.03;
  return (width, p) => {
    if (rates.length === 0 || values.length === 0) return null;
    const range: [number, number] = f.log
      ? [Math.min(...values) / 1.4, Math.max(...values) * 1.5]
      : [0, Math.max(...values) * 1.12];
    return {
      data: [rates, ...columns],
      options: frame({
        width,
        height: width < 500 ? 300 : 360,
        right: 34,
        scales: {
          x: { time: false, range: [0, top] },
          y: f.log ? { distr: 3, log: 10, range } : { range },
        },
        series: [
          {},
          {
            scale: "y",
            stroke: p.a,
            width: 2,
            dash: [6, 4],
            spanGaps: true,
            points: { show: false },
          },
          { scale: "y", stroke: p.b, width: 2.4, spanGaps: true, points: { show: false } },
        ],
        axes: [
          bottom(p, "requests offered a second", number),
          f.log ? leftLog(p, f.say) : left(p, f.say),
        ],
        under: (pen) => {
          const [one, two] = [line(pair.a), line(pair.b)];
          const first = !one || !two || one.estimate <= two.estimate;
          lineBand(
            pen,
            { ...p, band: `${p.a}22`, accent: p.a },
            one,
            "A ",
            first ? "left" : "right",
          );
          lineBand(pen, p, two, "B ", first ? "right" : "left");
          if (f.diagonal)
            dashed(
              pen,
              p.faint,
              pen.x(0),
              pen.y(0),
              pen.x(Math.min(top, range[1])),
              pen.y(Math.min(top, range[1])),
            );
        },
        over: (pen) => over(pen, p, f, rates, columns),
        tell: (i) => [
          [`${number(rates[i]!)}/s`, ""],
          ...["A", "B"].map((name, k): [string, string] => {
            const v = columns[k]![i];
            return [name, v == null ? "–" : f.say(v)];
          }),
        ],
      }),
    };
  };
}

function column(rates: number[], groups: Group[], f: Figure): (number | null)[] {
  return rates.map((rate) => {
    const group = groups.find((g) => g.rate === rate);
    return group ? middle(group.steps, f.of) : null;
  });
}

function over(
  pen: Pen,
  p: Palette,
  f: Figure,
  rates: number[],
  columns: (number | null)[][],
): void {
  topLabel(pen, p, f.words);
  const all: End[] = [];
  columns.forEach((values, k) => {
    const colour = k === 0 ? p.a : p.b;
    values.forEach((v, i) => {
      if (v !== null) dot(pen, colour, pen.x(rates[i]!), pen.y(v), 3.5);
      if (v !== null && k === 0) dot(pen, p.card, pen.x(rates[i]!), pen.y(v), 2);
    });
    const last = values.findLastIndex((v) => v !== null);
    if (last >= 0)
      all.push({
        x: pen.x(rates[last]!),
        y: pen.y(values[last]!),
        words: k === 0 ? "A" : "B",
        colour,
      });
  });
  ends(pen, all);
}
