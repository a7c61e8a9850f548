// Which steps the percentile plot shows. It begins with the gentlest, the highest that passed, and
// the lowest that failed.

import type { Step } from "../data";
import { number } from "../format";
import type { Palette } from "../palette";
import type { Curve } from "../charts/percentiles";

const looks: { colour: keyof Palette; dash?: number[] }[] = [
  { colour: "p50" },
  { colour: "p99" },
  { colour: "fail" },
  { colour: "undecided", dash: [6, 4] },
  { colour: "pass", dash: [6, 4] },
  { colour: "p999", dash: [2, 3] },
];

export class Choice {
  // shown holds a step for each look; a look without one is free.
  private readonly shown: (Step | undefined)[] = looks.map(() => undefined);

  constructor(
    private readonly steps: Step[],
    private readonly changed: () => void,
  ) {
    const telling = steps
      .filter((s) => (s.curve ?? []).length > 1)
      .sort((a, b) => a.rate_per_second - b.rate_per_second);
    const pass = telling.findLast((s) => s.verdict === "PASS");
    const fail = telling.find(
      (s) => s.verdict === "FAIL" && s.rate_per_second > (pass?.rate_per_second ?? 0),
    );
    const first = [telling[0], pass ?? telling[telling.length - 1], fail];
    first.forEach((step, i) => {
      if (step && !this.shown.includes(step)) this.shown[i] = step;
    });
  }

  curves(): Curve[] {
    return this.shown.flatMap((step, i) =>
      step ? [{ step, words: `${number(step.rate_per_second)}/s`, ...looks[i]! }] : [],
    );
  }

  // buttons puts one for each step into host. When every look is taken, the one shown first makes
  // room.
  buttons(host: HTMLElement): void {
    const all = this.steps
      .filter((s) => (s.curve ?? []).length > 1)
      .map((step) => ({ step, button: document.createElement("button") }));
    const paint = (): void => {
      for (const { step, button } of all) {
        const at = this.shown.indexOf(step);
        button.setAttribute("aria-pressed", String(at >= 0));
        button.style.color = at >= 0 ? `var(--${looks[at]!.colour})` : "";
      }
    };
    for (const { step, button } of all) {
      button.type = "button";
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.setAttribute("aria-hidden", "true");
      const words = document.createElement("span");
      words.className = "text";
      words.textContent = `${step.number}: ${number(step.rate_per_second)}/s`;
      button.setAttribute(
        "aria-label",
        `Step ${step.number}, ${number(step.rate_per_second)} a second, ${step.verdict || "not judged"}`,
      );
      button.append(swatch, words);
      button.addEventListener("click", () => {
        this.toggle(step);
        paint();
        this.changed();
      });
    }
    host.append(...all.map((one) => one.button));
    paint();
  }

  private toggle(step: Step): void {
    const at = this.shown.indexOf(step);
    if (at >= 0) {
      this.shown[at] = undefined;
      return;
    }
    const free = this.shown.indexOf(undefined);
    this.shown[free >= 0 ? free : 0] = step;
  }
}
