// The page of suites: predicted against measured, a chart for each metric of a suite.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;
  const ROLES = { validation: ["predicted", "accent", "circle"], calibration: ["fitted on", "idle", "circle"], memory: ["recalled", "warn", "circle-open"] };
  const legendAbove = () => ({ orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } });

  function trace(role, points) {
    const [name, color, symbol] = ROLES[role];
    const own = points.filter((point) => point.role === role);
    return { type: "scatter", mode: "markers", name, x: own.map((p) => p.measured), y: own.map((p) => p.predicted),
      marker: { color: theme.color(color), size: 9, symbol, opacity: 0.85, line: { width: 1.5, color: theme.color(color) } },
      error_x: { type: "data", symmetric: false, array: own.map((p) => p.above), arrayminus: own.map((p) => p.below), thickness: 1.2, width: 3,
        color: theme.color(color) },
      error_y: { type: "data", symmetric: false, array: own.map((p) => (p.p90 ?? p.predicted) - p.predicted),
        arrayminus: own.map((p) => p.predicted - (p.p10 ?? p.predicted)), thickness: 1, width: 0, color: theme.color(color) },
      text: own.map((p) => `${p.id}<br>measured ${p.said[0]}<br>predicted ${p.said[1]}<br><b>${p.said[2]}</b>`), hovertemplate: "%{text}<extra></extra>" };
  }

  function chart({ points, label }) {
    const all = points.flatMap((p) => [p.measured - p.below, p.measured + p.above, p.predicted]);
    const low = Math.min(...all) / 1.3, high = Math.max(...all) * 1.3;
    const line = (factor, dash, color) => ({ type: "scatter", mode: "lines", x: [low, high], y: [low * factor, high * factor], hoverinfo: "skip",
      showlegend: false, line: { color: theme.color(color), width: 1.2, dash } });
    const axis = (title) => ({ title: `${title} ${label}`, type: "log", range: [Math.log10(low), Math.log10(high)], exponentformat: "SI" });
    const roles = Object.keys(ROLES).filter((role) => points.some((p) => p.role === role));
    return {
      traces: [line(1, "solid", "rule-strong"), line(1.1, "dot", "rule-strong"), line(1 / 1.1, "dot", "rule-strong"), ...roles.map((role) => trace(role, points))],
      layout: { height: 440, xaxis: axis("measured"), yaxis: axis("predicted"), legend: legendAbove(), showlegend: true },
    };
  }

  function start() {
    theme.start();
    dlrmsim.tables.start();
    for (const [id, found] of Object.entries(dlrmsim.payload.read("payload"))) charts.draw(id, () => chart(found));
    document.body.dataset.ready = "yes";
  }

  start();
})();
