"""``python -m benchmarks yardstick --cluster SPEC``: how times of jobs follow the pieces of the trainer's yardstick.

A few random jobs are trained again and again, by turns on one rank, on one per core and on two per core. Within each
job, the logarithm of its time is fitted to that of how much slower the yardstick was: a power, which
`validation.yardstick` takes as 1.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from dlrmsim.hosts.training import SCHEDULE, drawn_jobs
from hardware_specs.loader import load_cluster
from simulator.operators import FloatArray
from trainer.bench_series import by_turns, started_by_turns
from trainer.pin import usable_cores
from validation.in_situ import TrainedRank
from validation.yardstick import slowness, usual_of_all

JOBS, VISITS = 5, 200
"""Of each number of ranks, and how often they are trained at most."""
FEWEST = 3
"""Visits of a job that counts."""
LINEAR_BEYOND = 0.05
"""Deviations up to this count by their square, larger ones by their size."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A job trained once: times, seconds, means over ranks."""

    job: Path
    ranks: int
    wall_s: float
    cpu_s: float
    yardstick_s: Mapping[str, float]


def rows(cluster: str, seed: int, minutes: float) -> Iterator[Row]:
    """Train, then fit."""
    visits = _visits(cluster, seed, 60.0 * minutes)
    alone, several = ([visit for visit in visits if (visit.ranks > 1) is many] for many in (False, True))
    yield Row("yardstick_visits", len(visits), "jobs trained")
    for name, found, seconds in (
        ("alone_wall", alone, _wall_s),
        ("together_cpu", several, _cpu_s),
        ("together_wall", several, _wall_s),
    ):
        pieces, times = within(found, seconds)
        if not len(times):
            continue
        power = fitted_power(pieces, times)
        yield Row(f"{name}_power", power, "")
        for when, left in (("raw", times), ("divided", times - pieces), ("refitted", times - power * pieces)):
            yield Row(f"{name}_{when}_deviation", 100.0 * float(np.median(np.abs(left))), "%")


def within(visits: Sequence[Visit], seconds: Callable[[Visit], float]) -> tuple[FloatArray, FloatArray]:
    """Logarithms of how much slower the yardstick was ``[V]`` and of times ``[V]``, against the usual of each job."""
    pieces, times = [np.zeros(0)], [np.zeros(0)]
    for job in dict.fromkeys(visit.job for visit in visits):
        of_job = [visit for visit in visits if visit.job == job]
        if len(of_job) < FEWEST:
            continue
        then_s = usual_of_all((visit.yardstick_s for visit in of_job), np.median)
        took = np.log([seconds(visit) for visit in of_job])
        pieces.append(np.log([slowness(visit.yardstick_s, then_s) for visit in of_job]))
        times.append(took - np.median(took))
    return np.concatenate(pieces), np.concatenate(times)


def fitted_power(pieces: FloatArray, times: FloatArray) -> float:
    """The power that explains the times best; large deviations count by their size, not its square."""
    power, weights = 0.0, np.ones(len(times))
    for _ in range(30):
        power = float(np.sum(weights * pieces * times) / np.sum(weights * pieces**2))
        weights = np.minimum(1.0, LINEAR_BEYOND / np.maximum(np.abs(times - power * pieces), 1e-9))
    return power


def _visits(cluster: str, seed: int, seconds: float) -> list[Visit]:
    machine, cores = load_cluster(cluster), len(usable_cores())
    with tempfile.TemporaryDirectory(prefix="dlrmsim-yardstick-") as name:
        folders = {
            ranks: list(drawn_jobs(ranks, seed, JOBS + 1, machine, Path(name) / f"ranks_{ranks}"))[1:] * VISITS
            for ranks in sorted({1, cores, 2 * cores})
        }
        with started_by_turns(dict.fromkeys(folders, SCHEDULE), folders, Path(name)) as series:
            end = time.perf_counter() + seconds
            return [_visit(folder, ranks) for ranks, folder in by_turns(series, lambda: time.perf_counter() > end)]


def _visit(folder: Path, ranks: int) -> Visit:
    trained = [TrainedRank.read(folder, rank, SCHEDULE.counted) for rank in range(ranks)]
    pieces = usual_of_all(rank.yardstick_s for rank in trained)
    wall_s, cpu_s = (float(np.mean([seconds(rank) for rank in trained])) for seconds in (_wall_s, _cpu_s))
    return Visit(folder, ranks, wall_s, cpu_s, pieces)


def _wall_s(of: Visit | TrainedRank) -> float:
    return of.wall_s


def _cpu_s(of: Visit | TrainedRank) -> float:
    return of.cpu_s
