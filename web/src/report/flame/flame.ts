// A flame graph: zoom by click or Enter, back by Escape, search, arrows to walk. Frames are
// elements of the page, so that they can be focused, read aloud, found and printed; what is
// narrower than a pixel is not made.

import "./flame.css";
import type { Flames, Graph } from "../data";
import { percent } from "../format";
import { change, grow, matched, matcher, own, place, short, within, type Node } from "./tree";
import { Tip } from "./tip";
import { Tools } from "./tools";

const rowHeight = 20; // as in the style sheet
const narrowest = 0.0006; // of the width

// mountFlames puts every flame graph of the page into its figure.
export function mountFlames(all: Flames | null | undefined): void {
  all?.graphs.forEach((graph, i) => {
    const host = document.querySelector<HTMLElement>(`[data-flame="${i}"]`);
    const root = grow(all, graph);
    if (host && root) new Flame(host, graph, root);
  });
}

class Flame {
  private readonly stage = document.createElement("div");
  private readonly tools: Tools;
  private readonly tip: Tip;
  private readonly elements = new Map<Node, HTMLElement>();
  private readonly nodes = new WeakMap<Element, Node>();
  private readonly rows: Node[][] = [];
  private trail: Node[]; // what was zoomed to, the root first
  private current: Node; // the frame that the keyboard is at
  private byBefore = false;
  private found: ((name: string) => boolean) | null = null;

  constructor(
    host: HTMLElement,
    private readonly graph: Graph,
    private readonly root: Node,
  ) {
    this.trail = [root];
    this.current = root;
    this.tools = new Tools(graph, {
      search: (text) => this.search(text),
      to: (index) => this.back(index),
      widths: (before) => this.widths(before),
    });
    this.stage.className = "stage";
    this.stage.setAttribute("role", "tree");
    this.stage.setAttribute(
      "aria-label",
      `${host.dataset["label"] ?? graph.title}. Arrows move, Enter zooms in, Escape goes back.`,
    );
    this.tip = new Tip(host, this.stage);
    const view = document.createElement("div");
    view.className = "stage-view";
    view.append(this.stage);
    host.append(this.tools.head, view, this.tools.foot);
    this.listen();
    place(root, this.weight);
    this.draw();
  }

  private readonly weight = (n: Node): number => (this.byBefore ? n.before : n.after);

  private get top(): Node {
    return this.trail[this.trail.length - 1]!;
  }

  private listen(): void {
    const at = (event: Event): Node | undefined =>
      event.target instanceof Element ? this.nodes.get(event.target) : undefined;
    this.stage.addEventListener("click", (e) => {
      const node = at(e);
      if (node) this.zoom(node);
    });
    this.stage.addEventListener("pointermove", (e) => {
      const node = at(e);
      if (node) this.tip.show(this.lines(node), e.clientX, e.clientY);
      else this.tip.hide();
    });
    this.stage.addEventListener("pointerleave", () => this.tip.hide());
    this.stage.addEventListener("focusin", (e) => {
      const node = at(e);
      if (!node) return;
      this.mark(node);
      const box = (e.target as Element).getBoundingClientRect();
      if ((e.target as Element).matches(":focus-visible"))
        this.tip.show(this.lines(node), box.left + Math.min(box.width / 2, 60), box.bottom);
    });
    this.stage.addEventListener("focusout", () => this.tip.hide());
    this.stage.addEventListener("keydown", (e) => this.key(e));
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const row = this.rows[this.current.depth] ?? [];
    const here = row.indexOf(this.current);
    const steps: Record<string, () => Node | null | undefined> = {
      ArrowLeft: () => row[here - 1],
      ArrowRight: () => row[here + 1],
      ArrowUp: () => this.current.parent,
      ArrowDown: () => this.below(),
      Home: () => this.root,
    };
    const step = steps[e.key];
    if (step) this.focus(step() ?? this.current);
    else if (e.key === "Enter" || e.key === " ") this.zoom(this.current);
    else if (e.key === "Escape") this.back(this.trail.length - 2);
    else return;
    e.preventDefault();
  }

  // below is the widest child that is drawn.
  private below(): Node | undefined {
    return this.current.children
      .filter((n) => this.elements.has(n))
      .sort((a, b) => this.weight(b) - this.weight(a))[0];
  }

  private mark(node: Node): void {
    this.elements.get(this.current)?.setAttribute("tabindex", "-1");
    this.elements.get(node)?.setAttribute("tabindex", "0");
    this.current = node;
  }

