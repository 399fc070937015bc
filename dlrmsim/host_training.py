"""Training small jobs drawn at random, for `dlrmsim.host`: what kernels take within an iteration."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from dlrmsim.measuring import with_plan
from hardware_specs.types import Cluster
from inputs.errors import InfeasibleError
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from simulator.lowering import lower
from trainer.bench_series import SCENARIO, write_series
from trainer.pin import usable_cores
from trainer.runs import Run
from validation.host_fit import Trained, TrainedJob
from validation.in_situ import CollectiveWork, PartRow, TrainedRank, parts
from validation.random_jobs import Limits, random_job
from validation.yardstick import slowness

TINY = Path(str(files("trainer") / "samples" / "host_overhead.yaml"))
"""Scenario whose iterations are nearly all overhead of the framework."""
LIMITS = Limits(table_bytes=4e8, gathered_bytes=1e9, flops=6e9)
"""Of jobs: so many that each takes about two seconds, weights and batches included."""
CALIBRATION = 0xCA1
"""Apart from the draws of the studies, whatever their seed."""
JOBS_PER_S = 1.0
"""Drawn for each second of time; more than can be trained."""
SCHEDULE = Run(Path(), warm_up=4, iterations=9, timed=4, prepared=4, yardstick_every=3)


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """How many ranks, from which seed, for how many seconds."""

    ranks: int
    seed: int
    seconds: float


def train_jobs(request: TrainRequest, machine: Cluster, issue_s: float, progress: Progress) -> Trained:
    """Train jobs for as long as there is time.

    Args:
        request: what to train.
        machine: with kernels and collectives as they are alone: planners go by them.
        issue_s: what it takes to issue a collective.
        progress: told what is being done.
    """
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        jobs = _jobs(request, machine, Path(name))
        trained = _train(request, jobs, Path(name), progress)
        usual_s = _usual([rank for of_job in trained.values() for rank in of_job])
        found: list[PartRow] = []
        collectives: list[CollectiveWork] = []
        known_jobs: list[TrainedJob] = []
        for folder, of_job in trained.items():
            prepared = prepare(jobs[folder], Silent())
            slower = [slowness(known.yardstick_s, usual_s) for known in of_job]
            for rank, known in enumerate(of_job):
                found += parts(prepared, folder, rank, known, slower[rank], issue_s)
            evened = list(zip(of_job, slower, strict=True))
            iteration_s = float(np.mean([known.wall_s / by for known, by in evened]))
            thread_s = float(np.mean([known.cpu_s / by for known, by in evened]))
            known_jobs.append(TrainedJob(jobs[folder], iteration_s, thread_s))
            if request.ranks > 1:
                others_s = [known.others_s / by for known, by in evened]
                collectives.append(_collectives(prepared, float(np.mean(others_s))))
    return Trained(found, collectives, usual_s, known_jobs)


def _collectives(prepared: Prepared, cores_s: float) -> CollectiveWork:
    phases = [phase for each in lower(prepared.graph, prepared.machine).collectives for phase in each.phases]
    return CollectiveWork(sum(latency for latency, _ in phases), sum(moving for _, moving in phases), cores_s)


def _jobs(request: TrainRequest, machine: Cluster, root: Path) -> dict[Path, ResolvedScenario]:
    """A folder for each job with its scenario; the first is the one that is nearly all overhead."""
    random = np.random.default_rng([request.seed, request.ranks, CALIBRATION])
    made = [with_plan(replace(load_scenario(TINY, [f"world_size={request.ranks}"]), cluster=machine), Silent())]
    while len(made) < max(2.0, JOBS_PER_S * request.seconds):
        given = random_job(random, f"job_{len(made)}", "dgx_a100_40", request.ranks)
        if not LIMITS.allow(given):
            continue
        file = root / "job.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        try:
            made.append(with_plan(replace(load_scenario(file), cluster=machine), Silent()))
        except InfeasibleError:
            continue
    folders = {root / f"job_{number}": job for number, job in enumerate(made)}
    for folder, job in folders.items():
        folder.mkdir()
        (folder / SCENARIO).write_text(job.to_yaml(), encoding="utf-8")
    return folders


def _train(
    request: TrainRequest, jobs: Mapping[Path, ResolvedScenario], root: Path, progress: Progress
) -> dict[Path, list[TrainedRank]]:
    """What each rank recorded of each job that there was time for."""
    from trainer.launch import run_ranks

    progress.stage(f"training jobs drawn at random on {request.ranks} ranks")
    write_series(root / "series.json", list(jobs), request.seconds)
    run_ranks(
        replace(SCHEDULE, scenario=root / "series.json", out=root), request.ranks, usable_cores(), "trainer.series"
    )
    done = [folder for folder in jobs if all((folder / f"rank{rank}.json").is_file() for rank in range(request.ranks))]
    return {
        folder: [TrainedRank.read(folder, rank, SCHEDULE.warm_up, SCHEDULE.iterations) for rank in range(request.ranks)]
        for folder in done
    }


def _usual(ranks: Sequence[TrainedRank]) -> dict[str, float]:
    """The middle time of each piece over all jobs and ranks."""
    return {name: float(np.median([rank.yardstick_s[name] for rank in ranks])) for name in ranks[0].yardstick_s}
