// What stands above and below a flame graph: the search, the way back, and what the colours mean.

import type { Graph } from "../data";

export interface Asked {
  search(text: string): void;
  to(index: number): void; // zoom back to a place of the trail
  widths(before: boolean): void;
}

const plain: [string, string][] = [
  ["own", "the service and its libraries"],
  ["standard", "Go's library"],
  ["runtime", "Go's runtime, and the system"],
];
const moved: [string, string][] = [
  ["less3", "halved"],
  ["less2", "−20 %"],
  ["less1", "−5 %"],
  ["same", "as before, or too few samples to say"],
  ["more1", "+5 %"],
  ["more2", "+25 %"],
  ["more3", "doubled or new"],
];

export class Tools {
  readonly head = document.createElement("div");
  readonly foot = document.createElement("p");
  private readonly crumbs = document.createElement("nav");
  private readonly share = document.createElement("output");

  constructor(
    private readonly graph: Graph,
    private readonly asked: Asked,
  ) {
    this.head.className = "flame-tools";
    this.crumbs.setAttribute("aria-label", "Zoomed to");
    this.crumbs.className = "crumbs";
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Search: text or expression";
    input.setAttribute(
      "aria-label",
      `Search the functions of ${graph.title}, by text or regular expression`,
    );
    input.addEventListener("input", () => asked.search(input.value));
    this.head.append(this.crumbs, this.share, input);
    if (graph.difference) this.head.append(this.widths());
    this.foot.className = "flame-legend";
    this.foot.append(
      ...(graph.difference ? moved : plain).map(([look, words]) => {
        const entry = document.createElement("span");
        const swatch = document.createElement("i");
        swatch.className = `frame ${look}`;
        entry.append(swatch, words);
        return entry;
      }),
    );
  }

  // trail writes where the zoom is, as buttons that lead back. The last is where it is.
  trail(names: string[]): void {
    this.crumbs.replaceChildren(
      ...names.map((name, i) => {
        const last = i === names.length - 1;
        const crumb = document.createElement(last ? "b" : "button");
        if (crumb instanceof HTMLButtonElement) crumb.type = "button";
        crumb.textContent = name;
        crumb.title = name;
        if (last) crumb.setAttribute("aria-current", "true");
        else crumb.addEventListener("click", () => this.asked.to(i));
        return crumb;
      }),
    );
  }

  matched(words: string): void {
    this.share.textContent = words;
  }

  private widths(): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    let before = false;
    const say = (): void => {
      button.textContent = before ? "Widths: before" : "Widths: after";
      button.setAttribute(
        "aria-label",
        `Widths of ${this.graph.title} show what was ${before ? "before" : "after"}; show the other`,
      );
    };
    button.addEventListener("click", () => {
      before = !before;
      say();
      this.asked.widths(before);
    });
    say();
    return button;
  }
}
