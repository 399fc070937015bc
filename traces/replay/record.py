"""Record of a replay: the measured machine, the machine of the replay, the changes, measured and replayed times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hardware_specs.loader import load_gpu
from simulator.analysis.collectives import CollectiveRow
from simulator.analysis.steps import StepRow
from traces.analysis import TraceAnalysis
from traces.imported import Imported
from traces.replay.bound import ReplayBound
from traces.replay.changes import Changes
from traces.replay.gpu import MethodShare

STEP_PARTS = (
    "step_s", "compute_s", "exposed_comm_s", "exposed_waiting_s", "exposed_copy_s", "idle_s", "idle_host_s", "comm_s",
    "copy_s", "host_s",
)  # fmt: skip
"""Parts of a step that a replay compares, means over ranks and steps."""
KEPT = "as measured"
"""Text in the line of an unchanged part."""
NOTABLE_SHARE = 0.01
"""Smallest share of the kernels' time of a slower method that is reported."""
NOTABLE_CHANGE = 1.005
"""Ratio of times above which a method is slower."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured and a replayed time, seconds; None if the trace, or the replay, lacks it."""

    name: str
    measured_s: float | None
    replayed_s: float | None

    @property
    def change(self) -> float | None:
        """Relative change, None without a measured time."""
        return self.replayed_s / self.measured_s - 1 if self.measured_s and self.replayed_s is not None else None


@dataclass(frozen=True, slots=True)
class ComparedCollective:
    """A collective of each step, means over steps and ranks.

    Attributes:
        name: operation, communicator and place among equal calls of a step.
        bytes: size in the replay.
        duration: from a rank's arrival to its end.
        transfer: from the last rank's arrival on.
    """

    name: str
    bytes: float
    duration: Compared
    transfer: Compared


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """A replay beside its measurement.

    Attributes:
        measured_on: GPU of the trace, in words.
        replayed_on: machine of the replay; empty: the machine of the trace.
        device: GPU of the replay.
        changed: changes with their methods, and unchanged parts, one line each.
        step: mean step; the whole trace if it has no steps.
        parts: parts of the mean step; empty for traces without steps.
        collectives: collectives of a step, the longest first.
        methods: scaling methods of kernels for another GPU.
        slower: classes of kernels that are slower on another GPU, one sentence each.
        assumed: assumptions of the changes, one line each.
        bound: class of work that shortens the step most when it is faster, from re-runs.
    """

    measured_on: str
    replayed_on: str
    device: str
    changed: tuple[str, ...]
    step: Compared
    parts: tuple[Compared, ...]
    collectives: tuple[ComparedCollective, ...]
    methods: tuple[MethodShare, ...]
    slower: tuple[str, ...]
    assumed: tuple[str, ...]
    bound: ReplayBound | None

    @property
    def title(self) -> str:
        """Both machines in words; on the same machine, the other changes."""
        where = f" on {self.replayed_on}" if self.replayed_on else ""
        others = [line for line in self.changed if KEPT not in line]
        if others and not where:
            where = f" with {others[0]}" + (f" and {len(others) - 1} more changes" if len(others) > 1 else "")
        return f"replayed{where or ' unchanged'}; measured on {self.measured_on}"


def record_of(
    imports: tuple[Imported, Imported],
    analyses: tuple[TraceAnalysis | None, TraceAnalysis | None],
    changes: Changes,
    methods: Sequence[MethodShare],
    assumed: Sequence[str],
    bound: ReplayBound | None,
) -> ReplayRecord:
    """The record of a replay.

    Args:
        imports: the import and its replay.
        analyses: their analyses; None without times.
        changes: changes of the job.
        methods: scaling methods of its kernels for another GPU.
        assumed: assumptions of the changes.
        bound: from re-runs with faster work; None without times.
    """
    before, after = imports
    steps, again = (() if own is None else own.steps for own in analyses)
    rows, new = (() if own is None else own.collectives for own in analyses)
    return ReplayRecord(
        measured_on=before.device or (gpu_in_words(changes.from_gpu) if changes.from_gpu else "an unnamed GPU"),
        replayed_on=", ".join(_machine(changes)),
        device=gpu_in_words(changes.gpu) if changes.gpu else before.device,
        changed=tuple(_changed(before, changes)) if changes.any else (),
        step=Compared("step", _length_s(before, analyses[0]), _length_s(after, analyses[1])),
        parts=tuple(_parts(steps, again)),
        collectives=_collectives(rows, new),
        methods=tuple(methods),
        slower=tuple(_slower(methods, changes)),
        assumed=tuple(assumed),
        bound=bound,
    )


def gpu_in_words(gpu: object) -> str:
    """Usual name of a GPU: the description of its spec up to the first comma."""
    spec = load_gpu(gpu)  # type: ignore[arg-type]
    return spec.description.split(",")[0] or str(gpu)


def _machine(changes: Changes) -> Iterator[str]:
    if changes.cluster is not None:
        yield str(changes.cluster) if changes.gpu is not None else f"the network of {changes.cluster}"
    if changes.gpu is not None:
        yield gpu_in_words(changes.gpu)


