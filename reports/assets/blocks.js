// The page of a plan for blocks: device memory over an iteration.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;

  function memory(plan) {
    const rows = plan.moments;
    const trace = { type: "scatter", mode: "lines", line: { shape: "hv", width: 1.5, color: theme.color("accent") }, fill: "tozeroy",
      x: rows.map((row) => row.s), y: rows.map((row) => row.gb), customdata: rows.map((row) => row.step),
      hovertemplate: "%{customdata}<br><b>%{y:.4g} GB</b> from %{x:.4g} s<extra></extra>" };
    const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: plan.room, y1: plan.room,
      line: { color: theme.color("bad"), width: 1.5, dash: "dot" } };
    return { traces: [trace], layout: { height: 340, shapes: [line], showlegend: false,
      xaxis: { title: "seconds since the iteration began", rangemode: "tozero" },
      yaxis: { title: "GB of blocks in device memory", rangemode: "tozero" } } };
  }

  function start() {
    const { plan } = dlrmsim.payload.read("payload");
    theme.start();
    dlrmsim.tables.start();
    charts.draw("memory-chart", () => memory(plan));
    document.body.dataset.ready = "yes";
  }

  start();
})();
