"""A resolved DLRM scenario as its generator takes it."""

from __future__ import annotations

from scenarios.dlrm.schedule import with_framework_defaults
from scenarios.dlrm.typed import DlrmResolved
from simulator.compute import threads_of
from simulator.operators import UpdateVariant
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.choices import DenseStrategies
from workloads.dlrm.model.settings import DlrmSettings
from workloads.graph.choices import largest_share


def settings_of(resolved: DlrmResolved) -> DlrmSettings:
    """Ranks, batch, precisions... of the job.

    Raises:
        InputError: a rank has no sample, or there is no such reuse histogram.
    """
    workload = with_framework_defaults(resolved.scenario.workload, resolved.framework)
    node, local = resolved.cluster.node, min(resolved.cluster.node.ranks, resolved.world_size)
    on_host = node.gpu is None
    by_rates = on_host and not node.cpu.kernels
    update: UpdateVariant = (workload.embedding_update or "race_free") if by_rates else "fused"
    return DlrmSettings(
        world_size=resolved.world_size,
        local_world_size=local,
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
        on_host=on_host,
        measured_host=bool(node.cpu.kernels),
        embedding_update=update,
        exchange=workload.exchange,
        progress=resolved.cluster.collectives.progress,
        threads=1 if by_rates else threads_of(node, local),
        collective_threads=resolved.cluster.collectives.threads,
        copied=frozenset(resolved.cluster.collectives.made_of),
        overlaps=workload.overlap,
        cuda_graph=workload.cuda_graph or "none",
        hybrid=workload.hybrid_embedding,
        ingestion=workload.ingestion,
        dense=workload.dense or DenseStrategies(),
        batching=workload.batching or "random",
        padded=workload.sequence_layout == "padded",
        evaluates=workload.mode == "eval",
        index_dedup=bool(workload.sharding.index_dedup),
    )
