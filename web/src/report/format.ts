// Numbers for people, written as the Go side writes them.

export function number(v: number): string {
  if (!Number.isFinite(v)) return "–";
  const digits = Math.abs(v) >= 100 || Number.isInteger(v) ? 0 : Math.abs(v) >= 10 ? 1 : 2;
  return v.toLocaleString("en-US", { maximumFractionDigits: digits });
}

const units: [number, number, string][] = [
  [1e3, 1, "ns"],
  [1e6, 1e3, "µs"],
  [1e9, 1e6, "ms"],
  [Infinity, 1e9, "s"],
];

export function duration(ns: number): string {
  for (const [below, size, name] of units) {
    if (Math.abs(ns) < below * 0.9995) return `${parseFloat((ns / size).toPrecision(3))} ${name}`;
  }
  return "–";
}

export function percent(share: number): string {
  return `${parseFloat((share * 100).toPrecision(3))} %`;
}

// percentile names the x of a percentile plot: 1/(1−p).
export function percentile(x: number): string {
  return x <= 1
    ? "0 %"
    : `${parseFloat((100 * (1 - 1 / x)).toPrecision(x < 100 ? 2 : Math.ceil(Math.log10(x)) + 1))} %`;
}
