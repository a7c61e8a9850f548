// What all charts share: how one is put on the page and redrawn, its axes, and the note that
// follows the pointer.

import "../sharp";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./charts.css";
import { palette, type Palette } from "../palette";

export interface Chart {
  options: uPlot.Options;
  data: uPlot.AlignedData;
}

// Build makes a chart for a width in CSS pixels and the colours of the theme; null when there is
// nothing to draw.
export type Build = (width: number, p: Palette) => Chart | null;

const mounted: (() => void)[] = [];

// printWidth fits a page of A4 and of Letter; the style sheet then scales what was drawn.
const printWidth = 660;
let printing = false;

// mount puts a chart on the page, and redraws it when its width changes. A figure without anything
// to draw is taken away.
export function mount(name: string, build: Build): void {
  const host = document.querySelector<HTMLElement>(`[data-chart="${name}"]`);
  if (!host) return;
  const inner = document.createElement("div");
  inner.setAttribute("role", "img");
  inner.setAttribute("aria-label", host.dataset["label"] ?? name);
  host.append(inner);
  let plot: uPlot | undefined;
  let width = 0;
  const draw = (): void => {
    plot?.destroy();
    plot = undefined;
    width = printing ? printWidth : host.clientWidth;
    const chart = build(width, palette());
    host.hidden = !chart;
    if (chart) plot = new uPlot(chart.options, chart.data, inner);
  };
  draw();
  mounted.push(draw);
  new ResizeObserver(() => {
    if (!printing && !host.hidden && host.clientWidth !== width) draw();
  }).observe(host);
}

// redraw draws everything again, after the theme or a choice has changed.
export function redraw(): void {
  for (const draw of mounted) draw();
}

// forPrint draws for paper, or for the screen again.
export function forPrint(on: boolean): void {
  printing = on;
  redraw();
}

const font =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

// axis is one in the house's style.
export function axis(p: Palette, more: Partial<uPlot.Axis>): uPlot.Axis {
  return {
    stroke: p.muted,
    font,
    labelFont: font,
    labelSize: 18,
    labelGap: 0,
    gap: 6,
    size: 40,
    grid: { stroke: p.grid, width: 1 },
    ticks: { show: false },
    ...more,
  };
}

// left is the axis of values. Its label is written above the axis, where it can be read without
// turning the head.
export function left(p: Palette, say: (v: number) => string): uPlot.Axis {
  return axis(p, {
    scale: "y",
    size: 62,
    values: (_u, splits) => splits.map((v) => (v === null ? null : say(v))),
  });
}

// leftLog is one with a logarithmic scale, split at round numbers: uPlot's own splits begin at the
// lowest value, whatever it is.
export function leftLog(p: Palette, say: (v: number) => string): uPlot.Axis {
  const at = (_u: uPlot, _i: number, low: number, high: number): number[] => logSplits(low, high);
  return { ...left(p, say), splits: at, filter: (_u, splits) => splits };
}

function logSplits(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 3.2 ? [1] : decades > 1.8 ? [1, 3] : [1, 2, 5];
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
    for (const s of steps) if (s * 10 ** e >= low && s * 10 ** e <= high) out.push(s * 10 ** e);
  }
  return out;
}

// bottom is the axis of x.
export function bottom(
  p: Palette,
  label: string,
  say: (v: number) => string,
  more: Partial<uPlot.Axis> = {},
): uPlot.Axis {
  return axis(p, {
    scale: "x",
    label,
    size: 30,
    values: (_u, splits) => splits.map((v) => (v === null ? null : say(v))),
    ...more,
  });
}

export interface Frame {
  width: number;
  height: number;
  right?: number;
  top?: number;
  scales: uPlot.Scales;
  series: uPlot.Series[];
  axes: uPlot.Axis[];
  under?: (pen: Pen) => void; // drawn below the lines
  over?: (pen: Pen) => void; // drawn above them
  tell?: (index: number) => [string, string][]; // the note's lines at an index of x
}

// frame makes uPlot's options of what a chart needs. Charts do not zoom, and have no legend: their
// lines are labelled where they end.
export function frame(f: Frame): uPlot.Options {
  const hooks: uPlot.Hooks.Arrays = {};
  if (f.under) hooks.drawAxes = [(u) => draw(u, f.under!)];
  if (f.over) hooks.draw = [(u) => draw(u, f.over!)];
  if (f.tell) follow(hooks, f.tell);
  return {
    width: f.width,
    height: printing ? Math.round(f.height * 0.75) : f.height,
    padding: [f.top ?? 28, f.right ?? 16, 0, 0],
    scales: f.scales,
    series: f.series,
    axes: f.axes,
    hooks,
    legend: { show: false },
    cursor: {
      show: Boolean(f.tell),
      y: false,
      drag: { x: false, y: false, setScale: false },
      points: { show: false },
    },
  };
}

// Pen draws on a chart in CSS pixels.
export interface Pen {
  ctx: CanvasRenderingContext2D;
  x: (v: number) => number;
  y: (v: number) => number;
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function draw(u: uPlot, what: (pen: Pen) => void): void {
  const ratio = uPlot.pxRatio;
  const scale = u.series[1]?.scale ?? "y";
  const box = u.bbox;
  u.ctx.save();
  u.ctx.scale(ratio, ratio);
  u.ctx.font = font;
  what({
    ctx: u.ctx,
    x: (v) => u.valToPos(v, "x", true) / ratio,
    y: (v) => u.valToPos(v, scale, true) / ratio,
    left: box.left / ratio,
    top: box.top / ratio,
    right: (box.left + box.width) / ratio,
    bottom: (box.top + box.height) / ratio,
  });
  u.ctx.restore();
}

// follow shows a note beside the pointer.
function follow(hooks: uPlot.Hooks.Arrays, tell: (index: number) => [string, string][]): void {
  const note = document.createElement("div");
  note.className = "note-box";
  note.setAttribute("aria-hidden", "true");
  hooks.ready = [(u) => u.over.append(note)];
  hooks.setCursor = [
    (u) => {
      const { idx, left: at } = u.cursor;
      const lines = typeof idx === "number" && typeof at === "number" && at >= 0 ? tell(idx) : [];
      note.hidden = lines.length === 0;
      if (note.hidden) return;
      note.replaceChildren(
        ...lines.map(([name, value]) => {
          const row = document.createElement("div");
          const label = document.createElement("span");
          const figure = document.createElement("b");
          label.textContent = name;
          figure.textContent = value;
          row.append(label, figure);
          return row;
        }),
      );
      const x = u.valToPos(u.data[0]![idx as number]!, "x");
      const flip = x > u.over.clientWidth / 2;
      note.style.left = flip ? "" : `${x + 14}px`;
      note.style.right = flip ? `${u.over.clientWidth - x + 14}px` : "";
    },
  ];
}
