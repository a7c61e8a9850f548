// Tables whose heads sort them. Rows are moved, never rewritten.

export function sortable(table: HTMLTableElement): void {
  const heads = [...table.querySelectorAll<HTMLTableCellElement>("thead th")];
  const body = table.tBodies[0];
  if (!body) return;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort(
        (a, b) => compare(a.cells[column], b.cells[column]) * (down ? -1 : 1),
      );
      body.append(...rows);
    });
  });
}

function compare(a: HTMLTableCellElement | undefined, b: HTMLTableCellElement | undefined): number {
  const x = a?.dataset["sort"];
  const y = b?.dataset["sort"];
  if (x !== undefined && y !== undefined) return Number(x) - Number(y);
  return (a?.textContent ?? "").localeCompare(b?.textContent ?? "", "en", { numeric: true });
}
