// The note that says what a frame is. It follows the pointer, or stands below the frame that has
// the focus.

export class Tip {
  private readonly box = document.createElement("div");

  constructor(
    private readonly host: HTMLElement,
    private readonly bounds: HTMLElement,
  ) {
    this.box.className = "flame-tip";
    this.box.setAttribute("aria-hidden", "true"); // frames say the same to those who listen
    this.box.hidden = true;
    host.append(this.box);
  }

  // show puts the note beside a point of the window. Texts are a profile's, and only ever set as
  // text.
  show(lines: [string, string][], x: number, y: number): void {
    this.box.replaceChildren(
      ...lines.map(([label, value]) => {
        const row = document.createElement("div");
        const name = document.createElement(value ? "span" : "b");
        name.textContent = label;
        row.append(name);
        if (value) {
          const figure = document.createElement("b");
          figure.textContent = value;
          row.append(figure);
        }
        return row;
      }),
    );
    this.box.hidden = false;
    const host = this.host.getBoundingClientRect();
    const edge = this.bounds.getBoundingClientRect();
    const left = Math.min(Math.max(x + 14, edge.left), edge.right - this.box.offsetWidth);
    this.box.style.left = `${Math.max(left - host.left, 0)}px`;
    this.box.style.top = `${y - host.top + 18}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
