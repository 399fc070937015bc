"""The keys of a scenario that describe overlap: defaults by framework, and checks."""

from __future__ import annotations

from inputs.quantities import Bytes
from inputs.yaml_lines import Document
from scenarios.located import located
from scenarios.types import NetworkChoice, Scenario, Workload
from simulator.network.collectives.algorithm import check_algorithm
from workloads.dlrm.model.choices import HybridEmbedding, Overlap
from workloads.dlrm.model.model import DlrmModel
from workloads.graded import Graded
from workloads.graph.framework import Framework
from workloads.graph.schedule import SCHEDULES

FRAMEWORK_ALGORITHMS = {
    "all_to_all": "all_to_all",
    "all_to_all_between_nodes": "all_to_all",
    "all_reduce": "all_reduce",
}
"""Operation of each key of a framework that names an algorithm."""


def with_framework_defaults(workload: Workload, framework: Framework) -> Workload:
    """The workload with the framework's defaults filled in."""
    chosen = workload.overlap
    overlap = Overlap(
        exchange=_first(chosen.exchange, framework.overlap_exchange.value),
        all_reduce=_first(chosen.all_reduce, framework.overlap_all_reduce.value),
        weight_gradients=_first(chosen.weight_gradients, framework.overlap_weight_gradients.value),
    )
    return workload.model_copy(
        update={
            "overlap": overlap,
            "cuda_graph": workload.cuda_graph or framework.cuda_graph.value,
            "pipeline": workload.pipeline or framework.own_pipeline,
        }
    )


def with_buckets(framework: Framework, workload: Workload) -> Framework:
    """The framework with the sizes of gradient buckets that the scenario asks for."""
    chosen = workload.gradient_buckets
    if chosen is None:
        return framework
    sizes = {"first_bucket_bytes": chosen.first_bytes, "bucket_bytes": chosen.bytes}
    asked = {
        key: Graded[Bytes](value=size, source="the scenario", grade="assumed")
        for key, size in sizes.items()
        if size is not None
    }
    return framework.model_copy(update=asked)


def with_framework_hybrid(workload: Workload, framework: Framework, model: DlrmModel, world_size: int) -> Workload:
    """The workload with hybrid embedding where the framework has it and the model and optimizers allow it.

    That is one lookup for each feature, and SGD (`workloads.dlrm.iteration.hybrid.check_hybrid`).
    """
    own, groups = framework.hybrid_embedding, model.tables.value if model.tables is not None else ()
    one_hot = bool(groups) and all(set(group.feature_pooling) == {1.0} for group in groups)
    sgd = workload.optimizer.dense == workload.optimizer.tables == "sgd"
    if own is None or not own.value or world_size == 1 or not (one_hot and sgd) or workload.hybrid_embedding:
        return workload
    return workload.model_copy(update={"hybrid_embedding": HybridEmbedding()})


def with_framework_algorithms(network: NetworkChoice, framework: Framework, nodes: int) -> NetworkChoice:
    """The network's choices with the framework's own algorithms filled in."""
    own = framework.algorithms(nodes)
    return network.model_copy(update={"algorithms": {**own, **network.algorithms}}) if own else network


def check_framework_algorithms(document: Document, framework: Framework) -> None:
    """Refuse algorithms of a framework that do not exist, on any number of nodes.

    Raises:
        InputError: no collective has an algorithm of that name.
    """
    for key, op in FRAMEWORK_ALGORITHMS.items():
        chosen = getattr(framework, key)
        if chosen is not None:
            with located(document, ("workload", "framework")):
                check_algorithm(op, chosen.value, key)


def check_schedule(document: Document, scenario: Scenario, batch: int, world_size: int) -> None:
    """Refuse settings that contradict each other.

    Raises:
        InputError: a rank has no sample in a pass; the lookups of a pipeline have no bottom MLP to run beside.
    """
    workload = scenario.workload
    passes = workload.gradient_accumulation
    if batch < world_size:
        raise document.error(
            ("workload", "global_batch_size"),
            f"fewer samples than the {world_size} ranks",
            given=batch,
            expected=f"{world_size} or more",
        )
    if batch < world_size * passes:
        raise document.error(
            ("workload", "gradient_accumulation"),
            f"a batch of {batch} has fewer samples than {passes} passes over {world_size} ranks",
            given=passes,
            expected=f"at most {batch // world_size}",
        )
    if workload.pipeline and SCHEDULES[workload.pipeline].own_lookup_stream and workload.overlap.exchange is False:
        raise document.error(
            ("workload", "overlap", "exchange"),
            f"the pipeline {workload.pipeline} exchanges pooled vectors beside the dense part",
            given=False,
            expected="true, or another pipeline",
        )


def _first(chosen: bool | None, default: bool) -> bool:
    return default if chosen is None else chosen
