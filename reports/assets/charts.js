// Plotly with this page's type, colours and restraint. A chart is a function that returns {traces, layout}.
"use strict";

dlrmsim.charts = (() => {
  const drawn = new Map();
  const config = { displayModeBar: false, responsive: true };

  function base() {
    const { color } = dlrmsim.theme;
    const axis = {
      gridcolor: color("rule"), zerolinecolor: color("rule-strong"), linecolor: color("rule-strong"),
      tickfont: { size: 12, color: color("ink-soft") }, title: { font: { size: 12.5, color: color("ink-faint") }, standoff: 10 },
      automargin: true, ticks: "", fixedrange: true,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: color("ink") },
      margin: { l: 8, r: 8, t: 8, b: 8 }, bargap: 0.38, hovermode: "closest",
      hoverlabel: { bgcolor: color("ink"), bordercolor: color("ink"), font: { color: color("page"), size: 12.5 }, align: "left" },
      legend: { orientation: "h", x: 0, y: -0.12, yanchor: "top", font: { size: 12.5, color: color("ink-soft") }, itemsizing: "constant" },
      xaxis: { ...axis }, yaxis: { ...axis },
    };
  }

  function merge(layout, changes) {
    const merged = { ...layout, ...changes };
    for (const name of Object.keys(changes).filter((key) => /^[xy]axis\d*$/.test(key))) {
      const own = changes[name];
      const stem = layout[name] ?? layout[`${name[0]}axis`];
      merged[name] = { ...stem, ...own };
      if (own.title) merged[name].title = { ...stem.title, text: own.title };
    }
    return merged;
  }

  function redraw(id) {
    const { traces, layout } = drawn.get(id)();
    return Plotly.react(id, traces, merge(base(), layout), config);
  }

  /** Draw the chart `make()` describes into the element `id`, again at every change of theme. */
  function draw(id, make) {
    const element = document.getElementById(id);
    if (!element) return null;
    drawn.set(id, make);
    redraw(id);
    return element;
  }

  dlrmsim.theme.onChange(() => [...drawn.keys()].forEach(redraw));
  return { draw, redraw };
})();