  private focus(node: Node): void {
    this.mark(node);
    this.elements.get(node)?.focus();
  }

  // zoom shows a node over the whole width. One above what is shown takes the zoom back.
  private zoom(node: Node): void {
    this.trail = this.trail.filter((n) => n !== node && within(node, n));
    this.trail.push(node);
    this.show(node);
  }

  private back(index: number): void {
    if (index < 0) return;
    this.trail = this.trail.slice(0, index + 1);
    this.show(this.top);
  }

  // show redraws from a node, and gives it the focus: what had it is gone.
  private show(node: Node): void {
    this.current = node;
    this.tip.hide();
    this.draw();
    this.focus(node);
  }

  private widths(before: boolean): void {
    this.byBefore = before;
    place(this.root, this.weight);
    if (this.weight(this.top) <= 0) this.trail = [this.root];
    this.current = this.top;
    this.draw();
  }

  private search(text: string): void {
    this.found = matcher(text);
    this.paint();
  }

  private draw(): void {
    this.elements.clear();
    this.rows.length = 0;
    const top = this.top;
    for (let n = top.parent; n; n = n.parent) this.frame(n, 0, 1).classList.add("above");
    const scale = 1 / Math.max(top.upto - top.from, 1e-12);
    const todo = [top];
    for (let node = todo.pop(); node; node = todo.pop()) {
      const width = (node.upto - node.from) * scale;
      if (width < narrowest) continue;
      this.frame(node, (node.from - top.from) * scale, width);
      for (const child of node.children.toReversed()) todo.push(child);
    }
    this.stage.replaceChildren(...this.elements.values());
    this.stage.style.setProperty("--rows", String(this.rows.length));
    this.mark(this.current);
    this.tools.trail(this.trail.map((n) => n.name));
    this.paint();
  }

  private frame(node: Node, left: number, width: number): HTMLElement {
    const it = document.createElement("div");
    it.className = `frame ${this.graph.difference && node.look !== "folded" ? change(node, this.root, this.graph) : node.look}`;
    it.setAttribute("role", "treeitem");
    it.setAttribute("aria-level", String(node.depth + 1));
    it.setAttribute(
      "aria-label",
      this.lines(node)
        .map(([label, value]) => (value ? `${label} ${value}` : label))
        .join(", "),
    );
    it.setAttribute("tabindex", "-1");
    it.style.left = `${left * 100}%`;
    it.style.width = `${width * 100}%`;
    it.style.top = `${node.depth * rowHeight}px`;
    if (width > 0.02) it.textContent = short(node.name);
    this.elements.set(node, it);
    this.nodes.set(it, node);
    (this.rows[node.depth] ??= []).push(node);
    return it;
  }

  // paint shows what the search finds.
  private paint(): void {
    for (const [node, it] of this.elements) {
      const hit = this.found?.(node.name) ?? false;
      it.classList.toggle("hit", hit);
      it.classList.toggle("miss", this.found !== null && !hit);
    }
    if (!this.found) {
      this.tools.matched("");
      return;
    }
    const share = matched(this.top, this.found, this.weight) / (this.weight(this.top) || 1);
    this.tools.matched(share > 0 ? `${percent(share)} matched` : "nothing matches");
  }

  // lines is what is said of a frame.
  private lines(node: Node): [string, string][] {
    const of = (n: number, whole: number): string => (whole > 0 ? percent(n / whole) : "–");
    const unit = this.graph.unit;
    if (!this.graph.difference) {
      const all: [string, string][] = [
        [node.name, ""],
        [unit, figure(node.after)],
        ["of all", of(node.after, this.root.after)],
      ];
      if (this.top !== this.root) all.push(["of what is shown", of(node.after, this.top.after)]);
      all.push([
        "by itself",
        of(
          own(node, (n) => n.after),
          this.root.after,
        ),
      ]);
      return all;
    }
    const moved = node.after - node.before;
    const by =
      node.before > 0 ? `${moved > 0 ? "+" : "−"}${percent(Math.abs(moved) / node.before)}` : "new";
    return [
      [node.name, ""],
      [unit, `${figure(node.before)} → ${figure(node.after)}`],
      ["change", moved === 0 ? "none" : by],
      ["of all", `${of(node.before, this.root.before)} → ${of(node.after, this.root.after)}`],
      ["by itself", `${figure(own(node, (n) => n.before))} → ${figure(own(node, (n) => n.after))}`],
    ];
  }
}

function figure(v: number): string {
  return v >= 100 ? Math.round(v).toLocaleString("en-US") : String(parseFloat(v.toPrecision(3)));
}
