// The tree of a flame graph, from the list of numbers that the page holds.

import type { Flames, Graph } from "../data";

// Look is which colour a function has: whose code it is; see profile.origin on the Go side.
export type Look = "own" | "standard" | "runtime" | "folded" | "whole";

export interface Node {
  name: string;
  look: Look;
  after: number;
  before: number; // weights, in the graph's unit
  parent: Node | null;
  children: Node[];
  depth: number;
  from: number;
  upto: number; // its place along the row, as shares of the root, by the weights that widths show
}

const looks: Look[] = ["own", "standard", "runtime"];
const folded = "…";

// short is a name without the path of its package: "http.(*conn).serve" for
// "net/http.(*conn).serve". It is what fits into a frame.
export function short(name: string): string {
  return (
    name.slice(name.lastIndexOf("/", name.indexOf("(") < 0 ? undefined : name.indexOf("(")) + 1) ||
    name
  );
}

// grow makes the tree; null when the list holds none. It does not call itself: a list may be one
// long chain.
export function grow(all: Flames, graph: Graph): Node | null {
  const size = graph.difference ? 4 : 3;
  const list = graph.nodes ?? [];
  const unit = graph.whole / graph.parts;
  const open: { node: Node; missing: number }[] = [];
  let root: Node | null = null;
  for (let i = 0; i + size <= list.length; i += size) {
    const id = list[i]!;
    const name = all.names[id] ?? "?";
    const parent: Node | null = open[open.length - 1]?.node ?? null;
    const after = list[i + 2]! * unit;
    const node: Node = {
      name,
      look: !root
        ? "whole"
        : name === folded
          ? "folded"
          : (looks[Number(all.origins[id])] ?? "runtime"),
      after,
      before: graph.difference ? list[i + 3]! * unit : after,
      parent,
      children: [],
      depth: open.length,
      from: 0,
      upto: 1,
    };
    root ??= node;
    parent?.children.push(node);
    if (open.length > 0) open[open.length - 1]!.missing--;
    open.push({ node, missing: list[i + 1]! });
    while (open.length > 0 && open[open.length - 1]!.missing <= 0) open.pop();
  }
  return root;
}

// place gives each node its place along the row. Names decide the order, so that a function stays
// where it was when widths change, and what is folded comes last.
export function place(root: Node, weight: (n: Node) => number): void {
  const whole = weight(root) || 1;
  const todo = [root];
  root.from = 0;
  root.upto = weight(root) / whole;
  for (let node = todo.pop(); node; node = todo.pop()) {
    let at = node.from;
    node.children.sort(
      (a, b) => Number(a.name === folded) - Number(b.name === folded) || (a.name < b.name ? -1 : 1),
    );
    for (const child of node.children) {
      child.from = at;
      at += weight(child) / whole;
      child.upto = at;
      todo.push(child);
    }
  }
}

// within says whether a node is another, or below it.
export function within(node: Node, above: Node): boolean {
  for (let n: Node | null = node; n; n = n.parent) if (n === above) return true;
  return false;
}

// own is what a node weighs without its children. What the subtraction of many fractions leaves of
// nothing is nothing.
export function own(node: Node, weight: (n: Node) => number): number {
  const left = node.children.reduce((rest, child) => rest - weight(child), weight(node));
  return left > weight(node) * 1e-6 ? left : 0;
}

// Change is in which of seven steps a node's weight moved, from "less3" over "same" to "more3".
export type Change = "less3" | "less2" | "less1" | "same" | "more1" | "more2" | "more3";

// change compares with the larger of both, so that what doubled and what halved are equally far
// from "same". What moved by less than a five-hundredth of the root, or by less than two standard
// errors of its samples, is noise: samples come as a Poisson process does, so n of them are
// uncertain by the root of n.
export function change(node: Node, root: Node, graph: Graph): Change {
  const moved = node.after - node.before;
  const [after, before] = (graph.grain ?? [0, 0]).map(
    (parts) => (parts * graph.whole) / graph.parts,
  );
  const noise = 2 * Math.sqrt(node.after * after! + node.before * before!);
  if (Math.abs(moved) < Math.max(noise, Math.max(root.after, root.before) / 500)) return "same";
  const share = Math.abs(moved) / Math.max(node.after, node.before);
  const step = share < 0.05 ? 0 : share < 0.2 ? 1 : share < 0.5 ? 2 : 3;
  if (step === 0) return "same";
  return `${moved > 0 ? "more" : "less"}${step}` as Change;
}

// matcher is a search: a regular expression where the text is one, else the text as it stands.
// Neither cares for capitals. Null when there is nothing to look for.
export function matcher(text: string): ((name: string) => boolean) | null {
  if (!text.trim()) return null;
  try {
    const expression = new RegExp(text, "i");
    return (name) => expression.test(name);
  } catch {
    const small = text.toLowerCase();
    return (name) => name.toLowerCase().includes(small);
  }
}

// matched is the weight of what a search finds below a node, each stack counted once.
export function matched(
  top: Node,
  found: (name: string) => boolean,
  weight: (n: Node) => number,
): number {
  let sum = 0;
  const todo = [top];
  for (let node = todo.pop(); node; node = todo.pop()) {
    if (found(node.name)) sum += weight(node);
    else todo.push(...node.children);
  }
  return sum;
}
