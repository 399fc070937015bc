"""The family of DLRMs with parameter servers behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from inputs.errors import InputError
from inputs.keys import KeyPath
from scenarios.candidates import Candidate
from scenarios.dlrm.models import DlrmModels
from scenarios.dlrm_ps import filling
from scenarios.dlrm_ps.section import PsScenario
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from simulator.analysis import Bound
from simulator.compute import SocketModel
from simulator.lowering import Machine
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm_ps.family import DlrmPsWorkload
from workloads.dlrm_ps.settings import MOST_WAVES, THREAD_GROUPS, Placement, PsSettings

PsResolved: TypeAlias = ResolvedScenario[DlrmModel, PsScenario]

TRAINER_TASKS, SERVER_TASKS = 30, 16
"""Tasks of an iteration for each group of threads on its trainer, and for each group of a wave on each server (for the
estimate of a run's memory)."""


TRAINERS_DIFFER = (
    "trainers differ (variation), and the slowest sets the throughput of all; on a real system a slow trainer "
    "delays only itself"
)


@dataclass(frozen=True, slots=True)
class PlacedPs:
    """A DLRM on its trainers and servers; see `scenarios.family.PlacedJob`."""

    resolved: PsResolved
    workload: DlrmPsWorkload
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Ranks of each kind, threads, and the placement of tables."""
        settings, placed = self.workload.settings, self.workload.placed
        load = self.workload.job.requests.load
        return {
            "parameter_servers": {
                "trainers": settings.trainers,
                "sparse_servers": settings.sparse_servers,
                "dense_servers": settings.dense_servers,
                "readers": settings.readers,
                "threads": settings.threads,
                "thread_groups": settings.groups,
                "batch_per_thread": settings.batch_per_thread,
                "sync_every": settings.sync_every,
                "placement": settings.placement,
                "tables": len(self.workload.model_tables),
                "tables_cut": placed.cut,
                "busiest_over_mean_lookups": float(load.max() / load.mean()),
                "batches_in_flight": settings.trainers * settings.threads,
            }
        }

    def summary_sections(self) -> Mapping[str, Any]:
        """Size of an iteration, as before a run."""
        return self.estimate_sections()

    def warnings(self) -> Sequence[str]:
        """Differences between trainers, which the throughput does not show as asynchronous training does."""
        variation, settings = self.resolved.scenario.variation, self.workload.settings
        slow = any(rank < settings.trainers for rank in settings.slow_ranks)
        if not slow and not variation.varies:
            return ()
        return (TRAINERS_DIFFER,)

    def device_waits_s(self) -> Mapping[str, float]:
        """None."""
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:  # noqa: ARG002 - an interface
        """Another placement, other numbers of servers and threads, and 16 bits on the wire where it has 32.

        A rank that stops serving trains, and each thread has a batch in flight, so training results change with both.
        """
        settings = self.workload.settings
        other: Placement = "lookups" if settings.placement == "bytes" else "bytes"
        yield Candidate(f"workload.placement={other}")
        for key in filling.SERVERS:
            own = getattr(settings, key)
            for count in sorted({own // 2, 2 * own} - {0, own}):
                if own and settings.trainers + own > count:
                    yield Candidate(f"workload.{key}={count}", "numerics")
        for count in sorted({settings.cores // 2, settings.cores} - {0, settings.threads}):
            yield Candidate(f"workload.threads={count}", "numerics")
        precision = self.resolved.scenario.precision
        wires = {
            "forward_all_to_all": precision.forward_all_to_all,
            "backward_all_to_all": precision.backward_all_to_all,
        }
        for key, chosen in wires.items():
            if chosen == "fp32":
                yield Candidate(f"precision.{key}=fp16", "numerics")

    def keeps_plan(self, resolved: PsResolved) -> bool:  # noqa: ARG002 - an interface
        """True: nothing is planned."""
        return True

    def changed(self, resolved: PsResolved, machine: Machine, *, place_again: bool = False) -> PlacedPs:  # noqa: ARG002 - an interface
        """The job of a changed scenario, whose tables are placed by the same rule."""
        return PlacedPs(resolved, _workload(resolved, machine))


@dataclass(frozen=True, slots=True)
class DlrmPsFamily(DlrmModels):
    """DLRMs with parameter servers; see `scenarios.family.Family` for its members."""

    kind: str = "dlrm_ps"
    unit: str = "samples"
    scenario: type[PsScenario] = PsScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ((filling.BATCH, filling.PER_THREAD),)
    refused: Sequence[str] = ("backend", "communication_cores")
    planning: None = None

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def fill(self, asked: Asked[DlrmModel, PsScenario]) -> Filled[DlrmModel]:
        """See `scenarios.dlrm_ps.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: PsResolved) -> Expected:
        """Tasks of a rank, the mean of trainers and servers."""
        section = resolved.scenario.workload
        trainers = section.training_ranks(resolved.world_size)
        groups, servers = min(THREAD_GROUPS, section.threads), resolved.world_size - trainers
        tasks = groups * (trainers * TRAINER_TASKS + min(MOST_WAVES, trainers) * servers * SERVER_TASKS)
        return Expected(tasks // resolved.world_size + 1)

    def facts(self, resolved: PsResolved) -> Mapping[str, str]:
        """Trainers, servers and number formats."""
        section, precision = resolved.scenario.workload, resolved.scenario.precision
        return {
            "Trainers": f"{section.training_ranks(resolved.world_size)}, {section.threads} threads each",
            "Servers": f"{section.sparse_servers} of tables, {section.dense_servers} of dense parameters, "
            f"{section.readers} reader{'s' * (section.readers != 1)}",
            "EASGD": f"every {section.sync_every} iterations",
            "Arithmetic": f"dense {precision.dense}, tables {precision.tables}",
        }

    def place(self, resolved: PsResolved, machine: Machine, progress: Progress) -> PlacedPs:
        """Place the tables on their servers."""
        progress.stage("placing the tables")
        return PlacedPs(resolved, _workload(resolved, machine))


def _workload(resolved: PsResolved, machine: Machine) -> DlrmPsWorkload:
    """The workload of a scenario on a machine.

    Raises:
        InputError: the model contradicts itself, or the machine has other ranks than CPU servers.
    """
    section, variation = resolved.scenario.workload, resolved.scenario.variation
    if not isinstance(machine.compute, SocketModel):
        raise InputError(
            "no CPU servers", key="cluster", given=resolved.cluster.name, expected="a cluster without GPUs"
        )
    trainers = section.training_ranks(resolved.world_size)
    settings = PsSettings(
        trainers=trainers,
        sparse_servers=section.sparse_servers,
        dense_servers=section.dense_servers,
        readers=section.readers,
        threads=section.threads,
        batch_per_thread=resolved.global_batch_size // (trainers * section.threads),
        cores=machine.compute.cores,
        framework=resolved.framework,
        precision=resolved.scenario.precision,
        optimizer=section.optimizer,
        indices=make_law(resolved.model.index_reuse.value),
        sync_every=section.sync_every,
        placement=section.placement,
        decode_bytes_per_s=section.decode_bytes_per_s,
        slow_ranks=variation.straggler_ranks if variation.straggler_slowdown > 1.0 else (),
    )
    return DlrmPsWorkload(resolved.model, settings)


FAMILIES.add("dlrm_ps", DlrmPsFamily(), "deep learning recommendation models: asynchronous, with parameter servers")
