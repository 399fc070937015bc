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

  const MOST_LABELS = 14;

  const label = (point) => point.world_size.toLocaleString("en-US");
  const notes = (point) => (point.doubtful ? "<br>warnings concern much of its time" : "");
  const barWidth = (points) => 0.62 * (points.length > 1 ? leastGap(points.map(scaleOf(points).at)) : 1);

  /** Sizes in equal steps lie on a linear axis, others on a logarithmic one: the ideal line is straight on both. */
  function scaleOf(points) {
    const sizes = points.map((point) => point.world_size);
    const steps = new Set(sizes.slice(1).map((size, i) => size - sizes[i]));
    return { log: steps.size > 1, at: steps.size > 1 ? (point) => Math.log2(point.world_size) : (point) => point.world_size };
  }

  /** The smallest distance of two sizes on the axis, 1 of a single one. */
  const leastGap = (places) => Math.min(...places.slice(1).map((place, i) => place - places[i]), Infinity);

  /** Axis with every size at its place, as many labels as there is room for, bands and words where there is no result. */
  function sizes(points) {
    const places = points.map(scaleOf(points).at);
    const gap = places.length > 1 ? leastGap(places) : 1;
    const room = Math.max(places.at(-1) - places[0], gap) / MOST_LABELS;
    const labelled = places.reduce((kept, place) => (place - (kept.at(-1) ?? -Infinity) >= room ? [...kept, place] : kept), []);
    const missing = points.map((point, i) => [point, places[i]]).filter(([point]) => point.status !== "ok");
    return {
      xaxis: { title: "GPUs", showgrid: false, zeroline: false, tickvals: labelled, ticktext: labelled.map((place) => label(points[places.indexOf(place)])),
        range: [places[0] - 0.6 * gap, places.at(-1) + 0.6 * gap] },
      shapes: missing.map(([, x]) => ({ type: "rect", xref: "x", yref: "paper", x0: x - 0.46 * gap, x1: x + 0.46 * gap, y0: 0, y1: 1, line: { width: 0 },
        fillcolor: theme.color("sunken"), layer: "below" })),
      annotations: missing.map(([point, x]) => ({ xref: "x", yref: "paper", x, y: 0.5, text: point.words, textangle: -90, showarrow: false,
        font: { size: 12, color: theme.color("ink-faint") }, hovertext: point.message })),
    };
  }

  /** Ticks of a logarithmic axis: 1, 2 and 5 of each power of ten, closer ones where these are fewer than four. */
  function rateTicks(low, high) {
    const powers = Array.from({ length: 26 }, (_, i) => 10 ** (i - 6));
    const ticks = powers.flatMap((power) => [1, 2, 5].map((factor) => factor * power)).filter((tick) => tick >= low && tick <= high);
    if (ticks.length >= 4) return ticks;
    const step = format.niceStep(high - low, 6);
    return Array.from({ length: 12 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((tick) => tick <= high);
  }

  /** Axis of throughputs, over all points that ran. */
  function rates(points, log) {
    const all = points.filter((p) => p.status === "ok").flatMap((p) => [p.throughput, p.throughput_p10 ?? p.throughput, p.throughput_p90 ?? p.throughput]);
    const title = `${points[0]?.unit ?? "samples"}/s`;
    if (!log || !all.length) return { title, rangemode: "tozero", exponentformat: "SI" };
    const low = Math.min(...all) / 1.25, high = Math.max(...all) * 1.25;
    const tickvals = rateTicks(low, high);
    return { title, type: "log", tickvals, ticktext: tickvals.map(format.rate), range: [Math.log10(low), Math.log10(high)] };
  }

  const line = (name, color, points, dash) => ({ type: "scatter", mode: dash ? "lines" : "lines+markers", name, connectgaps: Boolean(dash),
    x: points.map(scaleOf(points).at), customdata: points.map(label), line: { color: theme.color(color), width: dash ? 1.5 : 2.5, dash },
    marker: { size: 8, color: theme.color(color), symbol: points.map((p) => (p.doubtful ? "circle-open" : "circle")), line: { width: 2, color: theme.color(color) } } });

  /** Area between p10 and p90. */
  function band(points) {
    const known = points.filter((p) => p.throughput_p10 !== null && p.throughput_p90 !== null);
    if (known.length < 2) return [];
    const at = scaleOf(points).at, edge = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", x: known.map(at), connectgaps: true };
    return [
      { ...edge, y: known.map((p) => p.throughput_p90), showlegend: false },
      { ...edge, y: known.map((p) => p.throughput_p10), name: "8 in 10", fill: "tonexty", fillcolor: `${theme.color("accent")}2e` },
    ];
  }

  function throughputChart(points) {
    const first = points.find((point) => point.status === "ok");
    const ideal = points.map((p) => (first ? (first.throughput * p.world_size) / first.world_size : null));
    return {
      traces: [
        ...band(points),
        { ...line("ideal", "ink-faint", points, "dot"), y: ideal, hoverinfo: "skip" },
        { ...line("simulated", "accent", points), text: points.map(notes), y: points.map((p) => p.throughput),
          hovertemplate: `%{customdata} GPUs<br><b>%{y:.3s} ${first?.unit ?? "samples"}/s</b>%{text}<extra></extra>` },
      ],
      layout: { height: 340, ...sizes(points), yaxis: rates(points, scaleOf(points).log), legend: legendAbove() },
    };
  }

  function efficiencyChart(points) {
    return {
      traces: [{ ...line("efficiency", "accent", points), y: points.map((p) => (p.efficiency === null ? null : 100 * p.efficiency)),
        text: points.map((p) => (p.efficiency === null ? "" : format.percent(p.efficiency))), textposition: "top center", mode: "lines+markers+text",
        textfont: { size: 12, color: theme.color("ink-soft") }, hovertemplate: "%{customdata} GPUs<br><b>%{y:.1f} %</b><extra></extra>", cliponaxis: false }],
      layout: { height: 300, ...sizes(points), yaxis: { title: "% of the smallest size", rangemode: "tozero" } },
    };
  }

  function breakdownChart(points) {
    const time = (p, key) => (p.status === "ok" ? 1e3 * p.iteration_s * p.shares[key] : null);
    const parts = PARTS.filter(([key]) => points.some((p) => p.shares[key] > 0));
    return {
      traces: parts.map(([key, name, color]) => ({ type: "bar", name, x: points.map(scaleOf(points).at), width: barWidth(points), y: points.map((p) => time(p, key)),
        marker: { color: theme.color(color) }, hovertext: points.map((p) => `${label(p)} GPUs<br>${name}: <b>${format.percent(p.shares[key])}</b>`),
        hoverinfo: "text" })),
      layout: { height: 340, barmode: "stack", ...sizes(points), yaxis: { title: "ms of the iteration" }, legend: legendAbove() },
    };
  }

  function boundChart(points) {
    const classes = [...new Set(points.flatMap((p) => Object.keys(p.gains)))].filter((name) => points.some((p) => p.gains[name] >= 0.001));
    return {
      traces: classes.map((name) => ({ ...line(name, CLASS_COLORS[name] ?? "accent", points),
        y: points.map((p) => (name in p.gains ? 100 * p.gains[name] : null)), hovertemplate: `%{customdata} GPUs<br>${name}: <b>%{y:.1f} %</b><extra></extra>` })),
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
