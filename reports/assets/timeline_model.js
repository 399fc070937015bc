// What the timeline shows: tasks of the embedded ranks, from packed columns. No drawing here.
"use strict";

dlrmsim.timelineModel = (() => {
  /** Rows of the packed columns stand rank by rank, then iteration by iteration, then task by task. */
  function offsets(data) {
    const starts = [];
    let at = 0;
    for (const group of data.group_of) {
      starts.push(at);
      at += data.groups[group].names.length * data.iterations.length;
    }
    return starts;
  }

  /** The tasks of one embedded rank by stream: lanes of {stream, rows} in order of start, another where tasks overlap. */
  function lanesOf(group, iterations, first, columns) {
    const tasks = group.names.length;
    const streams = group.streams.map(() => []);
    for (let k = 0; k < iterations; k += 1) {
      for (let task = 0; task < tasks; task += 1) {
        const row = first + k * tasks + task;
        if (columns.duration[row] > 0) streams[group.stream_of[task]].push(row);
      }
    }
    return streams.flatMap((rows, number) => apart(rows, columns).map((lane) => ({ stream: group.streams[number], rows: lane })));
  }

  /** Rows dealt to as few lanes as they do not overlap on. */
  function apart(rows, columns) {
    const lanes = [];
    for (const row of [...rows].sort((a, b) => columns.start[a] - columns.start[b])) {
      const start = columns.start[row];
      const last = (lane) => lane[lane.length - 1];
      const free = lanes.find((lane) => columns.start[last(lane)] + columns.duration[last(lane)] <= start);
      if (free) free.push(row);
      else lanes.push([row]);
    }
    return lanes;
  }

  /** Build the model of `data` (see reports/run_timeline.py) with its decoded `columns`. */
  function create(data, columns) {
    const starts = offsets(data);
    const position = new Map(data.ranks.map((rank, i) => [rank, i]));
    const groupOf = (rank) => data.groups[data.group_of[position.get(rank)]];
    const critical = new Set();
    for (const [rank, iteration, task] of data.critical) critical.add(`${rank}/${iteration}/${task}`);
    const cache = new Map();

    function lanes(rank) {
      const i = position.get(rank);
      if (!cache.has(rank)) cache.set(rank, lanesOf(groupOf(rank), data.iterations.length, starts[i], columns));
      return cache.get(rank);
    }

    /** Everything there is to know about one row of one rank. */
    function task(rank, row) {
      const group = groupOf(rank);
      const tasks = group.names.length;
      const local = row - starts[position.get(rank)];
      const number = local % tasks;
      return {
        rank, row, number,
        name: group.names[number], section: group.sections[number], kind: group.kinds[number],
        stream: group.streams[group.stream_of[number]], detail: group.details[number],
        iteration: data.iterations[Math.floor(local / tasks)].index,
        start: columns.start[row], duration: columns.duration[row], waiting: columns.waiting[row],
        critical: isCritical(rank, row),
      };
    }

    const kindOf = (rank, row) => {
      const group = groupOf(rank);
      return group.kinds[(row - starts[position.get(rank)]) % group.names.length];
    };
    const nameOf = (rank, row) => {
      const group = groupOf(rank);
      return group.names[(row - starts[position.get(rank)]) % group.names.length];
    };
    function isCritical(rank, row) {
      const group = groupOf(rank);
      const local = row - starts[position.get(rank)];
      const iteration = data.iterations[Math.floor(local / group.names.length)].index;
      return critical.has(`${rank}/${iteration}/${group.names[local % group.names.length]}`);
    }

    /** The embedded rank closest to `rank` (itself when embedded). */
    function nearest(rank) {
      return data.ranks.reduce((best, other) => (Math.abs(other - rank) < Math.abs(best - rank) ? other : best), data.ranks[0]);
    }

    let first = Infinity;
    let last = -Infinity;
    for (let row = 0; row < columns.start.length; row += 1) {
      first = Math.min(first, columns.start[row]);
      last = Math.max(last, columns.start[row] + columns.duration[row]);
    }
    return { data, columns, lanes, task, kindOf, nameOf, isCritical, nearest, embedded: (rank) => position.has(rank), first, last };
  }

  return { create };
})();
