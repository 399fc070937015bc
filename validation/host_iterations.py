"""What is fitted to whole iterations of trained jobs, once kernels and collectives are known: levels.

Costs of classes of kernels, and of all of them, are scaled such that jobs are predicted right in the middle. What ranks
wait comes after that (`validation.host_waits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware_specs.cpu_kernels import CpuKernels, KernelClass, KernelCosts
from hardware_specs.types import Cluster
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario
from simulator.compute.cpu_amounts import caches_of
from simulator.operators import FloatArray
from validation.in_situ import PartRow
from validation.measured import Times
from validation.measured_prediction import class_told, predict_prepared, predict_thread_s, with_kernels_of
from validation.together import LookedUp
from validation.yardstick import weighted_median


@dataclass(frozen=True, slots=True)
class TrainedJob:
    """A job that was trained.

    Attributes:
        resolved: its scenario.
        iteration_s: time per iteration.
        thread_s: what a rank's own thread worked in one, the mean over ranks.
        parts: of an iteration, of all ranks (`validation.in_situ`).
        others_s: what its other threads worked, those of collectives, likewise.
        collectives_s: in which own threads issued collectives and waited for them, the mean over ranks; None in records
            from before it was told.
        rest_share: of what they did beside that, the part that was no lookup, update or GEMM; likewise.
        apart_s: how far the work of a rank was from the mean of all in an iteration, where all had the same to do;
            None where they had not, or in records from before it was told.
        looked_up: what its lookups took, where they tell of those of other ranks.
        slower: by how much slower than usual the machine was meanwhile, by the yardstick; its times are without that.
        lookups_slower: the same of lookups.
    """

    resolved: ResolvedScenario
    iteration_s: float
    thread_s: float
    parts: Sequence[PartRow] = ()
    others_s: float = 0.0
    collectives_s: float | None = None
    rest_share: float | None = None
    apart_s: float | None = None
    looked_up: LookedUp | None = None
    slower: float = 1.0
    lookups_slower: float = 1.0

    @property
    def ranks(self) -> int:
        """Ranks that trained it."""
        return self.resolved.world_size


def with_kernels(cluster: Cluster, kernels: Sequence[CpuKernels]) -> Cluster:
    """The cluster with other costs of kernels."""
    cpu = cluster.node.cpu.model_copy(update={"kernels": tuple(kernels)})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"cpu": cpu})})


def with_classes(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with the costs of each class of kernels of so many threads scaled to what it takes in the jobs.

    Of a fit to parts, each part is right in the middle, not the sum of a class's parts, of which a few are long. The
    middle is that of jobs, each with the weight that the class has in it.
    """
    known = next(kernels for kernels in cluster.node.cpu.kernels if kernels.threads == threads)
    by: dict[KernelClass, float] = {}
    for name in dict.fromkeys(map(class_told, known.costs)):
        taken = np.array([_of_class(job.parts, name, known) for job in jobs]).reshape(-1, 3)
        expected, seconds, shares = taken[np.all(taken > 0.0, axis=1)].T
        if len(shares):
            level = 1.0 / weighted_median(expected / seconds, shares)
            by |= {kind: level for kind in known.costs if class_told(kind) == name}
    if not by:
        return cluster
    why = "classes times " + ", ".join(f"{kind} {level:.3f}" for kind, level in by.items())
    scaled = _scaled(known, by, why)
    return with_kernels(cluster, [scaled if each is known else each for each in cluster.node.cpu.kernels])


def _of_class(parts: Sequence[PartRow], name: str, kernels: CpuKernels) -> tuple[float, float, float]:
    """Seconds expected and measured of the parts that are mostly of a class, and their share of what all took."""
    expected = seconds = 0.0
    for part in parts:
        took: dict[str, float] = {}
        for (kind, amount), count in part.counts(caches_of(kernels)).items():
            if kind in kernels.costs:
                of_class = class_told(kind)
                each_s = kernels.costs[kind].seconds_per.get(amount, 0.0)
                took[of_class] = took.get(of_class, 0.0) + count * each_s
        if took and max(took, key=lambda of_class: took[of_class]) == name:
            expected += sum(took.values())
            seconds += part.seconds
    return expected, seconds, seconds / max(sum(part.seconds for part in parts), 1e-12)


def with_level(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with the costs of kernels of so many threads scaled to the jobs.

    The fit to parts of iterations (`validation.in_situ`) goes through the middle of each; where a few take much longer,
    the sum is more than the sum of middles. Ranks of one thread are scaled to what that worked, others to iterations.
    """
    if not jobs:
        return cluster
    own = threads == 1
    ratios = thread_ratios(cluster, jobs) if own else JobsOn.of(cluster, jobs).ratios(cluster, _iteration_ratio)
    level = 1.0 / float(np.median(ratios))
    kernels = cluster.node.cpu.kernels
    return with_kernels(
        cluster,
        [
            _scaled(known, dict.fromkeys(known.costs, level), f"times {level:.3f} for whole iterations")
            if known.threads == threads
            else known
            for known in kernels
        ],
    )


@dataclass(frozen=True, slots=True)
class JobsOn:
    """Jobs on a machine, each with its task graph, which is made once."""

    jobs: Sequence[TrainedJob]
    prepared: Sequence[Prepared]

    @staticmethod
    def of(cluster: Cluster, jobs: Sequence[TrainedJob]) -> JobsOn:
        """Jobs on a machine.

        Raises:
            InputError: it cannot run one of them.
        """
        return JobsOn(jobs, [prepare(replace(job.resolved, cluster=cluster), Silent()) for job in jobs])

    def ratios(self, cluster: Cluster, *ratios: Callable[[Times, TrainedJob], float]) -> FloatArray:
        """Of predicted to measured times ``[ratios, J]`` on a machine that differs in its kernels alone."""
        predicted = (predict_prepared(with_kernels_of(prepared, cluster)) for prepared in self.prepared)
        found = [[ratio(times, job) for ratio in ratios] for times, job in zip(predicted, self.jobs, strict=True)]
        return np.array(found).T


def _iteration_ratio(predicted: Times, job: TrainedJob) -> float:
    return predicted.iteration_s / job.iteration_s


def thread_ratios(cluster: Cluster, jobs: Sequence[TrainedJob]) -> FloatArray:
    """Of predicted to measured work of ranks' own threads ``[J]``."""
    return np.array([predict_thread_s(replace(job.resolved, cluster=cluster)) / job.thread_s for job in jobs])


def _scaled(kernels: CpuKernels, by: Mapping[KernelClass, float], why: str) -> CpuKernels:
    """Costs of each kind of kernel times its factor; a note says why."""
    costs = {
        kind: KernelCosts.model_validate(
            {
                **of.model_dump(exclude={"seconds_per"}),
                "seconds_per": {
                    name: f"{by.get(kind, 1.0) * seconds:.5g} s" for name, seconds in of.seconds_per.items()
                },
            }
        )
        for kind, of in kernels.costs.items()
    }
    return kernels.model_copy(update={"costs": costs, "note": f"{kernels.note}; {why}"})