def _changed(before: Imported, changes: Changes) -> Iterator[str]:
    """Lines about hardware, ranks, batch, host and the rest; lines of unchanged parts contain `KEPT`."""
    yield from _hardware_words(before, changes)
    if changes.world_size is not None:
        yield f"ranks: {changes.world_size:,} instead of {before.world_size:,}, each with its batch"
    if changes.local_batch is not None:
        yield f"batch: {changes.local_batch:,} samples on each rank"
    yield from _host_words(changes)
    if changes.overlap != "as_traced":
        kinds = {"none": "all device work on one stream", "hidden": "nothing but communication waits for communication"}
        yield f"overlap: {kinds[changes.overlap]}"
    if changes.absent == "late":
        yield "ranks without a trace: late by the time that collectives take beyond their shortest"
    for rank, delay_s in changes.delays_s.items():
        yield f"rank {rank}: {delay_s * 1e3:g} ms late in each step"
    for op, dtype in changes.precisions.items():
        yield f"collectives in floating point{'' if op == 'all' else f' ({op})'}: {dtype}"


def _hardware_words(before: Imported, changes: Changes) -> Iterator[str]:
    if changes.cluster is not None:
        yield f"collectives: network model of {changes.cluster} instead of the measured transfers"
    else:
        resized = ", scaled to their new sizes" if changes.precisions or changes.local_batch else ""
        yield f"collectives: transfers {KEPT}{resized}"
    if changes.gpu is not None:
        old = gpu_in_words(changes.from_gpu) if changes.from_gpu else before.device
        yield (
            f"kernels: measured times, each scaled by its bound from {old} to {gpu_in_words(changes.gpu)}; copies over "
            "PCIe and launch latencies stay"
        )
    else:
        yield f"kernels and copies: {KEPT}" + (", scaled to the batch" if changes.local_batch else "")


def _host_words(changes: Changes) -> Iterator[str]:
    if changes.host_speed != 1.0:
        yield f"host work: {changes.host_speed:g} times as fast"
    if changes.cuda_graphs:
        yield "launches: as CUDA graphs"
    if changes.launches != 1.0:
        yield f"host work that ends in a launch: {changes.launches:g} times as much"
    if changes.host_speed == 1.0 and not changes.cuda_graphs and changes.launches == 1.0:
        yield f"host work: {KEPT}"


def _slower(methods: Sequence[MethodShare], changes: Changes) -> Iterator[str]:
    whole = sum(method.before_s for method in methods) or 1.0
    for method in methods:
        if method.before_s / whole >= NOTABLE_SHARE and method.after_s > NOTABLE_CHANGE * method.before_s:
            times = f"{method.before_s * 1e3:.3g} -> {method.after_s * 1e3:.3g} ms"
            yield f"slower on {gpu_in_words(changes.gpu)}: {method.method}: {times} over all ranks and steps"


def _length_s(imported: Imported, analysis: TraceAnalysis | None) -> float | None:
    return None if imported.measured is None or analysis is None else analysis.iteration_time_s


def mean_step(rows: Sequence[StepRow]) -> dict[str, float]:
    """Means over ranks and steps."""
    return {part: float(np.mean([getattr(row, part) for row in rows])) for part in STEP_PARTS}


def _parts(before: Sequence[StepRow], after: Sequence[StepRow]) -> Iterator[Compared]:
    if not after:
        return
    measured, replayed = mean_step(before) if before else {}, mean_step(after)
    for part, now in replayed.items():
        yield Compared(part.removesuffix("_s"), measured.get(part), now)


def _collectives(before: Sequence[CollectiveRow], after: Sequence[CollectiveRow]) -> tuple[ComparedCollective, ...]:
    """Collectives of trace and replay, by operation, communicator and place among equal calls of a step."""
    measured, replayed = _by_place(before), _by_place(after)
    found = []
    for key, rows in replayed.items():
        op, communicator, place = key
        was = measured.get(key, [])
        duration, transfer = (
            Compared(part, _mean(was, f"{part}_s"), _mean(rows, f"{part}_s")) for part in ("duration", "transfer")
        )
        name = f"{op} {place + 1} of a step" + ("" if communicator in ("world", "0", "") else f" on {communicator}")
        size = float(np.mean([row.bytes for row in rows]))
        found.append(ComparedCollective(name, size, duration, transfer))
    return tuple(sorted(found, key=lambda row: -max(row.duration.measured_s or 0.0, row.duration.replayed_s or 0.0)))


def _by_place(rows: Sequence[CollectiveRow]) -> dict[tuple[str, str, int], list[CollectiveRow]]:
    seen: dict[tuple[str, str, str, str], int] = defaultdict(int)
    found: dict[tuple[str, str, int], list[CollectiveRow]] = {}
    for row in rows:
        of_step = (row.group, row.section, row.op, row.communicator)
        if row.section != "absent":
            found.setdefault((row.op, row.communicator, seen[of_step]), []).append(row)
        seen[of_step] += 1
    return found


def _mean(rows: Sequence[CollectiveRow], part: str) -> float | None:
    return float(np.mean([getattr(row, part).mean for row in rows])) if rows else None
