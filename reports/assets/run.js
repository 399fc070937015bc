// The page of one run: charts from the payload, the timeline, and the links between them.
"use strict";

(() => {
  const { charts, format, theme } = dlrmsim;
  const PARTS = [
    ["compute", "compute", "compute"], ["exposed_comm", "exposed communication", "exposed-comm"],
    ["exposed_copy", "exposed copy", "exposed-copy"], ["idle", "idle", "idle"],
  ];

  const LEVERS_TITLE = "% of the iteration saved; coloured: free";

  /** Parts that take at least 0.05 % of the iteration somewhere: the others would be names without a colour in sight. */
  const visible = (rows) => PARTS.filter(([key]) => rows.some((row) => row[key] >= 5e-4 * whole(row)));
  const whole = (row) => PARTS.reduce((sum, [key]) => sum + row[key], 0);

  function inkOn(name) {
    return ["idle", "elementwise", "optimizer"].includes(name) ? theme.color("bar-ink-pale") : theme.color("bar-ink");
  }

  function partsChart(bars) {
    const labels = bars.map((bar) => bar.label);
    const traces = visible(bars).map(([key, name, color]) => ({
      type: "bar", orientation: "h", name, y: labels, x: bars.map((bar) => bar[key] / 1e6),
      marker: { color: theme.color(color) },
      text: bars.map((bar) => (bar[key] > 0.06 * whole(bar) ? format.percent(bar[key] / whole(bar)) : "")),
      textposition: "inside", insidetextanchor: "middle", textangle: 0, textfont: { color: inkOn(color), size: 12 },
      hovertext: bars.map((bar) => `${bar.label}<br>${name}: <b>${format.duration(bar[key])}</b>, ${format.percent(bar[key] / whole(bar))}`),
      hoverinfo: "text",
    }));
    return { traces, layout: { barmode: "stack", height: 92 + 44 * bars.length, yaxis: { autorange: "reversed", showgrid: false },
      xaxis: { title: "ms of the iteration", zeroline: false, range: [0, Math.max(...bars.map(whole)) / 1e6] }, legend: legendBelow() } };
  }

  const legendBelow = () => ({ orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal",
    font: { size: 12.5, color: theme.color("ink-soft") } });

  function ranksChart(ranks, order) {
    const indices = Array.from(ranks.rank, (_, i) => i);
    if (order !== "rank") indices.sort((a, b) => ranks[order][a] - ranks[order][b]);
    const at = order === "rank" ? indices.map((i) => ranks.rank[i]) : indices.map((_, place) => place);
    const rows = indices.map((i) => Object.fromEntries(PARTS.map(([key]) => [key, ranks[key][i]])));
    const traces = visible(rows).map(([key, name, color]) => ({
      type: "scatter", mode: "lines", stackgroup: "parts", name, x: at, y: rows.map((row) => row[key] / 1e6),
      line: { width: 0, shape: "hvh", color: theme.color(color) }, fillcolor: theme.color(color), customdata: indices.map((i) => ranks.rank[i]),
      hovertemplate: `rank %{customdata}<br>${name}: <b>%{y:.4g} ms</b><extra></extra>`,
    }));
    const title = order === "rank" ? "rank" : `ranks, by ${order.replace("_", " ")}`;
    return { traces, layout: { height: 300, hovermode: "x", xaxis: { title, showgrid: false, zeroline: false },
      yaxis: { title: "ms", rangemode: "tozero" }, legend: legendBelow() } };
  }

  /** Gains as bars. */
  function gainsChart(gains, title) {
    const texts = gains.map((g) => (g.gain >= 0.0005 || g.gain <= -0.0005 ? format.percent(g.gain) : "none"));
    return {
      traces: [{
        type: "bar", orientation: "h", y: gains.map((g) => g.name), x: gains.map((g) => 100 * g.gain), text: texts,
        textposition: "outside", cliponaxis: false, textfont: { color: theme.color("ink"), size: 12.5 },
        marker: { color: gains.map((g) => theme.color(g.gain > 0 && g.strong ? "accent" : "idle")) },
        hovertext: gains.map((g) => `${g.words}:<br><b>${format.duration(g.iteration_ns)}</b> per iteration, ${format.percent(g.gain)} less`),
        hoverinfo: "text",
      }],
      layout: { height: 60 + 30 * gains.length, yaxis: { autorange: "reversed", showgrid: false }, bargap: 0.45,
        margin: { l: 8, r: 64, t: 8, b: 8 }, xaxis: { title, zeroline: true } },
    };
  }

  function shareChart(items) {
    const path = items.reduce((sum, item) => sum + item.ns, 0) || 1;
    return {
      traces: [{
        type: "bar", orientation: "h", y: items.map((i) => i.name), x: items.map((i) => i.ns / 1e6),
        marker: { color: items.map((i) => theme.color(i.color)) },
        text: items.map((i) => `${format.duration(i.ns)} · ${format.percent(i.ns / path)}`), textposition: "outside", cliponaxis: false,
        textfont: { color: theme.color("ink"), size: 12.5 }, hoverinfo: "skip",
      }],
      layout: { height: 60 + 30 * items.length, yaxis: { autorange: "reversed", showgrid: false }, bargap: 0.45,
        margin: { l: 8, r: 112, t: 8, b: 8 }, xaxis: { title: "ms", zeroline: false, nticks: 5 } },
    };
  }

  function memoryChart(tier) {
    const scale = ["gemm", "embedding", "optimizer", "all-to-all", "all-reduce", "copy", "host", "interaction"];
    const traces = tier.items.map((item, i) => ({
      type: "bar", orientation: "h", name: item.name, y: tier.rows, x: item.bytes.map((b) => b / 1e9), marker: { color: theme.color(scale[i % scale.length]) },
      hovertext: item.bytes.map((b, k) => `${tier.rows[k]}<br>${item.name}: <b>${format.significant(b / 1e9, 4)} GB</b>`), hoverinfo: "text",
    }));
    const capacity = tier.capacity_bytes / 1e9;
    return { traces, layout: {
      barmode: "stack", height: 118 + 40 * tier.rows.length, margin: { l: 8, r: 72, t: 8, b: 8 }, yaxis: { autorange: "reversed", showgrid: false },
      xaxis: { title: "GB", zeroline: false, range: [0, 1.08 * Math.max(capacity, ...tier.totals.map((b) => b / 1e9))] }, legend: legendBelow(),
      shapes: [{ type: "line", x0: capacity, x1: capacity, yref: "paper", y0: 0, y1: 1, line: { color: theme.color("bad"), width: 2, dash: "dot" } }],
      annotations: [{ x: capacity, yref: "paper", y: 0.5, xanchor: "left", showarrow: false, text: ` usable<br> ${format.significant(capacity, 3)} GB`,
        align: "left", font: { color: theme.color("bad"), size: 12 } }],
    } };
  }

  function rankNotes(ranks) {
    const position = new Map(Array.from(ranks.rank, (rank, i) => [rank, i]));
    return (rank) => {
      const row = Object.fromEntries(PARTS.map(([key]) => [key, ranks[key][position.get(rank)]]));
      return visible([row]).map(([key, name]) => `${name} ${format.percent(row[key] / whole(row))}`).join(", ");
    };
  }

  function startRanks(ranks, timeline) {
    const order = document.getElementById("ranks-order");
    if (!order) return; // one rank has no distribution
    const element = charts.draw("ranks-chart", () => ranksChart(ranks, order.value));
    order.addEventListener("change", () => charts.redraw("ranks-chart"));
    element.on("plotly_click", (event) => timeline.jump(event.points[0].customdata));
  }

  function startJumps(timeline) {
    for (const row of document.querySelectorAll("tr[data-jump]")) {
      const [rank, from, to] = row.dataset.jump.split(" ").map(Number);
      row.addEventListener("click", () => timeline.jump(rank, from, to));
    }
  }

  async function start() {
    const page = dlrmsim.payload.read("payload");
    theme.start();
    dlrmsim.tables.start();
    const [tasks, ranks] = await Promise.all([page.timeline.columns, page.ranks].map(dlrmsim.payload.columns));
    const timeline = dlrmsim.timeline.start(page.timeline, tasks, rankNotes(ranks));
    startJumps(timeline);
    charts.draw("parts-chart", () => partsChart(page.breakdown));
    startRanks(ranks, timeline);
    const better = "% of the iteration saved when this class is 10 % better";
    if (page.sequences) dlrmsim.sequences.start(page.sequences);
    if (page.serving) dlrmsim.serving.start(page.serving);
    if (page.bound) charts.draw("joint-chart", () => gainsChart(page.joint, better));
    if (page.bound) charts.draw("gains-chart", () => gainsChart(page.bound, better));
    if (page.levers?.length) charts.draw("levers-chart", () => gainsChart(page.levers, LEVERS_TITLE));
    charts.draw("path-categories", () => shareChart(page.path.categories));
    charts.draw("path-operators", () => shareChart(page.path.operators));
    charts.draw("path-sections", () => shareChart(page.path.sections));
    (page.memory ?? []).forEach((tier, i) => charts.draw(`memory-${i}`, () => memoryChart(tier)));
    if (page.memoryCurve) dlrmsim.memoryCurve.start(page.memoryCurve);
    document.body.dataset.ready = "yes";
  }

  start();
})();
