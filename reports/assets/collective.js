// The page of a collective: bus bandwidth and time over size, a line per number of ranks, measured points beside them.
"use strict";

(() => {
  const { charts, theme } = dlrmsim;
  const COLORS = ["accent", "all-to-all", "copy", "embedding", "optimizer", "host", "gemm", "all-reduce"];
  const THIN = "2e"; // opacity of a band, behind a colour of six digits
  const legendAbove = () => ({ orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { size: 12.5, color: theme.color("ink-soft") } });

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const place = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(value) / 10)));
    return `${+(value / 2 ** (10 * place)).toPrecision(3)} ${units[place]}`;
  }

  /** Log axis over all sizes, measured ones too, with about eight ticks at powers of two. */
  function sizes(tables) {
    const all = tables.flatMap((t) => [...t.rows, ...t.measured].map((r) => r.bytes));
    const low = Math.floor(Math.log2(Math.min(...all))), high = Math.ceil(Math.log2(Math.max(...all)));
    const ticks = Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((k) => (k - low) % Math.max(1, Math.ceil((high - low) / 8)) === 0);
    return { title: "size", type: "log", tickvals: ticks.map((k) => 2 ** k), ticktext: ticks.map((k) => bytes(2 ** k)) };
  }

  /** Area between p10 and p90 of a table. */
  function band(table, key, color) {
    const edge = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, x: table.rows.map((r) => r.bytes) };
    return [
      { ...edge, y: table.rows.map((r) => r[`${key}_high`]) },
      { ...edge, y: table.rows.map((r) => r[`${key}_low`]), fill: "tonexty", fillcolor: `${color}${THIN}` },
    ];
  }

  function chart(tables, key, title, log) {
    const traces = tables.flatMap((t, i) => {
      const color = theme.color(COLORS[i % COLORS.length]);
      const line = { type: "scatter", mode: "lines+markers", name: t.label, x: t.rows.map((r) => r.bytes), y: t.rows.map((r) => r[key]),
        line: { color, width: 2.5 }, marker: { size: 6, color }, text: t.rows.map((r) => `${bytes(r.bytes)}, ${t.label}<br>${r.how}`),
        hovertemplate: "%{text}<br><b>%{y:.4g}</b><extra></extra>" };
      const points = { type: "scatter", mode: "markers", name: `${t.label}, measured`, x: t.measured.map((r) => r.bytes), y: t.measured.map((r) => r[key]),
        marker: { size: 9, color, symbol: "circle-open", line: { width: 2 } }, text: t.measured.map((r) => `${bytes(r.bytes)}, measured<br>${r.source}`),
        hovertemplate: "%{text}<br><b>%{y:.4g}</b><extra></extra>" };
      return [...band(t, key, color), line, ...(t.measured.length ? [points] : [])];
    });
    const yaxis = log ? { title, type: "log", exponentformat: "none" } : { title, rangemode: "tozero" };
    return { traces, layout: { height: 380, xaxis: sizes(tables), yaxis, legend: legendAbove() } };
  }

  function start() {
    const tables = dlrmsim.payload.read("payload").collective;
    theme.start();
    dlrmsim.tables.start();
    charts.draw("busbw-chart", () => chart(tables, "busbw", "busbw, GB/s", false));
    charts.draw("time-chart", () => chart(tables, "time", "time, µs", true));
    document.body.dataset.ready = "yes";
  }

  start();
})();
