"""Fitting the few constants of a framework profile to published iteration times.

What may be fitted is physical (`workloads.graph.framework.Constant`): host time per operator, factors on the memory
traffic of kernels, times in which the device waits for the host. Minimised are the logarithms of predicted over
measured over all calibration cases of the suites with this framework, with a loss that grows linearly beyond 5 %, so
that a few odd submissions do not bend the whole. Every constant is drawn to where it starts with the weight of one case
that is off by 2 % for each factor of e: where the cases say nothing, it stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np

from hardware_specs.processors import Gpu
from inputs.errors import InputError
from inputs.quantities import format_quantity
from scenarios.engine_run import iteration_s
from scenarios.family import PlacedJob, family_of
from scenarios.located import of_file
from scenarios.machine import machine_of
from scenarios.mapping import Keep, keep_nothing
from scenarios.prepare import place
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from simulator.operators import FloatArray
from validation.suites.errors import is_amount
from validation.suites.predict import SuiteJob, inputs_of
from validation.suites.suite import Band, Case, load_suite
from workloads.graded import Graded
from workloads.graph.framework import Constant, Framework

START: dict[Constant, float] = {
    "operator_s": 10e-6,
    "overhead_factor": 1.0,
    "elementwise_factor": 1.0,
    "embedding_factor": 1.0,
    "iteration_s": 100e-6,
    "table_s": 100e-6,
    "feature_s": 20e-6,
}
"""Start of a fit: the generator's own traffic, and times of a few launches."""

LINEAR_BEYOND = 0.05
PRIOR_WEIGHT = 0.02
LARGEST_FACTOR = 50.0
"""A constant stays within this factor of its start."""


@dataclass(frozen=True)
class Configuration:
    """A job of calibration cases, placed once, and its measurements."""

    resolved: ResolvedScenario
    measured_s: tuple[float, ...]

    @cached_property
    def _placed(self) -> tuple[Machine, PlacedJob]:
        machine = machine_of(self.resolved)
        return machine, place(self.resolved, machine, Silent())[0]

    def with_gpu_s(self, gpu: Gpu) -> float:
        """Seconds of an iteration on another GPU, with the same placement."""
        node = self.resolved.cluster.node.model_copy(update={"gpu": gpu})
        resolved = replace(self.resolved, cluster=self.resolved.cluster.model_copy(update={"node": node}))
        return iteration_s(resolved, self._placed[1].workload, machine_of(resolved))

    def iteration_s(self, values: Mapping[Constant, float]) -> float:
        """Seconds of an iteration with other constants of the framework."""
        machine, placed = self._placed
        resolved = replace(self.resolved, framework=with_constants(self.resolved.framework, values))
        return iteration_s(resolved, placed.changed(resolved, machine).workload, machine)

    @cached_property
    def hash(self) -> str:
        """Hash of its scenario."""
        return self.resolved.hash


@dataclass(frozen=True, slots=True)
class FittedConstants:
    """Values, and how well the cases are met.

    Attributes:
        values: constant -> value, seconds or a factor.
        cases: calibration cases.
        residuals: median and largest error of them, in words.
    """

    values: Mapping[Constant, float]
    cases: int
    residuals: str


def calibration_of(framework: str, suites: Sequence[str]) -> list[Configuration]:
    """The configurations of the suites' calibration cases with a framework; raises as `configurations_of`."""
    return configurations_of(suites, lambda job: job.framework.name == framework, f"framework {framework}")


def configurations_of(
    suites: Sequence[str], asked: Callable[[ResolvedScenario], bool], what: str
) -> list[Configuration]:
    """The configurations of the suites' calibration cases that are asked for; ``what`` they have, in words.

    Raises:
        InputError: a suite is wrong, or has no such case.
    """
    measured: dict[SuiteJob, tuple[ResolvedScenario, list[float]]] = {}
    for name in suites:
        file, suite = load_suite(name)
        with of_file(file):
            for case in suite.cases:
                job = SuiteJob.of(case.scenario, case.set)
                resolved = job.resolved()
                if (
                    asked(resolved)
                    and not (case.metric.startswith("parts.") or is_amount(case.metric))
                    and suite.role(inputs_of(resolved, job) | case.inputs) == "calibration"
                ):
                    measured.setdefault(job, (resolved, []))[1].append(_seconds(case, resolved))
    if not measured:
        raise InputError(
            f"no calibration case with {what}",
            file="--suite",
            given=", ".join(suites),
            expected="suites whose calibration rules hold for cases with it",
        )
    return [Configuration(resolved, tuple(times)) for resolved, times in measured.values()]


def _seconds(case: Case, resolved: ResolvedScenario) -> float:
    """Measured iteration time, seconds.

    Raises:
        InputError: it cannot be fitted on.
    """
    throughput = f"throughput_{family_of(resolved).unit}_per_s"
    if isinstance(case.measured, Band) or case.metric not in ("iteration_time_s", throughput):
        raise InputError(
            "not a case to fit on", key=case.id, given=case.metric, expected="iteration_time_s or throughput, a number"
        )
    return case.measured if case.metric == "iteration_time_s" else resolved.global_batch_size / case.measured


def fit_framework(
    constants: Sequence[Constant],
    configurations: Sequence[Configuration],
    progress: Progress | None = None,
    keep: Keep = keep_nothing,
) -> FittedConstants:
    """The constants with which the framework of the configurations meets them best.

    Args:
        keep: keeps the iteration times of every evaluation: the same search goes on from there.
    """
    from scipy.optimize import least_squares

    start = np.log([START[name] for name in constants])
    shown, evaluations = progress or Silent(), count(1)

    def errors(logs: FloatArray) -> FloatArray:
        values = dict(zip(constants, np.exp(logs).tolist(), strict=True))
        question = "\n".join([f"iterations with {values}", *(found.hash for found in configurations)])
        times_s = keep(question, lambda: [found.iteration_s(values) for found in configurations])
        pairs = zip(times_s, configurations, strict=True)
        return np.concatenate([np.log(seconds / np.array(found.measured_s)) for seconds, found in pairs])

    def residuals(logs: FloatArray) -> FloatArray:
        shown.stage(f"fitting {len(configurations)} configurations, evaluation {next(evaluations)}")
        return np.concatenate([errors(logs), PRIOR_WEIGHT * (logs - start)])

    reach = np.log(LARGEST_FACTOR)
    found = least_squares(
        residuals,
        start,
        bounds=(start - reach, start + reach),
        diff_step=np.full(len(start), DIFFERENCE),
        loss="soft_l1",
        f_scale=LINEAR_BEYOND,
        xtol=TOLERANCE,
        ftol=TOLERANCE,
        max_nfev=25,
    )
    off = np.abs(100.0 * np.expm1(errors(found.x)))
    words = f"median error {np.median(off):.1f} %, worst {off.max():.0f} %, of {len(off)} cases"
    return FittedConstants(dict(zip(constants, np.exp(found.x).tolist(), strict=True)), len(off), words)


DIFFERENCE = 0.01
"""Step of a logarithm for derivatives: simulated times have steps of their own far below this."""
TOLERANCE = 1e-4


def with_constants(framework: Framework, values: Mapping[Constant, float]) -> Framework:
    """The profile with other constants."""
    update = {str(name): Graded[float](value=v, source="a fit", grade="derived") for name, v in values.items()}
    return framework.model_copy(update=update)


def in_words(name: Constant, value: float) -> str:
    """A constant as it is written: three significant digits."""
    if name.endswith("_s"):
        return format_quantity(float(f"{value:.3g}"), "s")
    return f"{value:.3g}"
