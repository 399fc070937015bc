"""The family of captured jobs behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hardware_specs.library import Backend
from inputs.errors import InfeasibleError
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.block_times import BLOCKS_KEY
from scenarios.candidates import Candidate
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.captured import filling
from scenarios.captured.filling import CapturedResolved, fp32_kernels, settings_of
from scenarios.captured.kernel_times import PricedByBytes, ProgramTimes, blocks_of, kernel_times
from scenarios.captured.model import CapturedModel, load_job, read_packed
from scenarios.captured.remedies import refusal
from scenarios.captured.section import CapturedScenario
from scenarios.captured.sections import job_section, memory_curve, peak_section
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.memory_curve import MEMORY_CURVE_KEY
from scenarios.progress import Progress
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.captured.family import CapturedWorkload
from workloads.captured.iteration import alike_ranks

TASKS_OF_A_RECORD = 2
"""Tasks of a rank for each recorded one: itself, and its launch."""


@dataclass(frozen=True, slots=True)
class PlacedCapture:
    """A captured job on its ranks; see `scenarios.family.PlacedJob`."""

    resolved: CapturedResolved
    workload: CapturedWorkload
    machine: Machine
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Programs and amounts, and memory at the peak."""
        return self._sections(self._times())

    def _sections(self, times: Sequence[ProgramTimes]) -> Mapping[str, Any]:
        settings = self.workload.settings
        return {"captured": job_section(settings, times), "memory_peak": peak_section(settings)}

    def summary_sections(self) -> Mapping[str, Any]:
        """The same sections, memory over the step and kernels by module, for an unchanged graph."""
        times = self._times()
        if self.resolved.scenario.transform:  # transformations change the kernels of modules
            return self._sections(times)
        capacity = capacities_bytes(self.resolved.cluster, self.resolved.world_size)["hbm"]
        curve = memory_curve(self.workload.settings, capacity)
        blocks = [asdict(block) for block in blocks_of(times)]
        return {**self._sections(times), MEMORY_CURVE_KEY: asdict(curve), BLOCKS_KEY: blocks}

    def warnings(self) -> Sequence[str]:
        """Operators that are priced by their bytes alone, and an unknown batch."""
        found = [PricedByBytes.of(self._times()).warning()]
        if self.workload.settings.job.samples_per_rank is None:
            found.append("samples of a step are unknown: throughput counts one for each rank and step")
        return [warning for warning in found if warning is not None]

    def device_waits_s(self) -> Mapping[str, float]:
        """None: waits of the host are recorded."""
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:  # noqa: ARG002 - an interface
        """Candidates: fused element-wise kernels, and tf32 for products of fp32 tensors."""
        section, gpu = self.resolved.scenario.workload, self.resolved.cluster.node.gpu
        if section.fuse == "none":
            yield Candidate("workload.fuse=elementwise")
        has_tf32 = gpu is not None and "tf32" in gpu.peak_flops
        if has_tf32 and self.resolved.scenario.precision.dense == "fp32" and any(fp32_kernels(self._records)):
            yield Candidate("precision.dense=tf32", "numerics")

    def keeps_plan(self, resolved: CapturedResolved) -> bool:  # noqa: ARG002 - an interface
        """True: nothing is planned."""
        return True

    def changed(
        self,
        resolved: CapturedResolved,
        machine: Machine,
        *,
        place_again: bool = False,  # noqa: ARG002 - an interface
    ) -> PlacedCapture:
        """The job of a changed scenario.

        Raises:
            InfeasibleError: it does not fit.
        """
        workload = CapturedWorkload(settings_of(resolved))
        memory = _memory(resolved, workload)
        if not memory.fits:
            raise InfeasibleError(f"{resolved.name} does not fit\n{memory.in_words()}")
        return PlacedCapture(resolved, workload, machine)

    @property
    def _records(self) -> Any:
        return self.workload.settings.job

    def _times(self) -> list[ProgramTimes]:
        return kernel_times(self.workload.settings, self.machine.compute)


@dataclass(frozen=True, slots=True)
class CapturedFamily:
    """Captured jobs; see `scenarios.family.Family` for its members."""

    kind: str = "captured"
    unit: str = "samples"
    scenario: type[CapturedScenario] = CapturedScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ()
    refused: Sequence[str] = ()
    planning: None = None

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def models(self) -> Mapping[str, str]:
        """None: all jobs are files."""
        return {}

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> CapturedModel:  # noqa: ARG002 - as above
        """The job of a folder or file; raises as `scenarios.captured.model.load_job`."""
        return load_job(name_or_path, origin)

    def read_model(self, document: Document, *, prefix: KeyPath) -> CapturedModel:
        """The job that stands in a scenario; raises as `scenarios.captured.model.read_packed`."""
        return read_packed(document, prefix)

    def backend(self, scenario: CapturedScenario) -> Backend | None:  # noqa: ARG002 - an interface
        """The cluster's."""
        return None

    def fill(self, asked: Asked[CapturedModel, CapturedScenario]) -> Filled[CapturedModel]:
        """See `scenarios.captured.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: CapturedResolved) -> Expected:
        """Tasks of the longest program, and ranks that differ."""
        job = resolved.model.records
        tasks = max(len(program.tasks) for program in job.programs)
        return Expected(TASKS_OF_A_RECORD * tasks, differ=alike_ranks(job))

    def facts(self, resolved: CapturedResolved) -> Mapping[str, str]:
        """Source, release of PyTorch, programs, streams and communicators."""
        job = resolved.model.records
        groups = ", ".join(f"{len(program.ranks):,}" for program in job.programs[:8])
        more = ", ..." if len(job.programs) > 8 else ""
        streams = dict.fromkeys(stream for program in job.programs for stream in program.streams)
        return {
            "Captured from": job.source,
            "PyTorch": job.torch,
            "Ranks by program": f"{groups}{more}",
            "Streams": ", ".join(streams),
            "Communicators": ", ".join(job.communicators) or "none",
            "Arithmetic": f"as recorded, fp32 in {resolved.scenario.precision.dense}",
        }

    def place(self, resolved: CapturedResolved, machine: Machine, progress: Progress) -> PlacedCapture:
        """The workload; nothing is placed.

        Raises:
            InfeasibleError: it does not fit; with the peak, the numbers of each tier, and remedies.
        """
        workload = CapturedWorkload(settings_of(resolved))
        memory = _memory(resolved, workload)
        if not memory.fits:
            progress.stage("looking for a cluster with more memory")
            raise refusal(resolved, memory)
        return PlacedCapture(resolved, workload, machine)


def _memory(resolved: CapturedResolved, workload: CapturedWorkload) -> MemoryReport:
    return MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))


FAMILIES.add("captured", CapturedFamily(), "captured PyTorch training steps: recorded kernels and collectives")
