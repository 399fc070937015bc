"""Training small jobs drawn at random, for `dlrmsim.hosts.cpus`: what kernels take within an iteration."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from hardware_specs.types import Cluster
from inputs.errors import InfeasibleError
from scenarios.host_memory import physical_memory_bytes
from scenarios.prepare import with_plan
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from trainer.bench_series import SCENARIO, by_turns, started_by_turns
from trainer.runs import Run
from validation.host_record import COLUMNS, JobRecord
from validation.in_situ import TrainedRank
from validation.random_jobs import DIMS, Limits, random_job
from validation.timed import read_timed

TINY = Path(str(files("trainer") / "samples" / "host_overhead.yaml"))
"""Scenario whose iterations are nearly all overhead of the framework."""
LIMITS = Limits(table_bytes=4e8, gathered_bytes=5e8, flops=4e9)
"""Of jobs: so many that each takes a few seconds, weights and batches included."""
LARGER = 5.0
"""By how much larger jobs are beyond the limits of others, at most."""
EVERY = 3
"""Which job is a larger one, where there is time for it: costs are not as far from those of large jobs then."""
LONGER = 25.0
"""By how much the longest jobs are beyond the limits of others in what they gather and multiply, at most."""
LONG_EVERY = 8
"""Which of the larger jobs is one of the longest: they tell how far ranks come apart in iterations of a second."""
MEMORY_SHARE = 0.02
"""Of the machine's memory, that tables of a job take at most, larger ones `LARGER` times as much: they may have two
states, and three groups of ranks keep what they had."""
SIMULATED = "run.iterations=5"
"""Enough for jobs whose iterations are all alike, once the pipeline is filled."""
CALIBRATION = 0xCA1
"""Apart from the draws of the studies, whatever their seed."""
JOBS_PER_S = 0.8
"""Drawn for each second of time; more than can be trained."""
SCHEDULE = Run(Path(), warm_up=3, iterations=8, timed=4, prepared=3, yardstick_every=4, repeated_weights=True)
"""Of one rank: three looks, two blocks of iterations between them."""
SEVERAL = replace(SCHEDULE, iterations=12, yardstick_every=3, settling=1)
"""Of several: four blocks, two on each of two cores, and an iteration before and after each that settles."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Numbers of ranks that train by turns, from which seed, for how many seconds, their start included.

    With ``larger`` every third job is larger than others (`drawn_jobs`).
    """

    ranks: Sequence[int]
    seed: int
    seconds: float
    larger: bool = False


def train_jobs(request: TrainRequest, machine: Cluster, progress: Progress) -> list[JobRecord]:
    """Train jobs by turns for as long as there is time: how fast the machine is drifts for all of them alike.

    Args:
        request: what to train.
        machine: with kernels and collectives as they are alone: planners go by them.
        progress: told what is being done.

    Raises:
        RankFailedError: a rank died.
    """
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        count = round(max(2.0, JOBS_PER_S * request.seconds / len(request.ranks)))
        jobs = {
            ranks: drawn_jobs(ranks, request.seed, count, machine, Path(name) / f"ranks_{ranks}", larger=request.larger)
            for ranks in request.ranks
        }
        done = _train(request, {ranks: list(of_ranks) for ranks, of_ranks in jobs.items()}, Path(name), progress)
        return [_record(jobs[ranks][folder], folder, ranks) for ranks, folders in done.items() for folder in folders]


def _record(job: ResolvedScenario, folder: Path, ranks: int) -> JobRecord:
    schedule = _schedule(ranks)
    trained = [TrainedRank.read(folder, rank, schedule.counted) for rank in range(ranks)]
    each = [
        json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8"))["iterations"] for rank in range(ranks)
    ]
    of_ranks = {name: np.array([columns[name] for columns in each]).T for name in each[0]}
    traced = [number for number in range(schedule.total) if schedule.stage(number) == "timed"]
    faults = of_ranks["page_faults"][traced].max(axis=1)
    timed = [read_timed(folder / "timed" / f"rank{rank}.json.gz", faults) for rank in range(ranks)]
    counted = {name: values[schedule.counted] for name, values in of_ranks.items()}
    found = (counted["end_s"] - counted["start_s"], *(counted[name] for name in COLUMNS[1:]))
    scenario = {**job.to_dict(), "cluster": None}
    return JobRecord.of(scenario, trained, timed, dict(zip(COLUMNS, found, strict=True)))


def _schedule(ranks: int) -> Run:
    """How so many ranks train a job."""
    return SCHEDULE if ranks == 1 else SEVERAL


def drawn_jobs(
    ranks: int, seed: int, count: int, machine: Cluster, root: Path, *, larger: bool = False
) -> dict[Path, ResolvedScenario]:
    """A folder for each of ``count`` jobs with its scenario; the first is the one that is nearly all overhead.

    Dims take turns: were they drawn, limits would leave few wide rows, which memory serves at another rate.

    Args:
        ranks: that train them.
        seed: of the draws.
        count: how many.
        machine: that they are planned for.
        root: folder for theirs, made here.
        larger: whether every third is larger, up to `LARGER` times: by turns its tables take more than the limits, and
            it gathers or multiplies more; every eighth of these does so beyond that, up to `LONGER` times.
    """
    random = np.random.default_rng([seed, ranks, CALIBRATION])
    made = [with_plan(replace(load_scenario(TINY, [f"world_size={ranks}", SIMULATED]), cluster=machine), Silent())]
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


def _train(
    request: TrainRequest, folders: Mapping[int, Sequence[Path]], root: Path, progress: Progress
) -> dict[int, list[Path]]:
    """Folders of the jobs that there was time for, by ranks."""
    told, end = ", ".join(map(str, request.ranks)), time.perf_counter() + request.seconds
    progress.stage(f"training jobs drawn at random by turns on {told} ranks")
    done: dict[int, list[Path]] = {ranks: [] for ranks in folders}
    with started_by_turns({ranks: _schedule(ranks) for ranks in folders}, folders, root) as series:
        for ranks, folder in by_turns(series, lambda: time.perf_counter() > end):
            done[ranks].append(folder)
    return done
