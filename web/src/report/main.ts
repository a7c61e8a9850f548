// The script of a report: it draws the charts and wakes the buttons. Text and tables are there
// without it.

import "./errors";
import { forPrint, mount, redraw } from "./charts/base";
import { good, overlay, p99 } from "./charts/compare";
import { goodput } from "./charts/goodput";
import { latency } from "./charts/latency";
import { percentiles, type Curve } from "./charts/percentiles";
import { saturation } from "./charts/saturation";
import { timelineLatency, timelineRate } from "./charts/timeline";
import { usl } from "./charts/usl";
import { mountFlames } from "./flame/flame";
import { byRate, read, type Pair, type Run, type Step } from "./data";
import { number } from "./format";
import { choose } from "./palette";
import { Choice } from "./sections/choose";
import { sortable } from "./sections/tables";
import { copyButton, download, themeButton } from "./sections/tools";

function one(run: Run): void {
  mount("latency", latency(run));
  mount("goodput", goodput(run));
  mount("usl", usl(run));
  mount("saturation", saturation(run));
  mount("timeline-rate", timelineRate(run));
  mount("timeline-latency", timelineLatency(run));
  const choice = new Choice(run.steps ?? [], redraw);
  const host = document.querySelector<HTMLElement>('[data-choose="percentiles"]');
  if (host) choice.buttons(host);
  mount(
    "percentiles",
    percentiles(() => choice.curves()),
  );
  mountFlames(run.flames);
}

function two(pair: Pair): void {
  mount("compare-latency", overlay(pair, p99));
  mount("compare-goodput", overlay(pair, good));
  mount(
    "compare-percentiles",
    percentiles(() => common(pair)),
  );
}

// common are the curves of both runs at the highest rate that both held, and that both passed if
// there is one.
function common(pair: Pair): Curve[] {
  const passed = (run: Run): Step[] => (run.steps ?? []).filter((s) => s.verdict === "PASS");
  const both = match(passed(pair.a), passed(pair.b));
  return both.length > 0 ? both : match(pair.a.steps ?? [], pair.b.steps ?? []);
}

function match(ofA: Step[], ofB: Step[]): Curve[] {
  const b = byRate(ofB);
  for (const a of byRate(ofA).reverse()) {
    const same = b.find((g) => Math.abs(g.rate / a.rate - 1) < 0.01);
    if (same) {
      return [
        { step: a.steps[0]!, words: `A, ${number(a.rate)}/s`, colour: "a", dash: [6, 4] },
        { step: same.steps[0]!, words: `B, ${number(same.rate)}/s`, colour: "b" },
      ];
    }
  }
  return [];
}

// On paper there is no dark theme, whatever was chosen.
function printing(): void {
  let chosen: string | undefined;
  window.addEventListener("beforeprint", () => {
    chosen = document.documentElement.dataset["theme"];
    choose("light");
    forPrint(true);
  });
  window.addEventListener("afterprint", () => {
    choose(chosen === "light" || chosen === "dark" ? chosen : undefined);
    forPrint(false);
  });
}

const data = read();
if ("a" in data) two(data);
else one(data);
for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) sortable(table);
const tools = document.getElementById("tools");
if (tools) themeButton(tools);
for (const command of document.querySelectorAll<HTMLElement>("pre.command")) copyButton(command);
const link = document.querySelector<HTMLAnchorElement>("a.download");
if (link) download(link);
printing();
document.documentElement.dataset["ready"] = "yes";
