"""Levers: settings of a scenario that may make it faster, each tried by a re-run with that one key changed.

A *free* lever keeps training results: another pipeline, planner, overlap, launch scope, exchange or library. A
*numerics* lever rounds values on the wire, lets lookups read older rows, or changes how many batches asynchronous
trainers have in flight. A *hardware* lever doubles the speed of a part of the machine. All levers except planners are
first tried with the plan of the run; advised levers are then run with a plan of their own. Each family lists levers of
its own keys (`scenarios.family.PlacedJob.candidates`); `scenarios.network_levers` has levers of the network. Levers are
`--set` options that are added to the run's own, so one that contradicts them is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from inputs.errors import InfeasibleError, InputError
from scenarios.candidates import Basis, Candidate, Kind
from scenarios.located import located
from scenarios.machine import machine_of
from scenarios.network_levers import network_candidates
from scenarios.probe import Probe
from scenarios.progress import Progress
from scenarios.resolve import asked_again
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import transformed
from simulator.analysis import Bound
from simulator.lowering import Machine, lower
from simulator.program import TaskGraph
from workloads.family import Workload

ADVISED: tuple[Kind, ...] = ("free", "numerics")
"""Kinds whose best lever is advised."""

WORTHWHILE = 0.01
"""Least gain of an advised lever; the error of the models' constants is not smaller."""

HARDWARE: Mapping[str, tuple[str, float]] = {
    "NIC": ("node.nics.nic.bytes_per_s", 2.0),
    "NVLink": ("node.scale_up.bytes_per_s", 2.0),
    "HBM": ("node.gpu.memory_bytes_per_s", 2.0),
    "host": ("node.cpu.host_time_factor", 0.5),
}
"""Cluster key of each single class and the factor on its value, about one generation of hardware."""

LEAST_GAIN = 0.005
"""Least gain of a class with 10 % better hardware for which twice as good hardware is tried."""

LEVER_ITERATIONS = 10
"""Maximum number of iterations of a re-run if iterations vary; the time of the run is taken over the same
iterations."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A setting that was tried.

    Attributes:
        setting: as ``--set`` takes it.
        kind: ``free``; ``numerics`` where the numbers that the job trains change; ``hardware``.
        iteration_time_s: iteration time with it.
        gain: fraction of the time of a sample that is saved; negative: longer. It refers to the iteration time where
            the setting keeps the batch.
        basis: ``run``: a run with the setting; ``plan kept``: a re-run with the plan of the run, although the setting
            changes the plan; ``at most``: likewise, with concurrent kernels of two streams at full speed, an upper
            bound; ``even loads``: both runs with equal loads on all ranks.
    """

    setting: str
    kind: Kind
    iteration_time_s: float
    gain: float
    basis: Basis = "run"


@dataclass(frozen=True, slots=True)
class Levers:
    """The levers of a run.

    Attributes:
        tried: best first.
        infeasible: settings with which the job does not fit into memory.
        notes: limits of the search, in words.
    """

    tried: tuple[Lever, ...]
    infeasible: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def best(self, kind: Kind) -> Lever | None:
        """The lever of a kind with the largest gain in a full run, if it reaches `WORTHWHILE`."""
        worth = (lever for lever in self.tried if lever.basis == "run" and lever.gain >= WORTHWHILE)
        return next((lever for lever in worth if lever.kind == kind), None)

    @property
    def advice(self) -> str:
        """One line: the free lever that saves most, beside it the one that changes numerics."""
        free, numerics = self.best("free"), self.best("numerics")
        parts = []
        if free:
            parts.append(f"Free: --set {free.setting} saves {100 * free.gain:.1f} %.")
        if numerics:
            kept = "" if free else "No free setting saves 1 %. "
            saved = f"--set {numerics.setting} saves {100 * numerics.gain:.1f} %."
            parts.append(f"{kept}Changes numerics: {saved}")
        parts += self._worth_a_look(free.gain if free else 0.0)
        count = len(self.tried)
        return " ".join(parts) or f"None of the {count} setting{'' if count == 1 else 's'} tried saves 1 %."

    def _worth_a_look(self, known: float) -> list[str]:
        """The best free lever with an estimated gain, if that exceeds the gains of full runs."""
        words = {"at most": "at most {:.0f} %", "even loads": "{:.0f} % if all ranks had equal loads"}
        unsure = (lever for lever in self.tried if lever.kind == "free" and lever.basis in words)
        best = next(unsure, None)
        if best is None or best.gain < known + WORTHWHILE:
            return []
        return [f"Worth a look: --set {best.setting}, {words[best.basis].format(100 * best.gain)}."]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        best = {kind: self.best(kind) for kind in ADVISED}
        return {
            "advice": self.advice,
            "best": {kind: None if lever is None else lever.setting for kind, lever in best.items()},
            "tried": [asdict(lever) for lever in self.tried],
            "infeasible": list(self.infeasible),
            "notes": list(self.notes),
        }


