"""Re-runs of a run whose iteration times are compared with its own: with a class improved, or a setting changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scenarios.bursts import REPEATING, longest_period_s
from scenarios.prepare import Prepared
from simulator.analysis import IterationTime, iteration_time
from simulator.counted_run import counted_run
from simulator.engine import EngineRun, ProgramMemory, RunOptions
from simulator.equality import same
from simulator.lowered import PS_PER_S
from simulator.lowering import Lowerer, Lowering, Variation

PROBE_RULE = REPEATING
"""Rule that ends a re-run: settled iterations repeat exactly, so two equal ones suffice."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Iteration times of re-runs.

    Where iterations repeat, a re-run ends when two are equal. With jitter, or beside bursts of another job, it has as
    many iterations as the run, with the same random draws, and its time is taken over the same iterations.

    Attributes:
        lowerer: lowerer of the task graph of the run.
        variation: jitter of the run and of re-runs.
        iterations: number of iterations of the run that re-runs are compared with.
        counted: number of last iterations that are averaged if iterations vary.
        memory: units and usage that runs of the program share.
    """

    prepared: Prepared
    lowerer: Lowerer
    variation: Variation
    result: EngineRun
    iterations: int
    counted: int
    memory: ProgramMemory

    @staticmethod
    def of(
        prepared: Prepared,
        lowerer: Lowerer,
        variation: Variation,
        result: EngineRun,
        time: IterationTime,
        memory: ProgramMemory,
    ) -> Probe:
        """The probe of a run with this iteration time."""
        return Probe(prepared, lowerer, variation, result, time.iterations, time.measured_iterations, memory)

    @property
    def lowering(self) -> Lowering:
        """The run's task graph, lowered."""
        return self.lowerer.lower()

    def shortened(self, iterations: int) -> Probe:
        """The probe of the first iterations, the second half of which is averaged; unchanged if iterations repeat."""
        if not self.varies or iterations >= self.iterations:
            return self
        return replace(self, iterations=iterations, counted=min(self.counted, max(1, iterations // 2)))

    @property
    def varies(self) -> bool:
        """Whether iterations differ."""
        return self.lowering.program.varies or longest_period_s(self.prepared.machine) > 0.0

    def base_s(self) -> float:
        """Seconds per iteration of the run itself."""
        return self._over_measured(self.result) if self.varies else self._run_again(self.lowering)

    def seconds(self, lowering: Lowering, base_s: float | None = None) -> float:
        """Seconds per iteration of a re-run; one whose program is the run's takes ``base_s``, if that is known."""
        if base_s is not None and same(lowering.program, self.lowering.program):
            return base_s
        return self._run_again(lowering)

    def _run_again(self, lowering: Lowering) -> float:
        stop = None if self.varies else PROBE_RULE
        options = RunOptions(max_iterations=self.iterations, stop=stop, keep_last=1, memory=self.memory)
        result = counted_run(lowering.program, options)
        if self.varies:
            return self._over_measured(result)
        return iteration_time(result.iteration_end_ps.tolist(), PROBE_RULE).seconds

    def _over_measured(self, result: EngineRun) -> float:
        """Mean over the same iterations as the mean of the run."""
        ends = [0, *result.iteration_end_ps.tolist()[: self.iterations]]
        return float(ends[-1] - ends[-1 - self.counted]) / self.counted / PS_PER_S
