// Light or dark: the system's choice until the reader makes one. Colours live in page.css only.
"use strict";

dlrmsim.theme = (() => {
  const listeners = [];
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;

  /** The value of a colour variable of page.css, e.g. color("compute"). */
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const current = () => chosen ?? (system.matches ? "dark" : "light");

  function apply() {
    document.documentElement.dataset.theme = current();
    listeners.forEach((listener) => listener());
  }

  function start() {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = current() === "dark" ? "Light" : "Dark"; };
    listeners.push(label);
    button.addEventListener("click", () => { chosen = current() === "dark" ? "light" : "dark"; apply(); });
    system.addEventListener("change", apply);
    addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
    addEventListener("afterprint", apply);
    apply();
  }

  /** Call `listener` after every change of theme. */
  const onChange = (listener) => listeners.push(listener);

  return { color, start, onChange };
})();
