// Numbers as an engineer reads them, written as reports/numbers.py writes them: three significant digits, a fitting unit.
"use strict";

dlrmsim.format = (() => {
  /** `value` with so many significant digits, never in scientific notation. */
  function significant(value, digits = 3) {
    if (value === 0) return "0";
    const decimals = digits - 1 - Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
    const shown = Math.max(0, Math.min(decimals, 9));
    return value.toLocaleString("en-US", { minimumFractionDigits: shown, maximumFractionDigits: shown });
  }

  /** A duration in nanoseconds. */
  function duration(ns, digits = 3) {
    const size = Math.abs(ns);
    if (size === 0) return "0";
    if (size >= 1e9) return `${significant(ns / 1e9, digits)} s`;
    if (size >= 1e6) return `${significant(ns / 1e6, digits)} ms`;
    if (size >= 1e3) return `${significant(ns / 1e3, digits)} µs`;
    return `${significant(ns, digits)} ns`;
  }

  /** A share as a percentage with one decimal. */
  function percent(share) {
    if (share > 0 && share < 5e-4) return "<0.1 %";
    return share === 0 || Math.abs(share) >= 0.9995 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toFixed(1)} %`;
  }

  /** The unit in which axis labels of this span (ns) are written, as {name, ns}. */
  function axisUnit(span) {
    if (span >= 2e9) return { name: "s", ns: 1e9 };
    if (span >= 2e6) return { name: "ms", ns: 1e6 };
    if (span >= 2e3) return { name: "µs", ns: 1e3 };
    return { name: "ns", ns: 1 };
  }

  /** The step of 1, 2 or 5 times a power of ten that gives at most `most` steps over `span`. */
  function niceStep(span, most) {
    const rough = span / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  }

  /** A rate as an axis label: 200 k, 1 M. */
  function rate(value) {
    const [factor, prefix] = [[1e9, " G"], [1e6, " M"], [1e3, " k"]].find(([unit]) => value >= unit) ?? [1, ""];
    return `${+(value / factor).toPrecision(3)}${prefix}`;
  }

  return { duration, rate, percent, significant, axisUnit, niceStep };
})();
