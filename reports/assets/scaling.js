// The page of a sweep: charts over world_size or another key, a line for each combination of the other keys; points
// without a result are gaps that say why.
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
  const LINE_COLORS = ["accent", "all-to-all", "copy", "embedding", "all-gather", "all-reduce", "interaction", "host"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const MOST_RINGS = 3; // markers of lines that coincide are rings around each other, and their dashes alternate
  const MOST_LABELS = 14;
  const study = dlrmsim.payload.read("payload").scaling;
  const several = study.lines.length > 1;
  const all = study.lines.flatMap((line) => line.points);
  const places = [...new Set(all.map((point) => point.place))].sort((a, b) => a - b);

  const legendAbove = () => ({ orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } });
  const notes = (point) => (point.doubtful ? "<br>warnings concern much of its time" : "");
  const ran = (points) => points.filter((point) => point.status === "ok");

  /** Numbers in equal steps and words lie on a linear axis, other numbers on a logarithmic one: the ideal line is straight on both. */
  const uneven = new Set(places.slice(1).map((place, i) => +(place - places[i]).toPrecision(9))).size > 1;
  const log = study.numeric && uneven && places[0] > 0;
  const at = (point) => (log ? Math.log2(point.place) : point.place);

  /** The smallest distance of two places on the axis, 1 of a single one. */
  const spots = places.map((place) => at({ place }));
  const gap = spots.length > 1 ? Math.min(...spots.slice(1).map((spot, i) => spot - spots[i])) : 1;

  /** Axis with every value at its place, and as many labels as there is room for. */
  function axis() {
    const room = study.numeric ? Math.max(spots.at(-1) - spots[0], gap) / MOST_LABELS : 0;
    const labelled = spots.reduce((kept, spot) => (spot - (kept.at(-1) ?? -Infinity) >= room ? [...kept, spot] : kept), []);
    const words = new Map(all.map((point) => [at(point), point.tick]));
    return { title: study.over || study.rank_name, showgrid: false, zeroline: false, tickvals: labelled, ticktext: labelled.map((spot) => words.get(spot)),
      range: [spots[0] - 0.6 * gap, spots.at(-1) + 0.6 * gap] };
  }

  /** Axis of a chart of one line, with bands and words where there is no result. */
  function gaps(points) {
    const missing = points.filter((point) => point.status !== "ok");
    return {
      xaxis: axis(),
      shapes: missing.map((point) => ({ type: "rect", xref: "x", yref: "paper", x0: at(point) - 0.46 * gap, x1: at(point) + 0.46 * gap, y0: 0, y1: 1,
        line: { width: 0 }, fillcolor: theme.color("sunken"), layer: "below" })),
      annotations: missing.map((point) => ({ xref: "x", yref: "paper", x: at(point), y: 0.5, text: point.words, textangle: -90, showarrow: false,
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
  function rates() {
    const values = ran(all).flatMap((p) => [p.throughput, p.throughput_p10 ?? p.throughput, p.throughput_p90 ?? p.throughput]);
    const title = `${study.unit}/s`;
    if (!log || !values.length) return { title, rangemode: "tozero", exponentformat: "SI" };
    const low = Math.min(...values) / 1.25, high = Math.max(...values) * 1.25;
    const tickvals = rateTicks(low, high);
    return { title, type: "log", tickvals, ticktext: tickvals.map(format.rate), range: [Math.log10(low), Math.log10(high)] };
  }

  const trace = (name, color, points, more, size = 8) => ({ type: "scatter", mode: "lines+markers", name, x: points.map(at), customdata: points.map((p) => p.at),
    line: { color: theme.color(color), width: 2.5 },
    marker: { size, color: theme.color(color), symbol: points.map((p) => (p.doubtful ? "circle-open" : "circle")), line: { width: 2, color: theme.color(color) } }, ...more });

  const wrapped = (text) => text.replace(/(.{1,70})(\s+|$)/g, "$1<br>").replace(/<br>$/, "");
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

  /** One line of the sweep against the axis; words on the axis have bars. */
  function lineTrace(line, place, key, factor, hover) {
    const color = LINE_COLORS[place % LINE_COLORS.length], dash = DASHES[place % DASHES.length];
    const size = 8 + 3 * Math.min(study.lines.length - 1 - place, MOST_RINGS);
    const values = { y: line.points.map((p) => (p[key] === null ? null : factor * p[key])), text: line.points.map(notes), legendgroup: line.name,
      hovertemplate: `${several ? `<b>${safe(line.name)}</b><br>` : ""}%{customdata}<br>${hover}%{text}<extra></extra>` };
    if (study.numeric) return trace(safe(line.name), color, line.points, { ...values, line: { color: theme.color(color), width: 2.5, dash } }, size);
    const end = (p, name) => (key === "throughput" && p[name] !== null ? Math.abs(p[name] - p.throughput) : 0);
    const spread = { type: "data", symmetric: false, array: line.points.map((p) => end(p, "throughput_p90")), arrayminus: line.points.map((p) => end(p, "throughput_p10")),
      color: theme.color("ink-soft"), thickness: 1.5, width: 5, visible: key === "throughput" };
    return { type: "bar", error_y: spread, name: safe(line.name), x: line.points.map(at), customdata: line.points.map((p) => p.at), marker: { color: theme.color(color) }, ...values };
  }

  /** Crosses at the foot of a chart of several lines, where a line has no result; crosses of one place stand side by side. */
  function crosses() {
    const count = study.lines.length;
    return study.lines.flatMap((line, place) => {
      const missing = line.points.filter((point) => point.status !== "ok");
      const color = theme.color(LINE_COLORS[place % LINE_COLORS.length]), aside = (place - (count - 1) / 2) * Math.min(0.12, 0.8 / count) * gap;
      return missing.length ? [{ type: "scatter", mode: "markers", yaxis: "y2", x: missing.map((p) => at(p) + aside), y: missing.map(() => 0.03), legendgroup: line.name,
        showlegend: false, marker: { symbol: "x-thin", size: 9, line: { width: 2, color } }, hovertemplate: "%{text}<extra></extra>",
        text: missing.map((p) => `<b>${safe(line.name)}</b><br>${safe(p.at)}: ${p.words}<br>${wrapped(safe(p.message))}`) }] : [];
    });
  }

  const foot = { overlaying: "y", range: [0, 1], visible: false, fixedrange: true };

  /** Chart of all lines of a key of the points. */
  function lines(key, factor, hover, yaxis, height = 340) {
    return {
      traces: [...study.lines.map((line, place) => lineTrace(line, place, key, factor, hover)), ...(several ? crosses() : [])],
      layout: { height, ...(several ? { xaxis: axis(), yaxis2: foot } : gaps(all)), yaxis, legend: legendAbove(), showlegend: several },
    };
  }

  /** Area between p10 and p90. */
  function band(line, place) {
    const known = line.points.filter((p) => p.throughput_p10 !== null && p.throughput_p90 !== null);
    if (known.length < 2 || !study.numeric) return [];
    const edge = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", x: known.map(at), connectgaps: true, legendgroup: line.name };
    return [
      { ...edge, y: known.map((p) => p.throughput_p90), showlegend: false },
      { ...edge, y: known.map((p) => p.throughput_p10), name: "8 in 10", showlegend: !several, fill: "tonexty",
        fillcolor: `${theme.color(LINE_COLORS[place % LINE_COLORS.length])}${several ? "18" : "2e"}` },
    ];
  }

  /** Throughput of the only line at the rate per rank of the first size that ran. */
  function ideal(points) {
    const first = points.find((point) => point.status === "ok");
    return { ...trace("ideal", "ink-faint", points, { mode: "lines", connectgaps: true, hoverinfo: "skip" }), line: { color: theme.color("ink-faint"), width: 1.5, dash: "dot" },
      y: points.map((p) => (first ? (first.throughput * p.world_size) / first.world_size : null)) };
  }

  function throughputChart() {
    const made = lines("throughput", 1, `<b>%{y:.3s} ${study.unit}/s</b>`, rates());
    if (!several) made.traces[0].name = "simulated";
    return marked({ traces: [...study.lines.flatMap(band), ...(several || study.over ? [] : [ideal(all)]), ...made.traces],
      layout: { ...made.layout, showlegend: several || !study.over } });
  }

  /** Dotted vertical lines with words at the marked places; labels of neighbouring lines do not overlap. */
  function marked({ traces, layout }) {
    const shapes = study.marks.map((mark) => ({ type: "line", xref: "x", yref: "paper", x0: at(mark), x1: at(mark), y0: 0, y1: 1, layer: "below",
      line: { width: 1.5, dash: "dot", color: theme.color("ink-soft") } }));
    const annotations = study.marks.map((mark, i) => ({ xref: "x", yref: "paper", x: at(mark), y: 0.06 + 0.1 * i, text: mark.words, showarrow: false,
      bgcolor: theme.color("page"), font: { size: 12.5, color: theme.color("ink") } }));
    return { traces, layout: { ...layout, shapes: [...(layout.shapes ?? []), ...shapes], annotations: [...(layout.annotations ?? []), ...annotations] } };
  }

  function objectiveChart() {
    const values = new Map(study.objective.places.map((spot) => [spot.place, spot.value]));
    const made = trace("objective", "accent", all, { y: all.map((p) => values.get(p.place) ?? null), hovertemplate: `%{customdata}<br><b>%{y:.3s} ${study.objective.unit}</b><extra></extra>` });
    return marked({ traces: [made], layout: { height: 300, ...gaps(all), yaxis: { title: study.objective.unit, rangemode: "tozero", exponentformat: "SI" }, showlegend: false } });
  }

  function efficiencyChart() {
    const made = lines("efficiency", 100, "<b>%{y:.1f} %</b>", { title: "% of the first point", rangemode: "tozero" }, several ? 340 : 300);
    if (!several) Object.assign(made.traces[0], { mode: "lines+markers+text", text: all.map((p) => (p.efficiency === null ? "" : format.percent(p.efficiency))),
      textposition: "top center", textfont: { size: 12, color: theme.color("ink-soft") }, hovertemplate: "%{customdata}<br><b>%{y:.1f} %</b><extra></extra>", cliponaxis: false });
    return made;
  }

  const speedupChart = () => lines("speedup", 1, "<b>%{y:.3g} times</b>", { title: "times the first point", rangemode: "tozero" });

  /** Highest iteration time of all lines, ms: charts of lines have one scale. */
  const longest = 1.05e3 * Math.max(...ran(all).map((p) => p.iteration_s), 0);
  const barWidth = 0.62 * gap;

  function breakdownChart(points) {
    const time = (p, key) => (p.status === "ok" ? 1e3 * p.iteration_s * p.shares[key] : null);
    const parts = PARTS.filter(([key]) => all.some((p) => p.shares[key] > 0));
    return {
      traces: parts.map(([key, name, color]) => ({ type: "bar", name, x: points.map(at), width: barWidth, y: points.map((p) => time(p, key)),
        marker: { color: theme.color(color) }, hovertext: points.map((p) => `${safe(p.at)}<br>${name}: <b>${format.percent(p.shares[key])}</b>`),
        hoverinfo: "text" })),
      layout: { height: 340, barmode: "stack", ...gaps(points), yaxis: { title: "ms of the iteration", ...(several && longest ? { range: [0, longest] } : {}) }, legend: legendAbove() },
    };
  }

  function boundChart(points) {
    const classes = [...new Set(points.flatMap((p) => Object.keys(p.gains)))].filter((name) => points.some((p) => p.gains[name] >= 0.001));
    return {
      traces: classes.map((name) => trace(name, CLASS_COLORS[name] ?? "accent", points,
        { y: points.map((p) => (name in p.gains ? 100 * p.gains[name] : null)), mode: study.numeric ? "lines+markers" : "markers",
          hovertemplate: `%{customdata}<br>${name}: <b>%{y:.1f} %</b><extra></extra>` })),
      layout: { height: 340, ...gaps(points), yaxis: { title: "% saved", rangemode: "tozero" }, legend: legendAbove() },
    };
  }

  function start() {
    theme.start();
    dlrmsim.tables.start();
    if (study.objective) charts.draw("objective-chart", objectiveChart);
    charts.draw("throughput-chart", throughputChart);
    charts.draw("efficiency-chart", efficiencyChart);
    charts.draw("speedup-chart", speedupChart);
    study.lines.forEach((line, place) => {
      const end = several ? `-${place}` : "";
      charts.draw(`breakdown-chart${end}`, () => breakdownChart(line.points));
      charts.draw(`bound-chart${end}`, () => boundChart(line.points));
    });
    document.body.dataset.ready = "yes";
  }

  start();
})();
