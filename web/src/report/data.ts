// The data that the Go side puts into a page. Names are those of the Go types (internal/lab/report, record, model); rates are requests a second,
// durations nanoseconds. Texts in it come from outside and are only ever set as text.

export interface Interval { Low: number; Estimate: number; High: number; Confidence: number }

export type Verdict = "PASS" | "OK SO FAR" | "FAIL" | "UNDECIDED" | "INVALID" | "";

export interface Use { Target: number | null; Host: number | null; Generator: number | null; PerRequest: number | null }

export interface Step {
  Number: number; Phase: string; Rate: number; Seconds: number; Verdict: Verdict;
  Goodput: Interval; Throughput: number;
  P50: number | null; P90: number | null; P99: number | null; P999: number | null; Max: number;
  Errors: number; Concurrency: number; Use: Use;
  Curve: { X: number; Y: number }[] | null;
}

export interface Knee { Found: boolean; Rate: Interval; Goodput?: number }

export interface USL { Lambda: Interval; Sigma: Interval; Kappa: Interval; Reach: number; PeakN: number; PeakX: number }

export interface Result {
  Line: { Interval: Interval; Found: boolean };
  Peak: Knee; Collapse: Knee;
  Model: { USL: USL | null };
}

export interface Timeline {
  At: number[] | null; Offered: number[] | null; Good: number[] | null; P50: (number | null)[] | null; P99: (number | null)[] | null;
  Steps: { Number: number; From: number; To: number }[] | null;
}

// Goal is an objective of the SLO; Limit is 0 where it is about failures.
export interface Goal { Text: string; Limit: number }

// Flames are the page's flame graphs. Origins has a digit for each name: 0 the service's code, 1 Go's library, 2 its runtime.
export interface Flames { Names: string[]; Origins: string; Graphs: Graph[] }

// Graph has its nodes in one list, a parent before its children: name, number of children, weight, and in a difference the weight before. Weights are in
// Parts of Whole, which is in Unit. Grain is what one sample weighs, and weighed before, in parts; 0 when that is not known.
export interface Graph { Title: string; Unit: string; Difference?: boolean; Whole: number; Parts: number; Grain?: [number, number]; Nodes: number[] | null }

export interface Run { Result: Result | null; Steps: Step[] | null; Timeline: Timeline; Goals: Goal[] | null; Flames?: Flames | null }

export interface Pair { A: Run; B: Run }

export function read(): Run | Pair {
  const text = document.getElementById("data")?.textContent;
  if (!text) throw new Error("the page has no data");
  return JSON.parse(text) as Run | Pair;
}

// line is a run's load line, where it was found.
export function line(run: Run): Interval | null {
  return run.Result?.Line.Found ? run.Result.Line.Interval : null;
}

export interface Group { rate: number; steps: Step[] }

// byRate groups the steps that were held at one rate, in ascending order. INVALID ones say nothing of the target and are left out of lines.
export function byRate(steps: Step[]): Group[] {
  const groups: Group[] = [];
  for (const step of steps.filter((s) => s.Verdict !== "INVALID").sort((a, b) => a.Rate - b.Rate)) {
    const last = groups[groups.length - 1];
    if (last && step.Rate <= last.rate * 1.002) last.steps.push(step);
    else groups.push({ rate: step.Rate, steps: [step] });
  }
  return groups;
}

// middle is the median of what steps at one rate measured; a value among failures counts as the largest, and the median may be such a one.
export function middle(steps: Step[], of: (s: Step) => number | null): number | null {
  const values = steps.map((s) => of(s) ?? Infinity).sort((a, b) => a - b);
  const value = values[Math.floor((values.length - 1) / 2)];
  return value === undefined || !Number.isFinite(value) ? null : value;
}
