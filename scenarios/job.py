"""A resolved scenario as generators and lowering take it: settings, and the machine its ranks are placed on."""

from __future__ import annotations

from scenarios.estimate import expected_size, require_memory
from scenarios.resolve import ResolvedScenario
from scenarios.schedule import with_framework_defaults
from scenarios.types import Bursts
from simulator.compute import threads_of
from simulator.lowering import Machine, build_machine
from simulator.network.background import OtherJob
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.settings import DlrmSettings, largest_share


def settings_of(resolved: ResolvedScenario) -> DlrmSettings:
    """Ranks, batch, precisions... of the job.

    Raises:
        InputError: a rank has no sample, or there is no such reuse histogram.
    """
    workload = with_framework_defaults(resolved.scenario.workload, resolved.framework)
    return DlrmSettings(
        world_size=resolved.world_size,
        local_world_size=min(resolved.cluster.node.ranks, resolved.world_size),
        global_batch_size=largest_share(resolved.global_batch_size, workload.gradient_accumulation),
        iteration_samples=resolved.global_batch_size,
        framework=resolved.framework,
        precision=resolved.scenario.precision,
        optimizer=workload.optimizer,
        pipeline=workload.pipeline or resolved.framework.own_pipeline,
        indices=make_law(resolved.model.index_reuse.value),
        seed=resolved.scenario.variation.seed,
        cache_hit_rate=workload.sharding.cache_hit_rate,
        gradient_accumulation=workload.gradient_accumulation,
        on_host=resolved.cluster.node.gpu is None,
        threads=threads_of(resolved.cluster.node, min(resolved.cluster.node.ranks, resolved.world_size)),
        collective_threads=resolved.cluster.collectives.threads,
        copied=frozenset(resolved.cluster.collectives.made_of),
        overlaps=workload.overlap,
        cuda_graph=workload.cuda_graph or "none",
        hybrid=workload.hybrid_embedding,
        ingestion=workload.ingestion,
    )


def machine_of(resolved: ResolvedScenario) -> Machine:
    """The models of the placed cluster.

    Raises:
        InputError: an unknown algorithm, or an impossible size.
        InfeasibleError: a run on so many ranks needs more memory than this machine has.
    """
    require_memory(expected_size(resolved))
    return build_machine(
        resolved.cluster,
        resolved.world_size,
        launch_s=resolved.framework.launch_s.value,
        placement=resolved.scenario.placement,
        seed=resolved.scenario.variation.seed,
        algorithms={str(op): name for op, name in resolved.scenario.network.algorithms.items()},
        background={name: _other_job(load) for name, load in resolved.scenario.network.background.items()},
    )


def _other_job(load: float | Bursts) -> OtherJob:
    if isinstance(load, Bursts):
        return OtherJob(load.share, load.on, load.off, load.phase)
    return OtherJob(load)
