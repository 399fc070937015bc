// Requests of a run that serves: latency over load, lookups by tier, the queue over time.
"use strict";

dlrmsim.serving = (() => {
  const { charts, format, theme } = dlrmsim;
  const legend = () => ({ orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal",
    font: { size: 12.5, color: theme.color("ink-soft") } });

  /** Latency percentiles over the rate; vertical lines mark the rate of the run and the capacity. */
  function loadChart(serving) {
    const colors = ["compute", "exposed-copy", "exposed-comm", "bad"];
    const traces = serving.latency.map(({ name, ms }, i) => ({
      type: "scatter", mode: "lines+markers", name, x: serving.rates, y: ms, line: { width: 2, color: theme.color(colors[i]) }, marker: { size: 6 },
      hovertext: ms.map((value, k) => `${name}: <b>${format.duration(1e6 * value)}</b><br>${format.rate(serving.rates[k])} requests/s`), hoverinfo: "text",
    }));
    traces.push({ type: "scatter", mode: "markers", name: "p99 of this run", x: [serving.requests_per_s], y: [serving.p99_ms],
      marker: { size: 11, symbol: "diamond", color: theme.color("ink") },
      hovertext: [`p99 of this run: <b>${format.duration(1e6 * serving.p99_ms)}</b>`], hoverinfo: "text" });
    const capacity = serving.capacity_per_s;
    return { traces, layout: {
      height: 360, legend: legend(), xaxis: { title: "requests/s", rangemode: "tozero", range: [0, 1.08 * capacity], zeroline: false },
      yaxis: { title: "latency, ms", rangemode: "tozero", zeroline: false },
      shapes: [{ type: "line", x0: capacity, x1: capacity, yref: "paper", y0: 0, y1: 1, line: { color: theme.color("bad"), width: 2, dash: "dot" } }],
      annotations: [{ x: capacity, yref: "paper", y: 1, xanchor: "center", yanchor: "bottom", showarrow: false, text: "capacity",
        font: { color: theme.color("bad"), size: 12 } }],
    } };
  }

  /** Shares of lookups by tier, stacked over the sizes of batches. */
  function tiersChart(serving) {
    const colors = ["compute", "exposed-copy", "exposed-comm", "idle"];
    const traces = serving.tiers.map(({ name, share }, i) => ({
      type: "bar", name, x: serving.sizes.map(String), y: share.map((part) => 100 * part), marker: { color: theme.color(colors[i]) },
      hovertext: share.map((part, k) => `${name}, batches of ${serving.sizes[k]}: <b>${format.percent(part)}</b>`), hoverinfo: "text",
    }));
    return { traces, layout: { height: 300, barmode: "stack", legend: legend(), xaxis: { title: "samples of a batch", type: "category", showgrid: false },
      yaxis: { title: "% of lookups", range: [0, 100], zeroline: false } } };
  }

  function queueChart({ queue }) {
    return {
      traces: [{ type: "scatter", mode: "lines", x: queue.time_s, y: queue.waiting, line: { width: 1.5, color: theme.color("compute"), shape: "hv" },
        hovertemplate: "%{y:,.4~g} waiting at %{x:.4g} s<extra></extra>" }],
      layout: { height: 240, xaxis: { title: "s", zeroline: false }, yaxis: { title: "requests", rangemode: "tozero", zeroline: false } },
    };
  }

  function start(serving) {
    charts.draw("serving-load", () => loadChart(serving));
    charts.draw("serving-tiers", () => tiersChart(serving));
    charts.draw("serving-queue", () => queueChart(serving));
  }

  return { start };
})();
