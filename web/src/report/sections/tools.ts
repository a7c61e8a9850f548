// The page's own buttons: the theme, a copy of the command, and the data as a file. They are made
// here, as none works without a script.

import { redraw } from "../charts/base";
import { choose, theme } from "../palette";

export function themeButton(host: HTMLElement): void {
  const button = document.createElement("button");
  button.type = "button";
  const say = (): void => {
    const other = theme() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "☾ Dark" : "☀ Light";
    button.setAttribute("aria-label", `Use the ${other} theme`);
  };
  button.addEventListener("click", () => {
    choose(theme() === "dark" ? "light" : "dark");
    say();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    say();
    redraw();
  });
  say();
  host.append(button);
}

export function copyButton(host: HTMLElement): void {
  const text = host.textContent?.trim() ?? "";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    navigator.clipboard?.writeText(text).then(
      () => {
        button.textContent = "Copied";
      },
      () => {
        button.textContent = "Select it and copy";
      },
    );
  });
  host.append(button);
}

// download gives the page's data as a file. The blob is made when it is asked for, and let go of
// afterwards.
export function download(link: HTMLAnchorElement): void {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const text = document.getElementById("data")?.textContent ?? "";
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const save = document.createElement("a");
    save.href = url;
    save.download = link.dataset["file"] ?? "plimsoll.json";
    save.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  });
}
