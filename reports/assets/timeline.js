// The timeline's controls: which ranks, which part of time, and what lies under the pointer.
"use strict";

dlrmsim.timeline = (() => {
  const MOST_RANKS = 12;
  const LEAST_SPAN_NS = 50;

  const node = (tag, properties = {}, children = []) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  function describe(task) {
    const { duration } = dlrmsim.format;
    const rows = [
      ["rank · stream", `${task.rank} · ${task.stream}`],
      ["section", `${task.section}, iteration ${task.iteration}`],
      ["start", duration(task.start, 6)],
      ["duration", duration(task.duration)],
    ];
    if (task.waiting > 0) {
      rows.push(["waiting for others", duration(task.waiting)], ["transfer", duration(task.duration - task.waiting)]);
    }
    if (task.detail) rows.push(["what", task.detail]);
    if (task.critical) rows.push(["", "on the critical path"]);
    return rows;
  }

  function showTip(tip, task, px, py, room) {
    const list = node("dl", {}, describe(task).flatMap(([k, v]) => [node("dt", { textContent: k }), node("dd", { textContent: v })]));
    tip.replaceChildren(node("b", { textContent: task.name }), list);
    tip.hidden = false;
    const left = px + 16 + tip.offsetWidth > room ? px - tip.offsetWidth - 12 : px + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${py + 14}px`;
  }

  function start(data, columns, notes) {
    const canvas = document.getElementById("timeline-canvas");
    const tip = document.getElementById("timeline-tip");
    const message = document.getElementById("timeline-message");
    const model = dlrmsim.timelineModel.create(data, columns);
    const roles = new Map();
    for (const { role, rank } of data.roles) roles.set(rank, [roles.get(rank), role].filter(Boolean).join(", "));
    const [begin, end] = data.window;
    const state = { ranks: data.shown.slice(0, MOST_RANKS), from: begin, to: end, hover: null, critical: true, roles, notes };
    const view = dlrmsim.timelineView.create(canvas, model, state);

    let pending = false;
    function refresh(resized = false) {
      if (resized) view.resize();
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => { pending = false; view.draw(); });
    }

    function span(from, to) {
      const whole = model.last - model.first;
      const length = Math.min(Math.max(to - from, LEAST_SPAN_NS), whole * 1.1);
      const left = Math.min(Math.max(from, model.first - whole * 0.05), model.last + whole * 0.05 - length);
      Object.assign(state, { from: left, to: left + length });
      refresh();
    }

    const zoom = (factor, at) => span(at - (at - state.from) * factor, at + (state.to - at) * factor);
    const pan = (share) => span(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
    const middle = () => (state.from + state.to) / 2;

    function setRanks(ranks) {
      state.ranks = ranks;
      state.hover = null;
      tip.hidden = true;
      drawChips();
      refresh(true);
    }

    /** Show a rank: itself when embedded, else the nearest embedded one, which the message says. */
    function add(rank) {
      if (!Number.isInteger(rank) || rank < 0 || rank >= data.world_size) {
        message.textContent = `Ranks are numbered 0 to ${data.world_size - 1}.`;
        return;
      }
      const shown = model.nearest(rank);
      message.textContent = shown === rank ? ""
        : `The tasks of rank ${rank} are not in this file; rank ${shown} is the nearest that is. ${data.more}`;
      if (!state.ranks.includes(shown)) setRanks([...state.ranks, shown].slice(-MOST_RANKS));
      else refresh();
    }

    function drawChips() {
      const chips = document.getElementById("timeline-chips");
      chips.replaceChildren(...state.ranks.map((rank) => {
        const button = node("button", { textContent: "×", title: `Hide rank ${rank}`, type: "button" });
        button.setAttribute("aria-label", `Hide rank ${rank}`);
        button.addEventListener("click", () => setRanks(state.ranks.filter((other) => other !== rank)));
        return node("span", { className: "chip" }, [roles.has(rank) ? `${rank} · ${roles.get(rank)}` : `${rank}`, button]);
      }));
    }

    function startPointer() {
      let grabbed = null;
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey && document.activeElement !== canvas) return;
        event.preventDefault();
        if (event.shiftKey) pan((event.deltaX || event.deltaY) / 800);
        else zoom(Math.exp(event.deltaY / 400), view.time(event.offsetX));
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        grabbed = { x: event.offsetX, from: state.from, to: state.to };
        canvas.setPointerCapture(event.pointerId);
        canvas.focus({ preventScroll: true });
        canvas.classList.add("panning");
      });
      const release = () => { grabbed = null; canvas.classList.remove("panning"); };
      canvas.addEventListener("pointerup", release);
      canvas.addEventListener("pointercancel", release);
      canvas.addEventListener("pointermove", (event) => {
        if (grabbed) {
          const shift = ((grabbed.x - event.offsetX) / (view.width() - view.gutter)) * (grabbed.to - grabbed.from);
          span(grabbed.from + shift, grabbed.to + shift);
          return;
        }
        hover(event);
      });
      canvas.addEventListener("pointerleave", () => { state.hover = null; tip.hidden = true; refresh(); });
      canvas.addEventListener("dblclick", (event) => zoom(0.4, view.time(event.offsetX)));
    }

    function hover(event) {
      const found = view.hit(event.offsetX, event.offsetY);
      const moved = found?.row !== state.hover?.row;
      state.hover = found;
      if (found) showTip(tip, model.task(found.rank, found.row), event.offsetX, event.offsetY, canvas.clientWidth);
      else tip.hidden = true;
      if (moved) refresh();
    }

    function startKeys() {
      const keys = {
        w: () => zoom(0.7, middle()), s: () => zoom(1 / 0.7, middle()), a: () => pan(-0.2), d: () => pan(0.2),
        ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.7, middle()), "-": () => zoom(1 / 0.7, middle()),
        0: () => span(begin, end),
      };
      canvas.addEventListener("keydown", (event) => {
        const action = keys[event.key];
        if (!action || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        action();
      });
    }

    function startControls() {
      const select = document.getElementById("timeline-select");
      select.addEventListener("change", () => { if (select.value !== "") add(Number(select.value)); select.value = ""; });
      const box = document.getElementById("timeline-number");
      box.addEventListener("change", () => { if (box.value !== "") add(Number(box.value)); });
      const critical = document.getElementById("timeline-critical");
      critical.addEventListener("change", () => { state.critical = critical.checked; refresh(); });
      const on = (id, action) => document.getElementById(id).addEventListener("click", action);
      on("timeline-in", () => zoom(0.6, middle()));
      on("timeline-out", () => zoom(1 / 0.6, middle()));
      on("timeline-fit", () => span(begin, end));
    }

    /** Show a moment on a rank: used by the critical path's table and the distribution over ranks. */
    function jump(rank, from, to) {
      add(rank);
      if (from !== undefined) span(from - (to - from) * 0.6, to + (to - from) * 0.6);
      document.getElementById("timeline").scrollIntoView();
    }

    startPointer();
    startKeys();
    startControls();
    drawChips();
    view.resize();
    view.draw();
    addEventListener("resize", () => refresh(true));
    dlrmsim.theme.onChange(() => { view.recolor(); refresh(); });
    return { add, jump };
  }

  return { start };
})();
