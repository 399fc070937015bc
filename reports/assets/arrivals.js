// The page of arriving jobs: blocking of each choice of nodes against the mean time of a job.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;
  const COLORS = { "the best": "accent", "maximum parallelism": "all-to-all", others: "embedding" };

  function choices(rows) {
    const widest = Math.max(...rows.map((row) => row.h));  // room for the names on the right
    const traces = Object.entries(COLORS).map(([kind, color]) => {
      const own = rows.filter((row) => row.kind === kind);
      const bars = (key) => ({ type: "data", array: own.map((row) => row[key] ?? 0), thickness: 1.2, width: 3, color: theme.color(color) });
      return { type: "scatter", mode: kind === "others" ? "markers" : "markers+text", name: kind, x: own.map((row) => row.h), y: own.map((row) => row.blocked),
        error_x: bars("h_error"), error_y: bars("blocked_error"), text: own.map((row) => row.name), textposition: "middle right",
        textfont: { size: 12, color: theme.color("ink-soft") }, cliponaxis: false,
        marker: { color: theme.color(color), size: kind === "others" ? 8 : 11 },
        hovertemplate: "%{text}<br><b>%{y:.3g} % blocked</b>, %{x:.3g} h a job<extra></extra>" };
    }).filter((trace) => trace.x.length);
    return { traces, layout: { height: 400, showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } },
      xaxis: { title: "hours from arrival to end, mean of jobs that start", range: [0, 1.6 * widest] },
      yaxis: { title: "per cent of the jobs that are blocked", rangemode: "tozero" } } };
  }

  function start() {
    const found = dlrmsim.payload.read("payload");
    theme.start();
    dlrmsim.tables.start();
    charts.draw("arrivals-chart", () => choices(found.choices));
    document.body.dataset.ready = "yes";
  }

  start();
})();
