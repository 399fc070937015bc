"""``advise``: settings that help a job, the best number of devices of a job, and the best nodes of arriving jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.json_file import write_json
from dlrmsim.output.kept import kept_results
from dlrmsim.output.record import write_record
from dlrmsim.pages.scaling import scaling_study
from dlrmsim.verbs.what import Job, scenario_of
from dlrmsim.workers import workers_map
from inputs.errors import InputError
from reports.arrival_report import render_arrivals
from reports.arrival_words import arrival_sentences
from reports.scaling_report import render_scaling
from reports.size_words import size_sentences, with_size_advice
from scenarios import advice
from scenarios.advice import Advice
from scenarios.arrivals.jobs_file import MAX_KINDS, MAX_SIZES
from scenarios.arrivals.study import ArrivalAdvice, advise_arrivals
from scenarios.arrivals.times import TimedSize
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from scenarios.size_advice import OBJECTIVES, SizeAdvice, check_objective, size_advice
from scenarios.sweep import run_sweep
from scenarios.sweep_plan import Scaling, plan_sweep

SIZES_PAGE, ARRIVALS_PAGE, ADVICE_FILE = "sizes.html", "arrivals.html", "advice.json"


@dataclass(frozen=True, slots=True)
class AdviseResult:
    """Advice of one of three kinds.

    Attributes:
        tried: advice on settings of a scenario; None: not asked for.
        sizes: advice on the number of devices; None: not asked for.
        arrivals: advice on the nodes of arriving jobs; None: not asked for.
        folder: output folder; None: nothing is written.
        taken_over: number of sizes with results from an interrupted run.
    """

    tried: Advice | None = None
    sizes: SizeAdvice | None = None
    arrivals: ArrivalAdvice | None = None
    folder: Path | None = None
    taken_over: int = 0

    @property
    def page(self) -> Path | None:
        """The page; None: nothing is written."""
        name = SIZES_PAGE if self.arrivals is None else ARRIVALS_PAGE
        return None if self.folder is None else self.folder / name

    @property
    def sentences(self) -> tuple[str, ...]:
        """The advice on sizes or arriving jobs in sentences; empty for settings."""
        if self.sizes is not None:
            return size_sentences(self.sizes)
        return () if self.arrivals is None else arrival_sentences(self.arrivals)

    def to_dict(self) -> Mapping[str, Any]:
        """Plain JSON values, as ``advise --json`` prints them."""
        if self.tried is not None:
            return self.tried.to_dict()
        found = self.sizes or self.arrivals
        return {**({} if found is None else found.to_dict()), "finding": " ".join(self.sentences)}


def advise(
    what: Job,
    *,
    over: str | None = None,
    objective: str | None = None,
    target: float | None = None,
    scaling: Scaling | None = None,
    arrivals: bool = False,
    settings: Sequence[str] = (),
    workers: int | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> AdviseResult:
    """Try settings of a scenario; with ``over`` simulate sizes; with ``arrivals`` a cluster where jobs arrive.

    Args:
        what: scenario; with ``arrivals`` a file of arriving jobs, by name or path.
        over: sizes, such as ``nodes=1,2,4,...,64``.
        objective: ``throughput_per_gpu`` (default), ``cost`` or ``time_to_target``.
        target: amount to train, in the unit of the scenario's throughput.
        scaling: see `dlrmsim.sweep`.
        settings: ``KEY=VALUE`` each, for keys of the scenario or of the file of jobs.
        workers: processes that simulate sizes; default one per core.
        out: folder for ``sizes.html`` or ``arrivals.html``, and ``advice.json``; None: nothing is written.
        fresh: whether to ignore results of an interrupted run.

    Raises:
        InputError: an input is wrong or has no effect.
        InfeasibleError: the job does not fit and no remedy was found, no size fits, or a queue grows without bound.
    """
    if over is None:
        _without_effect("without --over", {"--objective": objective, "--target": target, "--scaling": scaling})
    if arrivals:
        _without_effect("with --arrivals", {"--over": over})
        return _arrivals(_name_of(what, "--arrivals"), tuple(settings), workers, out, progress, fresh=fresh)
    if over is not None:
        asked = _Asked(_name_of(what, "--over"), over, objective, target, scaling, tuple(settings))
        return _sizes(asked, workers, out, progress, fresh=fresh)
    _without_effect("without --over or --arrivals", {"--workers": workers, "--out": out, "--fresh": fresh or None})
    return AdviseResult(advice.advise(scenario_of(what, settings), progress or Silent()))


def _arrivals(
    what: str | Path,
    settings: Sequence[str],
    workers: int | None,
    out: str | Path | None,
    progress: Progress | None,
    *,
    fresh: bool,
) -> AdviseResult:
    """Simulate the jobs of a file at each size, and the cluster with each choice of sizes."""
    folder = None if out is None else replaceable(out)
    output = RUNS_FOLDER / f"advise-{Path(what).stem}" if folder is None else folder
    with kept_results(output, fresh=fresh) as kept:
        run_all = kept.mapped(workers_map(None, workers, MAX_KINDS * MAX_SIZES), asdict, _timed_size)
        found = advise_arrivals(what, run_all, kept.shown(progress), settings)
        result = AdviseResult(arrivals=found, folder=folder, taken_over=kept.taken_over)
        if folder is not None:
            _write(folder, result, render_arrivals(found, __version__))
    return result


def _timed_size(kept: Mapping[str, Any]) -> TimedSize:
    return TimedSize(**kept)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question about the number of devices."""

    what: str | Path
    over: str
    objective: str | None
    target: float | None
    scaling: Scaling | None
    settings: tuple[str, ...]


