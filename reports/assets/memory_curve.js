// Memory of a rank over the tasks of a step: stacked areas by category, the peak, the capacity.
"use strict";

dlrmsim.memoryCurve = (() => {
  const { charts, format, theme } = dlrmsim;
  const COLORS = ["gemm", "copy", "elementwise", "all-reduce", "embedding", "all-gather", "interaction", "comm-other"];
  const RESERVE = "framework reserve";
  const gigabytes = (bytes) => `${format.significant(bytes / 1e9, 4)} GB`;

  function chart(curve) {
    const colors = curve.items.map(({ name }, i) => theme.color(name === RESERVE ? "idle" : COLORS[i % COLORS.length]));
    const traces = curve.items.map((item, i) => ({
      type: "scatter", mode: "lines", stackgroup: "memory", name: item.name, x: curve.tasks, y: item.bytes.map((b) => b / 1e9),
      line: { width: 0, color: colors[i] }, fillcolor: colors[i],
      hovertext: item.bytes.map((b) => `${item.name}: <b>${gigabytes(b)}</b>`), hoverinfo: "text",
    }));
    traces.push({
      type: "scatter", mode: "lines", name: "in all", showlegend: false, x: curve.tasks, y: curve.totals.map((b) => b / 1e9),
      line: { width: 1.5, color: theme.color("ink-soft") },
      hovertext: curve.totals.map((b, i) => `task ${curve.tasks[i].toLocaleString("en")}, ${curve.names[i]}<br>in all: <b>${gigabytes(b)}</b>`), hoverinfo: "text",
    });
    const [x, y] = [curve.tasks[curve.peak], curve.totals[curve.peak] / 1e9];
    traces.push({ type: "scatter", mode: "markers", name: "peak", showlegend: false, x: [x], y: [y], hoverinfo: "skip",
      marker: { size: 9, symbol: "diamond", color: theme.color("ink"), line: { width: 1.5, color: theme.color("surface") } } });
    const capacity = curve.capacity_bytes / 1e9, top = 1.3 * Math.max(capacity, y), last = Math.max(curve.tasks.at(-1), 1);
    const left = x < last / 2;
    return { traces, layout: {
      height: 380, hovermode: "x unified", xaxis: { title: "task of the step", showgrid: false, zeroline: false, range: [0, last] },
      yaxis: { title: "GB", range: [0, top], zeroline: false },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal", font: { size: 12.5, color: theme.color("ink-soft") } },
      hoverlabel: { bgcolor: theme.color("surface"), bordercolor: theme.color("rule-strong"), font: { color: theme.color("ink"), size: 12.5 }, align: "left" },
      shapes: [
        { type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity, y1: capacity, line: { color: theme.color("bad"), width: 2, dash: "dot" } },
        { type: "line", x0: x, x1: x, y0: y, y1: top, line: { color: theme.color("ink-soft"), width: 1 } },
      ],
      annotations: [
        { xref: "paper", x: left ? 1 : 0, y: capacity, xanchor: left ? "right" : "left", yanchor: "bottom", showarrow: false,
          text: `usable ${format.significant(capacity, 3)} GB`, font: { color: theme.color("bad"), size: 12 } },
        { x, yref: "paper", y: 1, xanchor: left ? "left" : "right", yanchor: "top", showarrow: false, xshift: left ? 5 : -5, align: left ? "left" : "right",
          text: `peak <b>${gigabytes(curve.totals[curve.peak])}</b>${curve.module ? `<br>${curve.module}` : ""}`, font: { color: theme.color("ink"), size: 12.5 }, bgcolor: theme.color("surface") },
      ],
    } };
  }

  return { start: (curve) => charts.draw("memory-curve-chart", () => chart(curve)) };
})();
