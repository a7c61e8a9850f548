// Throughput and goodput against what was offered. On the diagonal all of it is served.

import { byRate, line, middle, type Run } from "../data";
import { number, percent } from "../format";
import { bottom, frame, left, type Build } from "./base";
import { dashed, ends, lineBand, mark, text, topLabel, type End } from "./marks";

export function goodput(run: Run): Build {
  const steps = run.steps ?? [];
  const groups = byRate(steps);
  const top = Math.max(...steps.map((s) => s.rate_per_second)) * 1.03;
  const high =
    Math.max(...steps.map((s) => Math.max(s.throughput_per_second, s.goodput_per_second.high))) *
    1.12;
  return (width, p) => {
    if (groups.length === 0) return null;
    const good = groups.map((g) => middle(g.steps, (s) => s.goodput_per_second.estimate));
    const through = groups.map((g) => middle(g.steps, (s) => s.throughput_per_second));
    return {
      data: [groups.map((g) => g.rate), through, good],
      options: frame({
        width,
        height: width < 500 ? 300 : 360,
        right: 86,
        scales: { x: { time: false, range: [0, top] }, y: { range: [0, high] } },
        series: [
          {},
          { scale: "y", stroke: p.muted, width: 1.4, dash: [2, 3], points: { show: false } },
          { scale: "y", stroke: p.accent, width: 2.4, points: { show: false } },
        ],
        axes: [bottom(p, "requests offered a second", number), left(p, number)],
        under: (pen) => {
          lineBand(pen, p, line(run));
          const end = Math.min(top, high);
          dashed(pen, p.muted, pen.x(0), pen.y(0), pen.x(end), pen.y(end));
        },
        over: (pen) => {
          topLabel(pen, p, "requests a second");
          pen.ctx.strokeStyle = p.accent;
          pen.ctx.lineWidth = 1.2;
          for (const s of steps) {
            const x = pen.x(s.rate_per_second);
            pen.ctx.beginPath();
            pen.ctx.moveTo(x, pen.y(s.goodput_per_second.low));
            pen.ctx.lineTo(x, pen.y(s.goodput_per_second.high));
            pen.ctx.stroke();
            mark(pen, p, s.verdict, x, pen.y(s.goodput_per_second.estimate));
          }
          const last = groups.length - 1;
          const x = pen.x(groups[last]!.rate);
          const all: End[] = [];
          if (good[last] != null)
            all.push({ x, y: pen.y(good[last]), words: "goodput", colour: p.accent });
          if (through[last] != null)
            all.push({ x, y: pen.y(through[last]), words: "throughput", colour: p.muted });
          ends(pen, all);
          const end = Math.min(top, high) * 0.35;
          text(pen, p.muted, pen.x(end) - 8, pen.y(end) - 10, "all served", "right");
        },
        tell: (i) => {
          const g = groups[i]!;
          return [
            [`${number(g.rate)}/s offered`, g.steps.map((s) => s.verdict || "–").join(", ")],
            ["answered", g.steps.map((s) => number(s.throughput_per_second)).join(", ")],
            ["answered well", g.steps.map((s) => number(s.goodput_per_second.estimate)).join(", ")],
            ["failed", g.steps.map((s) => percent(s.error_share)).join(", ")],
          ];
        },
      }),
    };
  };
}
