"""Measuring a scenario on this machine with the reference trainer.

The scenario is resolved for the ranks asked for and its plan written out; the ranks read that very file, and what is
written beside the measurement is what can be predicted: ``dlrmsim run DIR/scenario.resolved.yaml``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.hosts.machine import MAX_RANKS_PER_CORE, device_for, require_torch
from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.measurement import Measurement, load_average, read_measurement, write_measurement
from dlrmsim.verbs.what import Job, Name, scenario_of
from inputs.errors import InfeasibleError, InputError
from scenarios.dlrm.written import with_plan
from scenarios.host_memory import free_memory_bytes
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from trainer.process.pin import usable_cores
from trainer.process.runs import PREPARED_BATCHES, Run

WARM_UP = 10
"""Iterations before those that count: buffers are made and connections opened in the first, caches fill in the next."""

YARDSTICK_EVERY, LEAST_EVERY, LOOKS = 6, 3, 10
"""Most and fewest iterations between two looks at the yardstick, and looks of a measurement where these allow as
many."""

TIMED = 8
"""Iterations after the measured ones of which each operator is timed."""

PROFILED = 3
"""Iterations that are traced in full after these: that slows them down, so they are not counted."""

RANK_BYTES = 0.4e9
"""Memory of a rank beside its tables, bytes: PyTorch, buffers (resident size of a rank of criteo_small)."""

RESOLVED = "scenario.resolved.yaml"


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """A measurement whose files are written.

    Attributes:
        folder: its output folder.
        summary: the content of ``measured.json``.
    """

    folder: Path
    summary: Mapping[str, object]


def measure(
    what: Job,
    *,
    settings: Sequence[str] = (),
    ranks: int | None = None,
    iterations: int = 50,
    data: Name | None = None,
    device: str | None = None,
    timed: int = TIMED,
    profiled: int = PROFILED,
    batches: int = PREPARED_BATCHES,
    repeated_weights: bool = False,
    warm_up: int = WARM_UP,
    out: Name | None = None,
    progress: Progress | None = None,
) -> MeasureResult:
    """Train a scenario on this machine and write down how long its iterations take.

    Args:
        settings: ``KEY=VALUE`` each.
        ranks: processes on this machine; None: the ranks of the scenario.
        iterations: iterations that are timed.
        data: a file in Criteo's format instead of synthetic clicks.
        device: ``cpu`` or ``cuda``; None: ``cuda`` where every rank has a GPU.
        timed: iterations of which each operator is timed.
        profiled: iterations that are traced in full.
        batches: number of batches made beforehand at least, and taken in turn.
        repeated_weights: whether tables repeat a few random weights.
        warm_up: iterations before those that are timed.
        out: output folder; default ``runs/NAME-HASH8-measured``.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: the scenario, the data or the output folder is wrong, or there are not enough GPUs.
        InfeasibleError: the tables do not fit into this machine.
        RankFailedError: a rank died.
    """
    progress, clicks = progress or Silent(), Path(data) if data is not None else None
    require_torch()
    if clicks is not None and not clicks.is_file():
        raise InputError("no such file", file="--data", given=clicks, expected="clicks in Criteo's format")
    resolved = scenario_of(what, [*settings, *([] if ranks is None else [f"world_size={ranks}"])])
    _check_ranks(resolved.world_size)
    resolved = with_plan(resolved, progress)
    used = device_for(device, resolved.world_size)
    folder = replaceable(RUNS_FOLDER / f"{resolved.name}-{resolved.hash[:8]}-measured" if out is None else out)
    with folder_written_whole(folder) as partial:
        (partial / RESOLVED).write_text(resolved.to_yaml(), encoding="utf-8")
        _check_memory(partial / RESOLVED, used)
        run = Run(
            scenario=partial / RESOLVED,
            out=partial / "ranks",
            iterations=iterations,
            warm_up=warm_up,
            timed=timed,
            yardstick_every=_looks_every(iterations, used),
            profiled=profiled,
            prepared=batches,
            repeated_weights=repeated_weights,
            data=clicks.absolute() if clicks else None,
            device=used,
        )
        progress.stage(f"training on {resolved.world_size} ranks")
        measurement = _run(run, resolved)
        summary = write_measurement(partial, resolved, run, measurement)
    return MeasureResult(folder, summary)


def _looks_every(iterations: int, device: str) -> int:
    """Iterations between two looks; 0: none while GPUs train, which a step on a CPU says nothing of."""
    return max(LEAST_EVERY, min(YARDSTICK_EVERY, iterations // LOOKS)) if device == "cpu" else 0


def _run(run: Run, resolved: ResolvedScenario) -> Measurement:
    """Run the ranks and take their records; their folder goes, their traces stay."""
    from trainer.process.launch import run_ranks

    ranks = run.scenario.parent / "ranks"
    ranks.mkdir()
    load = load_average()
    run_ranks(run, resolved.world_size)
    measurement = read_measurement(ranks, resolved.world_size, load)
    for traces in ("timed", "kineto", "et"):
        if (ranks / traces).is_dir():
            (ranks / traces).rename(ranks.parent / traces)
    shutil.rmtree(ranks)
    return measurement


def _check_ranks(ranks: int) -> None:
    """Refuse runs that would measure only how processes take turns."""
    most = MAX_RANKS_PER_CORE * len(usable_cores())
    if ranks > most:
        raise InputError("too many ranks for this machine", file="--ranks", given=ranks, expected=f"at most {most}")


def _check_memory(file: Path, device: str) -> None:
    from trainer.job import read_job, weight_bytes

    job = read_job(file).job
    needed, free = weight_bytes(job) + RANK_BYTES * job.settings.world_size, free_memory_bytes()
    if device == "cpu" and needed > free:
        raise InfeasibleError(
            f"the tables do not fit into this machine: the ranks hold {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are "
            "free; smaller tables or fewer ranks do"
        )
