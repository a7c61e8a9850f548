// The data that the Go side puts into a page, as internal/lab/report/data.go has it; a list with
// nothing in it is absent. Texts in it come from outside and are only ever set as text.

export interface Interval {
  low: number;
  estimate: number;
  high: number;
  confidence: number;
}

export type Verdict = "PASS" | "OK SO FAR" | "FAIL" | "UNDECIDED" | "INVALID" | "";

export interface Use {
  target_share: number | null;
  host_share: number | null;
  generator_share: number | null;
  seconds_per_request: number | null;
}

export interface Step {
  number: number;
  phase: string;
  rate_per_second: number;
  seconds: number;
  verdict: Verdict;
  goodput_per_second: Interval;
  throughput_per_second: number;
  p50_ns: number | null;
  p90_ns: number | null;
  p99_ns: number | null;
  p99_9_ns: number | null;
  max_ns: number;
  error_share: number;
  concurrency: number;
  use: Use;
  curve?: { x: number; y: number }[];
}

export interface Collapse {
  found: boolean;
  rate_per_second: Interval;
  goodput_per_second?: number;
}

export interface USL {
  lambda: Interval;
  sigma: Interval;
  kappa: Interval;
  reach_concurrency: number;
  peak_concurrency: number;
  peak_per_second: number;
}

export interface Result {
  line: { rate_per_second: Interval; found: boolean };
  peak: Collapse;
  collapse: Collapse;
  model: { usl: USL | null };
}

export interface Timeline {
  at_seconds?: number[];
  offered_per_second?: number[];
  good_per_second?: number[];
  p50_ns?: (number | null)[];
  p99_ns?: (number | null)[];
  steps?: { number: number; from_seconds: number; to_seconds: number }[];
}

// Goal is an objective of the SLO; limit_ns is 0 where it is about failures.
export interface Goal {
  text: string;
  limit_ns: number;
}

// Flames are the page's flame graphs. origins has a digit for each name: 0 the service's code, 1
// Go's library, 2 its runtime.
export interface Flames {
  names: string[];
  origins: string;
  graphs: Graph[];
}

// Graph has its nodes in one list, a parent before its children: name, number of children, weight,
// and in a difference the weight before. Weights are in parts of whole, which is in unit. grain is
// what one sample weighs, and weighed before, in parts; 0 when that is not known.
export interface Graph {
  title: string;
  unit: string;
  difference?: boolean;
  whole: number;
  parts: number;
  grain?: [number, number];
  nodes?: number[];
}

export interface Run {
  result: Result | null;
  steps?: Step[];
  timeline: Timeline;
  goals?: Goal[];
  flames?: Flames | null;
}

export interface Pair {
  a: Run;
  b: Run;
}

export function read(): Run | Pair {
  const text = document.getElementById("data")?.textContent;
  if (!text) throw new Error("the page has no data");
  return JSON.parse(text) as Run | Pair;
}

// line is a run's load line, where it was found.
export function line(run: Run): Interval | null {
  return run.result?.line.found ? run.result.line.rate_per_second : null;
}

export interface Group {
  rate: number;
  steps: Step[];
}

// byRate groups the steps that were held at one rate, in ascending order. INVALID ones say nothing
// of the target and are left out of lines.
export function byRate(steps: Step[]): Group[] {
  const groups: Group[] = [];
  for (const step of steps
    .filter((s) => s.verdict !== "INVALID")
    .sort((a, b) => a.rate_per_second - b.rate_per_second)) {
    const last = groups[groups.length - 1];
    if (last && step.rate_per_second <= last.rate * 1.002) last.steps.push(step);
    else groups.push({ rate: step.rate_per_second, steps: [step] });
  }
  return groups;
}

// middle is the median of what steps at one rate measured; a value among failures counts as the
// largest, and the median may be such a one.
export function middle(steps: Step[], of: (s: Step) => number | null): number | null {
  const values = steps.map((s) => of(s) ?? Infinity).sort((a, b) => a - b);
  const value = values[Math.floor((values.length - 1) / 2)];
  return value === undefined || !Number.isFinite(value) ? null : value;
}
