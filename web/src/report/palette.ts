// The colours of the style sheet, for canvases; and the theme, which a reader may choose.

export type Palette = Record<
  | "card"
  | "ink"
  | "muted"
  | "faint"
  | "grid"
  | "accent"
  | "band"
  | "pass"
  | "fail"
  | "undecided"
  | "invalid"
  | "p50"
  | "p90"
  | "p99"
  | "p999"
  | "a"
  | "b",
  string
>;

const names: (keyof Palette)[] = [
  "card",
  "ink",
  "muted",
  "faint",
  "grid",
  "accent",
  "band",
  "pass",
  "fail",
  "undecided",
  "invalid",
  "p50",
  "p90",
  "p99",
  "p999",
  "a",
  "b",
];

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]),
  ) as Palette;
}

export type Theme = "light" | "dark";

export function theme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// choose sets the theme; undefined leaves it to the system again.
export function choose(t: Theme | undefined): void {
  if (t) document.documentElement.dataset["theme"] = t;
  else delete document.documentElement.dataset["theme"];
}
