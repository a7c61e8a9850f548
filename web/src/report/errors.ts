// Errors are put where a test, and a reader who reports a broken page, can see them. This is
// imported first.

export function note(message: string): void {
  const root = document.documentElement;
  root.dataset["errors"] = [root.dataset["errors"], message].filter(Boolean).join("; ");
}

window.addEventListener("error", (e) => note(e.message));
window.addEventListener("unhandledrejection", (e) => note(String(e.reason)));
document.addEventListener("securitypolicyviolation", (e) =>
  note(`blocked by the page's policy: ${e.violatedDirective} ${e.blockedURI}`),
);
