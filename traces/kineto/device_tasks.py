"""Tasks of a rank's device work: behind their launch, their stream, and the stream's waits for events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, Delay, Gemm, Measured
from simulator.work import Work
from traces.collective_args import UNKNOWN_SIZE, UNKNOWN_SPLITS, CollectiveArgs, is_collective_kernel, read_args
from traces.description import TAIL
from traces.kernel_classes import KernelClass, class_of
from traces.kineto.kernel_names import short_name
from traces.kineto.rank_context import KERNEL, MEMCPY, PS_PER_S, RankContext
from traces.kineto.shapes import gemm_of

_DIRECTIONS = {"htod": "h2d", "dtoh": "d2h"}


class DeviceTasks:
    """Appends a rank's device work to its tasks."""

    def __init__(self, context: RankContext) -> None:
        """Builder for the rank in ``context``, whose host threads have their tasks."""
        self._context = context
        self._tasks: list[int] = []  # of each piece of device work, in order of their starts
        self._last: dict[int, int] = {}  # stream -> its latest piece

    def run(self) -> None:
        """Append the tasks of all device work."""
        streams, waits = self._streams(), self._context.waits
        for place in range(len(self._context.device.rows)):
            self._append(place, streams[int(self._context.device.stream[place])], waits.get(place, ()))
        for host, place in self._context.blocking:
            self._context.builder.depend(host, self._tasks[place])

    def _streams(self) -> list[int]:
        """Numbers of the streams of the device; their names say which device where there are several."""
        streams = self._context.device.streams
        several = len({device for device, _ in streams}) > 1
        names = (f"device {device} stream {name}" if several else f"stream {name}" for device, name in streams)
        return [self._context.builder.stream(name) for name in names]

    def _append(self, place: int, stream: int, waits: Sequence[int]) -> None:
        """One piece of device work, behind a delay where it started later than all that it waited for ended."""
        builder, work = self._context.builder, self._context.device
        start, end = int(work.start_ps[place]), int(work.end_ps[place])
        launch = self._context.launched.get(int(work.launch[place]))
        inputs, known = self._inputs(place, launch, waits)
        section = self._context.section(builder.end_ps[launch] if launch is not None else start)
        if start > known:
            cause = "launch latency" if launch is not None else "launched before the trace"
            delay = Delay((start - known) / PS_PER_S, cause)
            inputs = [builder.task(cause, stream, delay, known, start, section=section, after=inputs)]
        name, what = self._work(place)
        task = builder.task(name, stream, what, start, end, section=section, after=inputs)
        if isinstance(what, CollectiveCall):
            tail = Measured(0.0, Category.COMM, TAIL)
            task = builder.task(f"{name} (tail)", stream, tail, end, end, section=section, after=[task])
        self._tasks.append(task)
        self._last[int(work.stream[place])] = place

    def _inputs(self, place: int, launch: int | None, waits: Sequence[int]) -> tuple[list[int], int]:
        """Tasks that a piece waits for beside its stream's last one, and when the latest of all had ended, ps."""
        work, known = self._context.device, self._context.origin_ps
        inputs = []
        if launch is not None:
            inputs.append(launch)
            known = max(known, self._context.builder.end_ps[launch])
        before = self._last.get(int(work.stream[place]))
        if before is not None:
            known = max(known, int(work.end_ps[before]))
        for other in waits:
            if other < place and work.end_ps[other] <= work.start_ps[place]:
                inputs.append(self._tasks[other])
                known = max(known, int(work.end_ps[other]))
        return inputs, known

    def _work(self, place: int) -> tuple[str, Work]:
        """Name and work of a device event."""
        events, row = self._context.trace.events, int(self._context.device.rows[place])
        name = events.name_of(row)
        seconds = float(self._context.device.end_ps[place] - self._context.device.start_ps[place]) / PS_PER_S
        if events.kind[row] == KERNEL:
            if is_collective_kernel(name) or events.args.get(row, {}).get("collective"):
                return self._collective(place, name, seconds)
            return short_name(name), Measured(seconds, Category.COMPUTE, name, self._shape(place, name))
        if events.kind[row] == MEMCPY:
            size = events.args.get(row, {}).get("bytes")
            direction = next((d for key, d in _DIRECTIONS.items() if key in name.lower()), "d2d")
            if isinstance(size, int | float):
                return short_name(name), Copy(float(size), direction)  # type: ignore[arg-type]
        return short_name(name), Measured(seconds, Category.COPY, name)

    def _shape(self, place: int, name: str) -> Gemm | None:
        """The GEMM of the innermost operator with a shape around a kernel's launch."""
        if class_of(name) is not KernelClass.GEMM:
            return None
        events, outer = self._context.trace.events, int(self._context.device.launch[place])
        while outer >= 0:
            if outer in events.args:
                return gemm_of(events.name_of(outer), events.args[outer], name)
            outer = int(self._context.parent[outer])
        return None

    def _collective(self, place: int, name: str, seconds: float) -> tuple[str, Work]:
        found = self._collective_args(place, name)
        if found is None:
            self._context.gaps[
                "communication kernels that are no collective we know (kept with their measured time)"
            ] += 1
            return short_name(name), Measured(seconds, Category.COMM, name)
        if found.bytes is None:
            self._context.gaps[UNKNOWN_SIZE] += 1
        group = self._context.groups.setdefault(found.group, found)
        if group.ranks is None and group.size is None:
            self._context.gaps["collectives whose process group the trace does not name (taken for all ranks)"] += 1
        size: float | np.ndarray[tuple[int], np.dtype[np.float64]] = found.bytes or 0.0
        if found.uneven:
            size = np.array([found.bytes or 0.0])
        if found.splits_missing:
            self._context.gaps[UNKNOWN_SPLITS] += 1
        return found.op, CollectiveCall(found.op, found.group, size, found.dtype, peer_shares=found.shares_row)

    def _collective_args(self, place: int, name: str) -> CollectiveArgs | None:
        """Arguments of the kernel itself, or of the innermost operator around its launch that has any."""
        trace, row = self._context.trace, int(self._context.device.rows[place])
        args = trace.events.args.get(row)
        outer = int(self._context.device.launch[place])
        best: dict[str, object] = dict(args or {})
        while outer >= 0:
            for key, value in trace.events.args.get(outer, {}).items():
                best.setdefault(key, value)
            if trace.events.args.get(outer) and "collective" not in best:
                said = trace.events.name_of(outer)
                if said.startswith("nccl:"):
                    best["collective"] = said
            outer = int(self._context.parent[outer])
        return read_args(name, best, trace.groups, trace.world_size)
