// Marks and labels that are drawn on charts. A verdict has a shape of its own, so that no reader
// depends on its colour.

import type { Verdict, Interval } from "../data";
import { number } from "../format";
import type { Palette } from "../palette";
import type { Pen } from "./base";

const tones = {
  PASS: "pass",
  "OK SO FAR": "pass",
  FAIL: "fail",
  UNDECIDED: "undecided",
  INVALID: "invalid",
  "": "muted",
} as const;

// tone is a verdict's colour; a step that was not judged is muted.
export function tone(v: Verdict): "pass" | "fail" | "undecided" | "invalid" | "muted" {
  return tones[v] ?? "muted";
}

// mark draws a verdict: a disc (hollow where it is OK so far), a cross, a hollow diamond, a hollow
// square; a small disc where there is none.
export function mark({ ctx }: Pen, p: Palette, v: Verdict, x: number, y: number, size = 4.5): void {
  const kind = tone(v);
  if (kind === "muted") {
    dot({ ctx }, p.muted, x, y, size * 0.7);
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.strokeStyle = p[kind];
  ctx.fillStyle = v === "PASS" ? p.pass : p.card;
  ctx.lineWidth = kind === "fail" ? 2.4 : 1.8;
  if (kind === "pass") ctx.arc(x, y, size, 0, 2 * Math.PI);
  else if (kind === "fail") {
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x + size, y - size);
    ctx.lineTo(x - size, y + size);
  } else if (kind === "undecided") {
    const d = size * 1.3;
    ctx.moveTo(x, y - d);
    ctx.lineTo(x + d, y);
    ctx.lineTo(x, y + d);
    ctx.lineTo(x - d, y);
    ctx.closePath();
  } else ctx.rect(x - size, y - size, 2 * size, 2 * size);
  if (kind !== "fail") ctx.fill();
  ctx.stroke();
  ctx.restore();
}

export function dot(
  { ctx }: Pick<Pen, "ctx">,
  colour: string,
  x: number,
  y: number,
  size = 2.5,
): void {
  ctx.beginPath();
  ctx.fillStyle = colour;
  ctx.arc(x, y, size, 0, 2 * Math.PI);
  ctx.fill();
}

export function text(
  { ctx }: Pen,
  colour: string,
  x: number,
  y: number,
  words: string,
  align: CanvasTextAlign = "left",
): void {
  ctx.fillStyle = colour;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  ctx.fillText(words, x, y);
}

// plate draws a text on a plate of the card's colour, so that lines do not run through it.
export function plate(
  pen: Pen,
  p: Palette,
  colour: string,
  x: number,
  y: number,
  words: string,
  align: CanvasTextAlign = "left",
): void {
  const width = pen.ctx.measureText(words).width;
  const start = align === "left" ? x : align === "right" ? x - width : x - width / 2;
  pen.ctx.save();
  pen.ctx.globalAlpha = 0.85;
  pen.ctx.fillStyle = p.card;
  pen.ctx.fillRect(start - 3, y - 8, width + 6, 16);
  pen.ctx.restore();
  text(pen, colour, x, y, words, align);
}

export interface End {
  x: number;
  y: number;
  words: string;
  colour: string;
}

// ends labels lines where they end, at the right edge, and moves labels apart that would overlap.
export function ends(pen: Pen, all: End[]): void {
  const apart = 15;
  const sorted = [...all].sort((a, b) => a.y - b.y);
  for (let i = 1; i < sorted.length; i++) {
    const above = sorted[i - 1]!;
    const here = sorted[i]!;
    here.y = Math.max(here.y, above.y + apart);
  }
  let limit = pen.bottom;
  for (const here of sorted.reverse()) {
    here.y = Math.min(here.y, limit);
    limit = here.y - apart;
  }
  for (const e of sorted) text(pen, e.colour, e.x + 9, e.y, e.words);
}

// rule draws a horizontal dashed line with words at its left end.
export function rule(pen: Pen, p: Palette, colour: string, y: number, words: string): void {
  if (y < pen.top || y > pen.bottom) return;
  dashed(pen, colour, pen.left, y, pen.right, y);
  plate(pen, p, colour, pen.left + 8, y, words);
}

export function dashed(
  { ctx }: Pen,
  colour: string,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
): void {
  ctx.save();
  ctx.beginPath();
  ctx.strokeStyle = colour;
  ctx.setLineDash([5, 4]);
  ctx.lineWidth = 1.2;
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.restore();
}

// lineBand shades the load line's interval and names it above the chart, to one side of it where
// another band is close.
export function lineBand(
  pen: Pen,
  p: Palette,
  line: Interval | null,
  words = "load line ",
  side: "left" | "right" | "center" = "center",
): void {
  if (!line) return;
  const from = Math.max(pen.x(line.low), pen.left);
  const to = Math.min(pen.x(line.high), pen.right);
  if (to < from) return;
  pen.ctx.fillStyle = p.band;
  pen.ctx.fillRect(from, pen.top, Math.max(2, to - from), pen.bottom - pen.top);
  const at = pen.x(line.estimate);
  dashed(pen, p.accent, at, pen.top, at, pen.bottom);
  const label =
    pen.right - pen.left < 400 && side !== "center" ? words : `${words}${number(line.estimate)}`;
  const half = pen.ctx.measureText(label).width / 2;
  const middle = side === "left" ? at - half : side === "right" ? at + half : at;
  text(
    pen,
    p.accent,
    Math.min(Math.max(middle, pen.left + half), pen.right - half),
    pen.top - 14,
    label,
    "center",
  );
}

// topLabel writes what the values are above the axis of values.
export function topLabel(pen: Pen, p: Palette, words: string): void {
  text(pen, p.muted, 0, pen.top - 14, words);
}
