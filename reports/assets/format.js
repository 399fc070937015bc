// Numbers as an engineer reads them: three or four significant digits and the unit that fits.
"use strict";

dlrmsim.format = (() => {
  const trim = (value, digits) => Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumFractionDigits: 6 });

  /** A duration in nanoseconds. */
  function duration(ns, digits = 4) {
    const size = Math.abs(ns);
    if (size >= 1e9) return `${trim(ns / 1e9, digits)} s`;
    if (size >= 1e6) return `${trim(ns / 1e6, digits)} ms`;
    if (size >= 1e3) return `${trim(ns / 1e3, digits)} µs`;
    return `${trim(ns, digits)} ns`;
  }

  const percent = (part, digits = 3) => `${trim(100 * part, digits)} %`;
  const count = (value) => value.toLocaleString("en-GB");

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

  return { duration, percent, count, axisUnit, niceStep, trim };
})();
