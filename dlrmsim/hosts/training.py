"""Training of small random jobs for ``calibrate host``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dlrmsim.hosts.turns import Training, trained_by_turns
from dlrmsim.output.kept import Kept
from hardware_specs.types import Cluster
from inputs.errors import InfeasibleError
from scenarios.dlrm.written import with_plan
from scenarios.host_memory import physical_memory_bytes
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from trainer.bench.series import SCENARIO
from trainer.process.runs import Run
from validation.host.iteration_parts import TrainedRank
from validation.host.operator_times import read_timed
from validation.host.random_jobs import DIMS, Limits, random_job
from validation.host.record import JobRecord
from validation.host.usual_times import part_of_iteration

TINY = Path(str(files("trainer") / "samples" / "host_overhead.yaml"))
"""Scenario whose iterations are almost only host time of the framework."""
LIMITS = Limits(table_bytes=4e8, gathered_bytes=5e8, flops=4e9)
"""Sizes of jobs: each trains within a few seconds, initial weights and batches included."""
LARGER = 5.0
"""Largest factor by which larger jobs exceed `LIMITS`."""
EVERY = 3
"""Period of larger jobs among all jobs, if there is time for them."""
LONGER = 25.0
"""Largest factor by which the longest jobs exceed the gathered bytes and FLOPs of `LIMITS`."""
LONG_EVERY = 8
"""Period of the longest jobs among the larger ones."""
MEMORY_SHARE = 0.02
"""Largest fraction of the memory for the tables of a job; `LARGER` times as much for larger jobs."""
SIMULATED = "run.iterations=5"
"""Enough simulated iterations for a job whose iterations are alike once the pipeline is full."""
CALIBRATION = 0xCA1
"""Constant in the seeds of calibration jobs, which keeps them apart from other draws."""
JOBS_PER_S = 0.8
"""Drawn jobs per second of training time; more than there is time for."""
SCHEDULE = Run(Path(), warm_up=3, iterations=12, timed=4, prepared=3, yardstick_every=3, repeated_weights=True)
"""Schedule of a job: the yardstick runs before each block of three iterations and after the last."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Jobs to train.

    Attributes:
        ranks: numbers of ranks; each group of ranks trains in turn.
        seed: seed of the draws.
        seconds: training time, process start included.
        larger: whether every `EVERY`-th job is larger than `LIMITS`.
        question: text that stands for the machine and the calibration.
    """

    ranks: Sequence[int]
    seed: int
    seconds: float
    larger: bool = False
    question: str = ""


def train_jobs(request: TrainRequest, machine: Cluster, progress: Progress, kept: Kept) -> list[JobRecord]:
    """Train jobs of all numbers of ranks in turn while there is time, so that a drift of the machine affects all alike.

    Args:
        request: the jobs.
        machine: the host with kernels and collectives as they are alone, for the planners.
        progress: receives the stage.
        kept: keeps the jobs that are trained.

    Raises:
        RankFailedError: a rank died.
    """
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        count = round(max(2.0, JOBS_PER_S * request.seconds / len(request.ranks)))
        jobs = {
            ranks: drawn_jobs(ranks, request.seed, count, machine, Path(name) / f"ranks_{ranks}", larger=request.larger)
            for ranks in request.ranks
        }
        progress.stage(f"training random jobs on {', '.join(map(str, request.ranks))} ranks in turn")
        folders = {ranks: list(of_ranks) for ranks, of_ranks in jobs.items()}
        training = Training(SCHEDULE, folders, Path(name), request.seconds, 0, request.question)
        done = trained_by_turns(training, kept, lambda ranks, at: _record(jobs[ranks][at], at, ranks).to_dict())
        order = [(ranks, at) for ranks, of_ranks in folders.items() for at in of_ranks]
        return [JobRecord.from_dict(done[job]) for job in order if job in done]


def _record(job: ResolvedScenario, folder: Path, ranks: int) -> JobRecord:
    found = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    traced = [number for number in range(SCHEDULE.total) if SCHEDULE.stage(number) == "timed"]
    faults = np.array([[rank["iterations"]["page_faults"][number] for number in traced] for rank in found]).max(axis=0)
    timed = [read_timed(folder / "timed" / f"rank{rank}.json.gz", faults) for rank in range(ranks)]
    return JobRecord({**job.to_dict(), "cluster": None}, [_trained(rank) for rank in found], timed)


def _trained(found: Mapping[str, Any]) -> TrainedRank:
    """Medians of the content of a rank's record."""
    columns = {name: np.array(values)[SCHEDULE.counted] for name, values in found["iterations"].items()}
    wall_s = columns["end_s"] - columns["start_s"]
    return TrainedRank(
        cpu_s=float(np.median(columns["cpu_s"])),
        others_s=float(np.median(columns["process_s"] - columns["cpu_s"])),
        wall_s=float(np.median(wall_s)),
        collectives_s=part_of_iteration(columns["collectives_s"], wall_s),
        collectives_cpu_s=float(np.median(columns["collectives_cpu_s"])),
        yardstick_s=float(np.median(found["yardstick_s"])),
        stolen=max(found["environment"][f"stolen_{phase}"] for phase in ("measured", "timed")),
    )


def drawn_jobs(
    ranks: int, seed: int, count: int, machine: Cluster, root: Path, *, larger: bool = False
) -> dict[Path, ResolvedScenario]:
    """A folder with a scenario for each of ``count`` jobs; the first job is `TINY`.

    Dims rotate: if they were drawn, the limits would leave few wide rows, which memory serves at another rate.

    Args:
        ranks: ranks of each job.
        seed: seed of the draws.
        count: number of jobs.
        machine: the host that the jobs are planned for.
        root: parent folder, created here.
        larger: whether every `EVERY`-th job exceeds `LIMITS`, in its tables and in its work alternately, and every
            `LONG_EVERY`-th of these exceeds them by up to `LONGER`.
    """
    random = np.random.default_rng([seed, ranks, CALIBRATION])
    made: list[ResolvedScenario] = []
    made.append(with_plan(replace(load_scenario(TINY, [f"world_size={ranks}", SIMULATED]), cluster=machine), Silent()))
    root.mkdir()
    usual = replace(LIMITS, table_bytes=min(LIMITS.table_bytes, MEMORY_SHARE * physical_memory_bytes()))
    beyond = Limits(*(LARGER * limit for limit in astuple(usual)))
    longest = Limits(beyond.table_bytes, LONGER * usual.gathered_bytes, LONGER * usual.flops)
    by_turns_within = Limits(usual.table_bytes), replace(usual, table_bytes=beyond.table_bytes)
    dims = [int(dim) for _ in range(-(-count // len(DIMS))) for dim in random.permutation(DIMS)]
    while len(made) < count:
        given = random_job(random, f"job_{len(made)}", "dgx_a100_40", ranks, dims[len(made) - 1])
        turn, left = divmod(len(made), EVERY)
        fits = usual.allow(given)
        if larger and not left and not turn % LONG_EVERY:
            fits = longest.allow(given) and not beyond.allow(given)
        elif larger and not left:
            fits = beyond.allow(given) and not by_turns_within[turn % 2].allow(given)
        if not fits:
            continue
        file = root / "job.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        try:
            made.append(with_plan(replace(load_scenario(file, [SIMULATED]), cluster=machine), Silent()))
        except InfeasibleError:
            continue
    folders = {root / f"job_{number}": job for number, job in enumerate(made)}
    for folder, job in folders.items():
        folder.mkdir()
        (folder / SCENARIO).write_text(job.to_yaml(), encoding="utf-8")
    return folders
