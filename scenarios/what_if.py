"""Iterations of a scenario with some keys changed, with its plan or with a plan of its own.

The first run is kept, and a what-if repeats only the parts that the change affects. A kept plan costs nothing; bound
and interval are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from inputs.errors import InfeasibleError, InputError
from scenarios.located import located
from scenarios.machine import machine_like
from scenarios.prepare import Prepared, generated, memory_of, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import asked_again
from scenarios.resolved import ResolvedScenario
from scenarios.runner import Simulation, simulation_of, simulation_of_prepared
from scenarios.summary import summary_of

PlanOf: TypeAlias = Literal["kept", "own"]
"""Plan of a what-if: of the unchanged scenario, or of its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a what-if.

    Attributes:
        settings: changed keys, ``KEY=VALUE`` each; empty for the unchanged scenario.
        plan: plan of the iteration.
        summary: content of ``summary.json`` without bound, interval and levers; None if the job is refused.
        error: error of a changed scenario that is wrong or does not fit; None if it runs.
    """

    settings: tuple[str, ...]
    plan: PlanOf
    summary: Mapping[str, Any] | None
    error: InputError | InfeasibleError | None = None

    @property
    def refusal(self) -> str:
        """Reason why the changed scenario does not run; empty if it does."""
        return "" if self.error is None else str(self.error)

    @property
    def iteration_time_s(self) -> float | None:
        """Mean time of a settled iteration, seconds; None if the job is refused."""
        return None if self.summary is None else float(self.summary["iteration_time_s"])


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A scenario, ready for what-ifs.

    Attributes:
        base: run of the unchanged scenario.
        unchanged: result of the unchanged scenario.
        answers: answers so far, in the order of the questions.
    """

    base: Simulation
    unchanged: Answer
    answers: list[Answer] = field(default_factory=list)

    @staticmethod
    def of(resolved: ResolvedScenario, progress: Progress | None = None) -> WhatIf:
        """Run the unchanged scenario.

        Raises:
            InputError: a model, generator or planner refuses the scenario.
            InfeasibleError: the job does not fit.
        """
        base = simulation_of(resolved, progress or Silent())
        return WhatIf(base, Answer((), "own", _summary(base)))

    def ask(self, *settings: str, plan: PlanOf = "kept") -> Answer:
        """Simulate the scenario with keys changed.

        Args:
            settings: changed keys, ``KEY=VALUE`` each, all at once.
            plan: ``kept``: the plan of the unchanged scenario, unless a change is one of the plan, the model or the
                number of ranks; else, and with ``own``, the plan that the changed scenario would have by itself.

        Raises:
            InputError: there is no such ``plan``.
        """
        if plan not in get_args(PlanOf):
            raise InputError("no such plan", file="plan", given=plan, expected=" or ".join(get_args(PlanOf)))
        try:
            answer = self._asked(settings, plan)
        except (InputError, InfeasibleError) as error:
            answer = Answer(settings, plan, None, error)
        self.answers.append(answer)
        return answer

    def gain(self, answer: Answer) -> float | None:
        """Fraction of the time of a sample that a what-if saves, negative: longer; None if it is refused."""
        before, after = self.unchanged.summary, answer.summary
        if before is None or after is None:
            return None
        return 1.0 - _per_sample_s(after) / _per_sample_s(before)

    def _asked(self, settings: tuple[str, ...], plan: PlanOf) -> Answer:
        before = self.base.prepared
        resolved = asked_again(before.resolved, settings)
        one, other = before.resolved, resolved
        alike = (one.kind, one.world_size, one.nodes) == (other.kind, other.world_size, other.nodes)
        if plan == "kept" and alike and before.job.keeps_plan(resolved):
            prepared = _with_plan_of(before, resolved)
        else:
            plan, prepared = "own", prepare(resolved, Silent(), before)
        return Answer(settings, plan, _summary(simulation_of_prepared(prepared, Silent(), before=self.base)))


def _with_plan_of(before: Prepared, resolved: ResolvedScenario) -> Prepared:
    """The job of a scenario with the plan of a job prepared before."""
    with located(resolved.document):
        machine = machine_like(before.machine, before.resolved, resolved)
        job = before.job.changed(resolved, machine)
        return generated(resolved, machine, job, memory_of(resolved, job), Silent(), before)


def in_rows(found: WhatIf) -> list[dict[str, Any]]:
    """The unchanged scenario and all answers as plain JSON values."""
    return [
        {
            "settings": list(answer.settings),
            "plan": answer.plan,
            "iteration_time_s": answer.iteration_time_s,
            "gain": found.gain(answer),
            "refusal": answer.refusal,
        }
        for answer in (found.unchanged, *found.answers)
    ]


def _summary(done: Simulation) -> dict[str, Any]:
    return summary_of(done.prepared, done.analysis, None, None, None, done.warnings)


def _per_sample_s(summary: Mapping[str, Any]) -> float:
    return float(summary["iteration_time_s"]) / float(summary["global_batch_size"])
