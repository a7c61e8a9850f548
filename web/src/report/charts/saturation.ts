// How much of the processors was in use at each rate: by the target, by its whole host, and by the
// generator.

import { byRate, line, middle, type Run, type Use } from "../data";
import { number, percent } from "../format";
import type { Palette } from "../palette";
import { bottom, frame, left, type Build } from "./base";
import { dot, ends, lineBand, rule, topLabel, type End } from "./marks";

const lines: { key: keyof Use; colour: keyof Palette; words: string; dash?: number[] }[] = [
  { key: "host_share", colour: "muted", words: "host", dash: [2, 3] },
  { key: "target_share", colour: "accent", words: "target" },
  { key: "generator_share", colour: "undecided", words: "generator", dash: [6, 4] },
];

export function saturation(run: Run): Build {
  const steps = run.steps ?? [];
  const groups = byRate(steps);
  const shown = lines.filter((l) => steps.some((s) => s.use[l.key] !== null));
  const most = Math.max(1, ...steps.flatMap((s) => shown.map((l) => s.use[l.key] ?? 0)));
  const top = Math.max(...steps.map((s) => s.rate_per_second)) * 1.03;
  return (width, p) => {
    if (shown.length === 0 || groups.length === 0) return null;
    const columns = shown.map((l) => groups.map((g) => middle(g.steps, (s) => s.use[l.key])));
    return {
      data: [groups.map((g) => g.rate), ...columns],
      options: frame({
        width,
        height: 260,
        right: 80,
        scales: { x: { time: false, range: [0, top] }, y: { range: [0, most * 1.08] } },
        series: [
          {},
          ...shown.map((l) => ({
            scale: "y",
            stroke: p[l.colour],
            width: l.key === "target_share" ? 2.4 : 1.6,
            points: { show: false },
            ...(l.dash ? { dash: l.dash } : {}),
          })),
        ],
        axes: [bottom(p, "requests offered a second", number), left(p, percent)],
        under: (pen) => lineBand(pen, p, line(run)),
        over: (pen) => {
          topLabel(pen, p, "of all processors");
          rule(pen, p, p.muted, pen.y(1), "all in use");
          const all: End[] = [];
          shown.forEach((l, i) => {
            for (const s of steps) {
              const v = s.use[l.key];
              if (v !== null)
                dot(
                  pen,
                  p[l.colour],
                  pen.x(s.rate_per_second),
                  pen.y(v),
                  l.key === "target_share" ? 3 : 2,
                );
            }
            const column = columns[i]!;
            const last = column.findLastIndex((v) => v !== null);
            if (last >= 0)
              all.push({
                x: pen.x(groups[last]!.rate),
                y: pen.y(column[last]!),
                words: l.words,
                colour: p[l.colour],
              });
          });
          ends(pen, all);
        },
        tell: (i) => [
          [`${number(groups[i]!.rate)}/s`, ""],
          ...shown.map((l, k): [string, string] => {
            const v = columns[k]![i];
            return [l.words, v == null ? "–" : percent(v)];
          }),
        ],
      }),
    };
  };
}
