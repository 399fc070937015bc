// Draws the timeline on a canvas: ranks under each other, a lane per stream, time to the right.
"use strict";

dlrmsim.timelineView = (() => {
  const GUTTER = 132;
  const AXIS = 30;
  const RANK_HEAD = 28;
  const LANE = 25;
  const BAR = 19;
  const RANK_GAP = 10;
  const PALE = new Set(["elementwise", "optimizer", "all_reduce"]);

  /** Vertical places: [{rank, y, lanes: [{y, stream, rows}]}] and the height they need. */
  function place(model, ranks) {
    let y = AXIS;
    const blocks = ranks.map((rank) => {
      const block = { rank, y, lanes: [] };
      y += RANK_HEAD;
      for (const lane of model.lanes(rank)) {
        block.lanes.push({ ...lane, y });
        y += LANE;
      }
      y += RANK_GAP;
      return block;
    });
    return { blocks, height: y + 4 };
  }

  function palette() {
    const { color } = dlrmsim.theme;
    const names = ["page", "surface", "sunken", "ink", "ink-soft", "ink-faint", "rule", "rule-strong", "waiting", "waiting-line",
      "bar-ink", "bar-ink-pale", "accent", "accent-soft"];
    const kinds = ["gemm", "attention", "convolution", "embedding", "interaction", "elementwise", "optimizer", "compute", "all_to_all", "all_reduce",
      "all_gather", "reduce_scatter", "send", "comm_other", "copy", "host"];
    const colors = Object.fromEntries(names.map((name) => [name, color(name)]));
    colors.kind = Object.fromEntries(kinds.map((kind) => [kind, color(kind.replaceAll("_", "-"))]));
    return colors;
  }

  function hatch(context, colors) {
    const tile = document.createElement("canvas");
    tile.width = 8;
    tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = colors.waiting;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = colors["waiting-line"];
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) {
      pen.moveTo(shift - 2, 10);
      pen.lineTo(shift + 10, -2);
    }
    pen.stroke();
    return context.createPattern(tile, "repeat");
  }

  /** A view of `model` in `canvas`; `state` is {ranks, from, to, hover, critical}. */
  function create(canvas, model, state) {
    const context = canvas.getContext("2d");
    const family = getComputedStyle(document.body).fontFamily;
    let colors = palette();
    let waiting = hatch(context, colors);
    let width = 0;
    let layout = place(model, state.ranks);

    const x = (time) => GUTTER + ((time - state.from) / (state.to - state.from)) * (width - GUTTER);
    const time = (px) => state.from + ((px - GUTTER) / (width - GUTTER)) * (state.to - state.from);

    function resize() {
      layout = place(model, state.ranks);
      const scale = devicePixelRatio || 1;
      width = canvas.clientWidth;
      canvas.style.height = `${layout.height}px`;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(layout.height * scale);
      context.setTransform(scale, 0, 0, scale, 0, 0);
    }

    function text(value, px, py, style) {
      context.font = `${style.weight ?? 400} ${style.size ?? 12}px ${family}`;
      context.fillStyle = style.color;
      context.textAlign = style.align ?? "left";
      context.textBaseline = "middle";
      context.fillText(value, px, py);
    }

    function drawAxis() {
      const span = state.to - state.from;
      const unit = dlrmsim.format.axisUnit(span);
      const step = dlrmsim.format.niceStep(span, (width - GUTTER) / 96);
      const digits = Math.max(0, -Math.floor(Math.log10(step / unit.ns) + 1e-9));
      for (let tick = Math.ceil(state.from / step) * step; tick <= state.to; tick += step) {
        context.fillStyle = colors.rule;
        context.fillRect(Math.round(x(tick)), AXIS - 6, 1, layout.height);
        const label = (tick / unit.ns).toFixed(digits);
        text(`${label} ${unit.name}`, x(tick) + 5, AXIS / 2, { size: 11.5, color: colors["ink-faint"] });
      }
    }

    /** Side of a line at `px` on which its label ends: left of it, unless that reaches over the names of ranks. */
    function labelAlign(label, px, size) {
      context.font = `400 ${size}px ${family}`;
      return px - 5 - context.measureText(label).width < GUTTER ? "left" : "right";
    }

    /** Where iterations end: a dashed line each, named in the gutter's row. */
    function drawIterations() {
      context.save();
      context.setLineDash([5, 4]);
      context.strokeStyle = colors.accent;
      for (const iteration of model.data.iterations) {
        if (iteration.end < state.from || iteration.end > state.to) continue;
        const px = Math.round(x(iteration.end)) + 0.5;
        context.beginPath();
        context.moveTo(px, AXIS - 6);
        context.lineTo(px, layout.height);
        context.stroke();
        const words = { size: 11, color: colors.accent, align: labelAlign(`end of iteration ${iteration.index}`, px, 11) };
        text(`end of iteration ${iteration.index}`, px + (words.align === "right" ? -5 : 5), AXIS + RANK_HEAD / 2, words);
      }
      context.restore();
    }

    function drawLabel(name, left, right, y, kind) {
      const room = right - left - 8;
      if (room < 26) return;
      context.save();
      context.beginPath();
      context.rect(left, y, right - left - 3, BAR);
      context.clip();
      text(name, left + 5, y + BAR / 2 + 0.5, { size: 11, color: PALE.has(kind) ? colors["bar-ink-pale"] : colors["bar-ink"] });
      context.restore();
    }

    function drawBar(rank, row, y) {
      const start = model.columns.start[row];
      const duration = model.columns.duration[row];
      const left = Math.max(GUTTER, x(start));
      const right = Math.min(width, x(start + duration));
      const kind = model.kindOf(rank, row);
      const transfer = Math.max(left, Math.min(right, x(start + model.columns.waiting[row])));
      if (transfer > left) {
        context.fillStyle = waiting;
        context.fillRect(left, y, Math.max(transfer - left, 0.6), BAR);
      }
      context.fillStyle = colors.kind[kind] ?? colors.kind.compute;
      const gap = right - left > 4 ? 0.8 : 0;
      context.fillRect(transfer, y, Math.max(right - transfer - gap, 0.6), BAR);
      drawLabel(model.nameOf(rank, row), transfer, right, y, kind);
      mark(rank, row, [left, transfer, right], y);
    }

    /** A line under what lies on the critical path, a frame around what lies under the pointer. */
    function mark(rank, row, [left, transfer, right], y) {
      if (state.critical && model.isCritical(rank, row)) {
        context.fillStyle = colors.ink;
        context.fillRect(transfer, y + BAR, Math.max(right - transfer, 1), 3);
      }
      if (state.hover && state.hover.rank === rank && state.hover.row === row) {
        context.lineWidth = 2;
        context.strokeStyle = colors.ink;
        context.strokeRect(left + 1, y + 1, Math.max(right - left - 2, 1), BAR - 2);
      }
    }

    function drawLane(block, lane) {
      const y = lane.y + (LANE - BAR) / 2;
      context.fillStyle = colors.sunken;
      context.fillRect(GUTTER, y, width - GUTTER, BAR);
      context.save();
      context.beginPath();
      context.rect(GUTTER, y, width - GUTTER, BAR + 3);
      context.clip();
      let drawn = 0;
      for (const row of lane.rows) {
        const start = model.columns.start[row];
        if (start + model.columns.duration[row] < state.from || start > state.to) continue;
        drawBar(block.rank, row, y);
        drawn += 1;
      }
      context.restore();
      text(lane.stream, GUTTER - 10, lane.y + LANE / 2, { size: 12, color: colors["ink-soft"], align: "right" });
      return drawn;
    }

    function drawBlock(block) {
      const role = state.roles.get(block.rank);
      text(`Rank ${block.rank}`, 14, block.y + RANK_HEAD / 2 + 2, { size: 13, weight: 620, color: colors.ink });
      const note = [role, state.notes(block.rank)].filter(Boolean).join(" · ");
      context.fillStyle = colors.surface;
      context.fillRect(GUTTER, block.y, width - GUTTER, RANK_HEAD);
      text(note, GUTTER, block.y + RANK_HEAD / 2 + 2, { size: 12, color: colors["ink-faint"] });
      return block.lanes.reduce((sum, lane) => sum + drawLane(block, lane), 0);
    }

    /** Draw everything; data attributes say what is shown, for assistive tools and tests. */
    function draw() {
      context.clearRect(0, 0, width, layout.height);
      context.fillStyle = colors.surface;
      context.fillRect(0, 0, width, layout.height);
      drawAxis();
      const drawn = layout.blocks.reduce((sum, block) => sum + drawBlock(block), 0);
      drawIterations();
      canvas.dataset.ranks = state.ranks.join(",");
      canvas.dataset.from = String(state.from);
      canvas.dataset.to = String(state.to);
      canvas.dataset.bars = String(drawn);
      canvas.dataset.redraws = String(Number(canvas.dataset.redraws ?? 0) + 1);
    }

    /** The task at a place of the canvas, or null. */
    function hit(px, py) {
      if (px < GUTTER) return null;
      for (const block of layout.blocks) {
        const lane = block.lanes.find((l) => py >= l.y && py < l.y + LANE);
        if (lane) return hitLane(block.rank, lane, px);
      }
      return null;
    }

    function hitLane(rank, lane, px) {
      let best = null;
      let distance = 3;
      for (const row of lane.rows) {
        const left = x(model.columns.start[row]);
        const right = x(model.columns.start[row] + model.columns.duration[row]);
        const away = Math.max(left - px, px - right, 0);
        if (away < distance || (away === 0 && distance === 0)) {
          best = row;
          distance = away;
        }
      }
      return best === null ? null : { rank, row: best };
    }

    function recolor() {
      colors = palette();
      waiting = hatch(context, colors);
    }

    return { draw, resize, recolor, hit, time, gutter: GUTTER, width: () => width };
  }

  return { create };
})();
