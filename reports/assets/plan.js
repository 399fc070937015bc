// The page of a sharding plan: stacked bars over ranks, and planners compared.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;
  const PHASES = { lookup: "embedding", update: "optimizer", output: "all-to-all", input: "copy" };
  const SHARDS = ["gemm", "all-to-all", "copy", "embedding", "all-reduce", "all-gather", "host"];
  const legendAbove = () => ({ orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } });
  const ranksOf = (values) => values.map((_, rank) => rank);

  const bars = (name, values, color, unit) => ({ type: "bar", name, x: ranksOf(values), y: values, marker: { color: theme.color(color) },
    hovertemplate: `rank %{x}<br>${name}: <b>%{y:.4g} ${unit}</b><extra></extra>` });

  const layout = (title, mode) => ({ height: 320, barmode: mode, bargap: 0.2, xaxis: { title: "rank", showgrid: false },
    yaxis: { title, rangemode: "tozero" }, legend: legendAbove(), showlegend: true });

  function work(plan) {
    const traces = Object.entries(plan.phases).map(([phase, values]) => bars(phase, values, PHASES[phase] ?? "accent", "ms"));
    return { traces, layout: layout("ms of an iteration", "stack") };
  }

  function memory(plan) {
    const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: plan.capacity, y1: plan.capacity,
      line: { color: theme.color("bad"), width: 1.5, dash: "dot" } };
    return { traces: [bars("HBM", plan.hbm, "embedding", "GB")], layout: { ...layout("GB", "stack"), shapes: [line] } };
  }

  function exchange(plan) {
    const traces = [bars("input", plan.input, "copy", "MB"), bars("output", plan.output, "all-to-all", "MB")];
    return { traces, layout: layout("MB of an iteration", "group") };
  }

  function shards(plan) {
    const traces = Object.entries(plan.shards).map(([kind, values], i) => bars(kind, values, SHARDS[i % SHARDS.length], "shards"));
    return { traces, layout: layout("shards", "stack") };
  }

  function planners(plan) {
    const rows = [...plan.planners].reverse();
    const trace = { type: "scatter", mode: "markers+text", y: rows.map((row) => row.name), x: rows.map((row) => row.ms),
      marker: { color: theme.color("accent"), size: 9 }, text: rows.map((row) => row.ms.toPrecision(3)), textposition: "middle right",
      textfont: { size: 12, color: theme.color("ink-soft") }, cliponaxis: false, hovertemplate: "%{y}<br><b>%{x:.4g} ms</b><extra></extra>" };
    return { traces: [trace], layout: { height: 60 + 28 * rows.length, xaxis: { title: "ms of an iteration", type: "log" }, yaxis: { type: "category" } } };
  }

  function start() {
    const { plan } = dlrmsim.payload.read("payload");
    theme.start();
    dlrmsim.tables.start();
    for (const [name, chart] of Object.entries({ planners, work, memory, exchange, shards })) charts.draw(`${name}-chart`, () => chart(plan));
    document.body.dataset.ready = "yes";
  }

  start();
})();
