// The page of a scaling study: four charts over world_size; sizes without a result are gaps that say why.
"use strict";

(() => {
  const { charts, format, theme } = dlrmsim;
  const PARTS = [
    ["compute", "compute", "compute"], ["exposed_comm", "exposed communication", "exposed-comm"],
    ["exposed_copy", "exposed copy", "exposed-copy"], ["idle", "idle", "idle"],
  ];
  const CLASS_COLORS = {
    communication: "all-to-all", compute: "gemm", memory: "embedding", host: "host", input: "optimizer", imbalance: "all-gather",
  };
  const legendAbove = () => ({ orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } });

  const label = (point) => point.world_size.toLocaleString("en-US");

  /** Axis with one place per size, bands and words where there is no result. */
  function sizes(points) {
    const missing = points.map((point, i) => [point, i]).filter(([point]) => point.status !== "ok");
    return {
      xaxis: { title: "GPUs", type: "category", categoryorder: "array", categoryarray: points.map(label), showgrid: false,
        range: [-0.5, points.length - 0.5] },
      shapes: missing.map(([, i]) => ({ type: "rect", xref: "x", yref: "paper", x0: i - 0.46, x1: i + 0.46, y0: 0, y1: 1, line: { width: 0 },
        fillcolor: theme.color("sunken"), layer: "below" })),
      annotations: missing.map(([point, i]) => ({ xref: "x", yref: "paper", x: i, y: 0.5, text: point.words, textangle: -90, showarrow: false,
        font: { size: 12, color: theme.color("ink-faint") }, hovertext: point.message })),
    };
  }

  const line = (name, color, dash) => ({ type: "scatter", mode: dash ? "lines" : "lines+markers", name, connectgaps: Boolean(dash),
    line: { color: theme.color(color), width: dash ? 1.5 : 2.5, dash }, marker: { size: 7, color: theme.color(color) } });

  function throughputChart(points) {
    const first = points.find((point) => point.status === "ok");
    const x = points.map(label);
    const ideal = points.map((p) => (first ? (first.throughput * p.world_size) / first.world_size : null));
    return {
      traces: [
        { ...line("ideal", "ink-faint", "dot"), x, y: ideal, hoverinfo: "skip" },
        { ...line("simulated", "accent"), x, y: points.map((p) => p.throughput),
          hovertemplate: "%{x} GPUs<br><b>%{y:.3s} samples/s</b><extra></extra>" },
      ],
      layout: { height: 340, ...sizes(points), yaxis: { title: "samples/s", type: "log", dtick: 1, exponentformat: "SI" }, legend: legendAbove() },
    };
  }

  function efficiencyChart(points) {
    return {
      traces: [{ ...line("efficiency", "accent"), x: points.map(label), y: points.map((p) => (p.efficiency === null ? null : 100 * p.efficiency)),
        text: points.map((p) => (p.efficiency === null ? "" : format.percent(p.efficiency))), textposition: "top center", mode: "lines+markers+text",
        textfont: { size: 12, color: theme.color("ink-soft") }, hovertemplate: "%{x} GPUs<br><b>%{y:.1f} %</b><extra></extra>", cliponaxis: false }],
      layout: { height: 300, ...sizes(points), yaxis: { title: "% of the smallest size", rangemode: "tozero" } },
    };
  }

  function breakdownChart(points) {
    const time = (p, key) => (p.status === "ok" ? 1e3 * p.iteration_s * p.shares[key] : null);
    const parts = PARTS.filter(([key]) => points.some((p) => p.shares[key] > 0));
    return {
      traces: parts.map(([key, name, color]) => ({ type: "bar", name, x: points.map(label), y: points.map((p) => time(p, key)),
        marker: { color: theme.color(color) }, hovertext: points.map((p) => `${label(p)} GPUs<br>${name}: <b>${format.percent(p.shares[key])}</b>`),
        hoverinfo: "text" })),
      layout: { height: 340, barmode: "stack", ...sizes(points), yaxis: { title: "ms of the iteration" }, legend: legendAbove() },
    };
  }

  function boundChart(points) {
    const classes = [...new Set(points.flatMap((p) => Object.keys(p.gains)))].filter((name) => points.some((p) => p.gains[name] >= 0.001));
    return {
      traces: classes.map((name) => ({ ...line(name, CLASS_COLORS[name] ?? "accent"), x: points.map(label),
        y: points.map((p) => (name in p.gains ? 100 * p.gains[name] : null)), hovertemplate: `%{x} GPUs<br>${name}: <b>%{y:.1f} %</b><extra></extra>` })),
      layout: { height: 340, ...sizes(points), yaxis: { title: "% saved", rangemode: "tozero" }, legend: legendAbove() },
    };
  }

  function start() {
    const points = dlrmsim.payload.read("payload").scaling;
    theme.start();
    dlrmsim.tables.start();
    charts.draw("throughput-chart", () => throughputChart(points));
    charts.draw("efficiency-chart", () => efficiencyChart(points));
    charts.draw("breakdown-chart", () => breakdownChart(points));
    charts.draw("bound-chart", () => boundChart(points));
    document.body.dataset.ready = "yes";
  }

  start();
})();
