// Throughput against the requests in the target, and the scalability law fitted to it, drawn only
// as far as it may be asked.

import type { Run } from "../data";
import { number } from "../format";
import { bottom, frame, left, type Build } from "./base";
import { dashed, mark, plate, text, topLabel } from "./marks";

const points = 120;

export function usl(run: Run): Build {
  const law = run.result?.model.usl;
  const steps = (run.steps ?? []).filter((s) => s.concurrency > 0 && s.verdict !== "INVALID");
  return (width, p) => {
    if (!law || law.lambda.estimate <= 0 || law.reach_concurrency <= 0 || steps.length === 0)
      return null;
    const reach = law.reach_concurrency;
    const inside = steps.filter((s) => s.concurrency <= reach);
    const outside = steps.length - inside.length;
    const at = (n: number): number =>
      (law.lambda.estimate * n) /
      (1 + law.sigma.estimate * (n - 1) + law.kappa.estimate * n * (n - 1));
    const x = Array.from({ length: points + 1 }, (_, i) => (i / points) * reach);
    const y = x.map(at);
    const measured = Math.max(...inside.map((s) => s.concurrency), 0);
    const high = Math.max(...y, ...inside.map((s) => s.throughput_per_second)) * 1.15;
    return {
      data: [x, y],
      options: frame({
        width,
        height: width < 500 ? 260 : 300,
        scales: { x: { time: false, range: [0, reach * 1.02] }, y: { range: [0, high] } },
        series: [{}, { scale: "y", stroke: p.accent, width: 2, points: { show: false } }],
        axes: [bottom(p, "requests in the target at once", number), left(p, number)],
        over: (pen) => {
          topLabel(pen, p, "requests answered a second");
          if (measured > 0 && measured < reach) {
            dashed(pen, p.muted, pen.x(measured), pen.top, pen.x(measured), pen.bottom);
            plate(pen, p, p.muted, pen.x(measured) + 8, pen.bottom - 14, "beyond: the law alone");
          }
          for (const s of inside)
            mark(pen, p, s.verdict, pen.x(s.concurrency), pen.y(s.throughput_per_second), 4);
          if (outside > 0)
            text(
              pen,
              p.muted,
              pen.right,
              pen.top - 14,
              width < 500 ? `${outside} more beyond` : `${outside} steps lie beyond the right edge`,
              "right",
            );
        },
      }),
    };
  };
}
