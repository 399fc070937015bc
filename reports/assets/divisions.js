// The page of a transformer's divisions: time of each against its memory.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;
  const COLORS = { "the fastest": "accent", "the scenario's": "all-to-all", others: "embedding" };

  function divisions(plan) {
    const traces = Object.entries(COLORS).map(([kind, color]) => {
      const rows = plan.divisions.filter((row) => row.kind === kind);
      return { type: "scatter", mode: kind === "others" ? "markers" : "markers+text", name: kind, x: rows.map((row) => row.gb), y: rows.map((row) => row.s),
        text: rows.map((row) => row.short), textposition: "top center", textfont: { size: 12, color: theme.color("ink-soft") }, cliponaxis: false,
        customdata: rows.map((row) => `${row.words}<br>${row.batches}`), marker: { color: theme.color(color), size: kind === "others" ? 8 : 11 },
        hovertemplate: "%{customdata}<br><b>%{y:.4g} s</b>, %{x:.4g} GB<extra></extra>" };
    }).filter((trace) => trace.x.length);
    const line = { type: "line", yref: "paper", x0: plan.capacity, x1: plan.capacity, y0: 0, y1: 1,
      line: { color: theme.color("bad"), width: 1.5, dash: "dot" } };
    return { traces, layout: { height: 380, shapes: [line], showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } },
      xaxis: { title: "GB of the fullest GPU", rangemode: "tozero", range: [0, 1.03 * plan.capacity] },
      yaxis: { title: "seconds of an iteration", rangemode: "tozero" } } };
  }

  function start() {
    const { plan } = dlrmsim.payload.read("payload");
    theme.start();
    dlrmsim.tables.start();
    charts.draw("divisions-chart", () => divisions(plan));
    document.body.dataset.ready = "yes";
  }

  start();
})();
