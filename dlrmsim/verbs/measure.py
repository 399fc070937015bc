"""Measuring a scenario on this machine with the reference trainer.

The scenario is resolved for the ranks asked for and its plan written out; the ranks read that very file, and what is
written beside the measurement is what can be predicted: ``dlrmsim run DIR/scenario.resolved.yaml``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlrmsim.output.folders import folder_written_whole, require_replaceable
from dlrmsim.output.measurement import Measurement, load_average, read_measurement, write_measurement
from dlrmsim.verbs.run import RUNS_FOLDER
from inputs.errors import InfeasibleError, InputError, MissingExtraError
from scenarios.host_memory import free_memory_bytes
from scenarios.prepare import prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from trainer.pin import usable_cores
from trainer.runs import PREPARED_BATCHES, Run
from workloads.dlrm.sharding.plan_exchange import plan_to_dict
from workloads.dlrm.sharding.plan_file import read_plan

WARM_UP = 10
"""Iterations before those that count: buffers are made and connections opened in the first, caches fill in the next."""

YARDSTICK_EVERY, LEAST_EVERY, LOOKS = 6, 3, 10
"""The most and, of several ranks, the fewest iterations between two looks at how fast the machine is just now, as many
between as give so many looks: two of them differ by a tenth."""

TIMED = 8
"""Iterations after the measured ones of which each operator is timed."""

PROFILED = 3
"""Iterations that are traced in full after these: that slows them down, so they are not counted."""

GPU_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""What the drivers of NVIDIA (on Linux, in WSL) and AMD make: without any, PyTorch is not loaded to ask for GPUs."""

MAX_RANKS_PER_CORE = 8

RANK_BYTES = 0.4e9
"""What a rank takes beside its tables, bytes: PyTorch, buffers (resident size of a rank of criteo_small)."""

RESOLVED = "scenario.resolved.yaml"


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """What to measure.

    Attributes:
        ranks: processes on this machine; None: as many as the scenario has.
        iterations: iterations that are timed.
        out: output folder; default ``runs/NAME-HASH8-measured``.
        data: a file in Criteo's format instead of synthetic clicks.
        device: ``cpu`` or ``cuda``; None: ``cuda`` where every rank has a GPU.
        timed: iterations of which each operator is timed.
        profiled: iterations that are traced in full.
        batches: made beforehand at least, and taken in turn.
        repeated_weights: few first weights of tables are drawn, and repeated.
        warm_up: iterations before those that are timed.
    """

    ranks: int | None = None
    iterations: int = 50
    out: Path | None = None
    data: Path | None = None
    device: str | None = None
    timed: int = TIMED
    profiled: int = PROFILED
    batches: int = PREPARED_BATCHES
    repeated_weights: bool = False
    warm_up: int = WARM_UP


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement whose files are written."""

    folder: Path
    summary: dict[str, Any]


def measure(
    scenario: str | Path,
    settings: Sequence[str] = (),
    request: MeasureRequest | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Train a scenario on this machine and write down how long its iterations take.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: the scenario, the data or the output folder is wrong, or there are not enough GPUs.
        InfeasibleError: the tables do not fit into this machine.
        RankFailedError: a rank died.
    """
    request, progress = request or MeasureRequest(), progress or Silent()
    require_torch()
    if request.data is not None and not request.data.is_file():
        raise InputError("no such file", file="--data", given=request.data, expected="clicks in Criteo's format")
    resolved = _resolve(scenario, settings, request)
    _check_ranks(resolved.world_size)
    resolved = with_plan(resolved, progress)
    device = device_for(request.device, resolved.world_size)
    folder = request.out or RUNS_FOLDER / f"{resolved.name}-{resolved.hash[:8]}-measured"
    require_replaceable(folder)
    with folder_written_whole(folder) as partial:
        (partial / RESOLVED).write_text(resolved.to_yaml(), encoding="utf-8")
        _check_memory(partial / RESOLVED, device)
        several = resolved.world_size > 1
        looks = _looks_every(request.iterations, device, several=several)
        run = Run(
            scenario=partial / RESOLVED,
            out=partial / "ranks",
            iterations=request.iterations,
            warm_up=request.warm_up,
            timed=request.timed,
            yardstick_every=looks,
            settling=1 if several and looks else 0,  # one rank waits for nobody at a look
            profiled=request.profiled,
            prepared=request.batches,
            repeated_weights=request.repeated_weights,
            data=request.data.absolute() if request.data else None,
            device=device,
        )
        progress.stage(f"training on {resolved.world_size} ranks")
        measurement = _run(run, resolved)
        summary = write_measurement(partial, resolved, run, measurement)
    return Measured(folder, summary)


def _looks_every(iterations: int, device: str, *, several: bool) -> int:
    """Iterations between two looks; 0: none on a GPU, of which what CPUs do says nothing, and which would run dry."""
    if device != "cpu":
        return 0
    return max(LEAST_EVERY if several else 1, min(YARDSTICK_EVERY, iterations // LOOKS))


def _run(run: Run, resolved: ResolvedScenario) -> Measurement:
    """Run the ranks and take what they recorded; their folder goes, their traces stay."""
    from trainer.launch import run_ranks

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


def _resolve(scenario: str | Path, settings: Sequence[str], request: MeasureRequest) -> ResolvedScenario:
    size = [] if request.ranks is None else [f"world_size={request.ranks}"]
    return load_scenario(scenario, [*settings, *size])


def with_plan(resolved: ResolvedScenario, progress: Progress) -> ResolvedScenario:
    """The scenario with the plan that the simulator would use written out."""
    plan = read_plan(plan_to_dict(prepare(resolved, progress).plan)).model_dump(mode="json")
    sharding = resolved.scenario.workload.sharding.model_copy(update={"planner": None, "plan": plan})
    workload = resolved.scenario.workload.model_copy(update={"sharding": sharding})
    return replace(resolved, scenario=resolved.scenario.model_copy(update={"workload": workload}))


def require_torch() -> None:
    """Refuse to go on without PyTorch."""
    if find_spec("torch") is None:
        raise MissingExtraError("measuring needs PyTorch: pip install 'dlrmsim[trainer]'")


def _check_ranks(ranks: int) -> None:
    """Refuse what would measure nothing but how processes take turns."""
    most = MAX_RANKS_PER_CORE * len(usable_cores())
    if ranks > most:
        raise InputError("too many ranks for this machine", file="--ranks", given=ranks, expected=f"at most {most}")


def device_for(asked: str | None, ranks: int) -> str:
    """The device to train on: ``cpu`` or ``cuda``.

    Args:
        asked: for; None: ``cuda`` where every rank has a GPU.
        ranks: how many.

    Raises:
        InputError: there are fewer GPUs than ranks.
    """
    if asked == "cpu" or (asked is None and not any(driver.exists() for driver in GPU_DRIVERS)):
        return "cpu"
    from trainer.gpus import gpu_count

    gpus = gpu_count()
    if asked == "cuda" and gpus < ranks:
        raise InputError("not enough GPUs", file="--device", given=f"{gpus} for {ranks} ranks", expected=f"{ranks}")
    return "cuda" if gpus >= ranks else "cpu"


def _check_memory(file: Path, device: str) -> None:
    from trainer.job import read_job, weight_bytes

    job = read_job(file).job
    needed, free = weight_bytes(job) + RANK_BYTES * job.settings.world_size, free_memory_bytes()
    if device == "cpu" and needed > free:
        raise InfeasibleError(
            f"the tables do not fit into this machine: the ranks hold {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are "
            "free; smaller tables or fewer ranks do"
        )