def _sizes(
    asked: _Asked, workers: int | None, out: str | Path | None, progress: Progress | None, *, fresh: bool
) -> AdviseResult:
    """Simulate sizes, and write the page if an output folder is given."""
    folder = None if out is None else replaceable(out)
    plan = plan_sweep(asked.what, asked.over, asked.scaling, asked.settings)
    objective = check_objective(plan, asked.objective or OBJECTIVES[0], asked.target)
    output = RUNS_FOLDER / f"advise-{plan.base.name}-{plan.base.hash[:8]}" if folder is None else folder
    with kept_results(output, fresh=fresh) as kept:
        run_all = kept.mapped(workers_map(None, workers, plan.simulated), dict, dict)
        rows = run_sweep(plan, run_all, kept.shown(progress))
        found = size_advice(plan, rows, objective, asked.target)
        result = AdviseResult(sizes=found, folder=folder, taken_over=kept.taken_over)
        if folder is not None:
            _write(folder, result, render_scaling(with_size_advice(scaling_study(plan, rows), found)))
    return result


def _write(folder: Path, result: AdviseResult, page: str) -> None:
    """Write the page, the advice and a record of the command, whole or not at all."""
    with folder_written_whole(folder) as partial:
        (partial / (SIZES_PAGE if result.arrivals is None else ARRIVALS_PAGE)).write_text(page, encoding="utf-8")
        write_json(partial / ADVICE_FILE, result.to_dict())
        write_record(partial, {"taken_over": result.taken_over})


def _name_of(what: Job, option: str) -> str | Path:
    """The name or path.

    Raises:
        InputError: the input is a resolved scenario, which has only its own size.
    """
    if isinstance(what, ResolvedScenario):
        raise InputError("needs a name or path", file=option, given=what.name, expected="no resolved scenario")
    return what


def _without_effect(mode: str, options: Mapping[str, object]) -> None:
    """Raise `InputError` for a given option without effect in a mode."""
    for name, value in options.items():
        if value is not None:
            given = None if isinstance(value, bool) else value
            raise InputError(f"has no effect {mode}", file=name, given=given, expected="one of the two")