def find_levers(probe: Probe, bound: Bound, progress: Progress) -> Levers:
    """Try the levers of a run.

    Args:
        probe: the run.
        bound: bound of the run; levers that only shorten tasks outside the critical path are not tried.
        progress: reports every re-run.
    """
    search = _Search(probe.shortened(LEVER_ITERATIONS))
    candidates = [c for c in _candidates(probe, bound) if c.most >= WORTHWHILE]
    found = []
    for number, candidate in enumerate(candidates, start=1):
        progress.stage("trying settings", number, len(candidates))
        found += search.tried(candidate)
    by_setting = {candidate.setting: candidate for candidate in candidates}
    confirmed = [lever for kind in ADVISED for lever in search.confirmed(found, by_setting, kind)]
    hardware = [lever for lever in found if lever.kind == "hardware"]
    return Levers(_best_first(confirmed + hardware), tuple(search.infeasible), tuple(_notes(probe, search, candidates)))


def _notes(probe: Probe, search: _Search, candidates: Iterable[Candidate]) -> Iterator[str]:
    if search.probe.iterations < probe.iterations:
        yield f"iterations vary: settings are compared over the first {search.probe.iterations} of {probe.iterations}"
    yield from dict.fromkeys(candidate.note for candidate in candidates if candidate.note)


def _candidates(probe: Probe, bound: Bound) -> Iterator[Candidate]:
    """Settings that the job does not have yet: its family's keys, keys of the network, and faster hardware."""
    yield from probe.prepared.job.candidates(bound)
    yield from network_candidates(probe.prepared.resolved)
    yield from _hardware(probe.prepared.resolved, bound)


def _hardware(resolved: ResolvedScenario, bound: Bound) -> Iterator[Candidate]:
    """Faster hardware for classes with a gain."""
    for gain in bound.gains:
        if gain.resource_class in HARDWARE and gain.gain >= LEAST_GAIN:
            key, factor = HARDWARE[gain.resource_class]
            found: Any = resolved.cluster
            for name in key.split("."):
                found = getattr(found, name, None)
            if found is not None:
                better = found.value * factor
                text = f"{better / 1e9:.12g}GB/s" if key.endswith("bytes_per_s") else f"{better:.12g}"
                yield Candidate(f"cluster.{key}={text}", "hardware")


@dataclass(slots=True)
class _Search:
    """Re-runs with changed settings.

    Attributes:
        probe: the run, with fewer iterations if they vary.
        infeasible: settings with which the job does not fit.
    """

    probe: Probe
    infeasible: list[str] = field(default_factory=list)
    _base_s: dict[bool, float] = field(default_factory=dict)

    def tried(self, candidate: Candidate) -> list[Lever]:
        """The lever of a candidate, with a plan of its own if it changes that; empty if the scenario refuses it."""
        try:
            resolved = asked_again(self.probe.prepared.resolved, [candidate.setting])
            with located(resolved.document):
                return [self._lever(candidate, resolved)]
        except InfeasibleError:
            self.infeasible.append(candidate.setting)
        except InputError:  # a setting that this scenario cannot have
            pass
        return []

    def confirmed(self, found: Iterable[Lever], candidates: Mapping[str, Candidate], kind: Kind) -> list[Lever]:
        """The levers of a kind; the best of them are run with plans of their own."""
        left, done = list(_best_first(lever for lever in found if lever.kind == kind)), list[Lever]()
        while left and left[0].gain >= max([WORTHWHILE, *(lever.gain for lever in done if lever.basis == "run")]):
            best = left.pop(0)
            candidate = candidates[best.setting]
            again = not candidate.plans and best.basis == "plan kept"
            done += self.tried(replace(candidate, plans=True)) if again else [best]
        return done + left

    def _lever(self, candidate: Candidate, resolved: ResolvedScenario) -> Lever:
        prepared = self.probe.prepared
        machine = prepared.machine if _same_machine(resolved, prepared.resolved) else machine_of(resolved)
        workload = prepared.job.changed(resolved, machine, place_again=candidate.plans).workload
        even = candidate.basis == "even loads"
        time_s, base_s = self._seconds(resolved, workload, machine, even=even), self._base(even=even)
        basis = "run" if candidate.plans and not even else candidate.basis
        amount = prepared.workload.headline.per_iteration / workload.headline.per_iteration
        return Lever(candidate.setting, candidate.kind, time_s, 1.0 - time_s / base_s * amount, basis)

    def _base(self, *, even: bool) -> float:
        if even not in self._base_s:
            run = self.probe.prepared
            self._base_s[even] = self._lowered_s(run.graph, run.machine, even=True) if even else self.probe.base_s()
        return self._base_s[even]

    def _seconds(self, resolved: ResolvedScenario, workload: Workload, machine: Machine, *, even: bool) -> float:
        graph, _ = transformed(resolved, workload.graph(), machine)
        return self._lowered_s(graph, machine, even=even)

    def _lowered_s(self, graph: TaskGraph, machine: Machine, *, even: bool) -> float:
        improve = {"imbalance": 2.0} if even else None
        return self.probe.seconds(lower(graph, machine, variation=self.probe.variation, improve=improve))


def _same_machine(one: ResolvedScenario, two: ResolvedScenario) -> bool:
    """Whether two scenarios with the same ranks run on the same machine, collectives included."""
    return one.cluster == two.cluster and one.scenario.network == two.scenario.network


def _best_first(levers: Iterable[Lever]) -> tuple[Lever, ...]:
    return tuple(sorted(levers, key=lambda lever: -lever.gain))
