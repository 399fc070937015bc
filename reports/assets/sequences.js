// Work and lookups of ranks of a run with sequences, over their mean.
"use strict";

dlrmsim.sequences = (() => {
  const { charts, format, theme } = dlrmsim;
  const COLORS = ["attention", "exposed-comm"];
  const [MOST_BARS, GAP] = [32, 0.3];
  const MOST_POINTS = 512; // as reports/sections/sequences.py

  const count = (value) => (value >= 1e4 ? format.rate(value) : Math.round(value).toLocaleString("en-US"));
  const operations = (value) => `${format.significant(value / 1e12)} TFLOP`;

  function words(found, curve, i) {
    const amount = curve.mean * curve.over[i];
    return `rank ${found.ranks[i].toLocaleString("en-US")}<br>${curve.name}: <b>${curve.unit ? operations(amount) : count(amount)}</b>, ` +
      `<b>${format.significant(curve.over[i])}</b> times the mean<br>${count(found.positions[i])} positions, receives ${format.significant(found.received_gb[i])} GB`;
  }

  function chart(found) {
    const bars = found.ranks.length <= MOST_BARS;
    const traces = found.curves.map((curve, k) => {
      const color = theme.color(COLORS[k]);
      const drawn = bars ? { type: "bar", marker: { color } } : { type: "scatter", mode: "lines", line: { width: 1.5, color, shape: "hvh" } };
      return { ...drawn, name: curve.name, x: found.ranks, y: curve.over, hovertext: curve.over.map((_, i) => words(found, curve, i)), hoverinfo: "text" };
    });
    const hot = found.curves.at(-1), at = hot.over.indexOf(Math.max(...hot.over)), [x, y] = [found.ranks[at], hot.over[at]];
    const top = 1.22 * Math.max(...found.curves.flatMap(({ over }) => over)), left = x < found.world_size / 2;
    const mark = y >= 1.005, bar = bars ? x + 0.5 * (1 - GAP) / found.curves.length : x; // the lookups' bar is the last one of its rank
    const pointer = { type: "line", x0: bar, x1: bar, y0: y, y1: top, line: { color: theme.color("ink-soft"), width: 1 } };
    const label = { x: bar, yref: "paper", y: 1, xanchor: left ? "left" : "right", yanchor: "top", xshift: left ? 5 : -5, showarrow: false,
      text: `rank ${x.toLocaleString("en-US")} serves <b>${format.significant(y)}</b> times the mean lookups`,
      font: { color: theme.color("ink"), size: 12.5 }, bgcolor: theme.color("surface") };
    const note = found.ranks.length < found.world_size ? ` (of every ${Math.ceil(2 * found.world_size / MOST_POINTS)}, ranks with most)` : "";
    return { traces, layout: {
      height: 320, barmode: "group", bargap: GAP, xaxis: { title: `rank${note}`, showgrid: false, zeroline: false, ...(bars ? { dtick: 1 } : {}) },
      yaxis: { title: "times the mean", range: [0, top], zeroline: false },
      annotations: mark ? [label] : [],
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal", font: { size: 12.5, color: theme.color("ink-soft") } },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: theme.color("ink-faint"), width: 1.5, dash: "dot" } },
        ...(mark ? [pointer] : [])],
    } };
  }

  return { start: (found) => charts.draw("sequences-ranks", () => chart(found)) };
})();
