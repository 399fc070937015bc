"""The keys of a DLRM scenario that describe overlap: defaults by framework, and checks."""

from __future__ import annotations

from inputs.yaml_lines import Document
from scenarios.dlrm.section import DlrmSection
from workloads.dlrm.model.choices import HybridEmbedding, Overlap
from workloads.dlrm.model.model import DlrmModel
from workloads.graph.framework import Framework
from workloads.graph.schedule import SCHEDULES


def with_framework_defaults(workload: DlrmSection, framework: Framework) -> DlrmSection:
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


def with_framework_hybrid(
    workload: DlrmSection, framework: Framework, model: DlrmModel, world_size: int
) -> DlrmSection:
    """The workload with hybrid embedding where the framework has it and the model and optimizers allow it.

    That is one lookup for each feature, and SGD (`workloads.dlrm.iteration.hybrid.check_hybrid`).
    """
    own, groups = framework.hybrid_embedding, model.tables.value if model.tables is not None else ()
    one_hot = bool(groups) and all(set(group.feature_pooling) == {1.0} for group in groups)
    sgd = workload.optimizer.dense == workload.optimizer.tables == "sgd"
    if own is None or not own.value or world_size == 1 or not (one_hot and sgd) or workload.hybrid_embedding:
        return workload
    return workload.model_copy(update={"hybrid_embedding": HybridEmbedding()})


def check_overlap(document: Document, workload: DlrmSection) -> None:
    """Refuse settings that contradict each other.

    Raises:
        InputError: the lookups of a pipeline have no bottom MLP to run beside.
    """
    if workload.pipeline and SCHEDULES[workload.pipeline].own_lookup_stream and workload.overlap.exchange is False:
        raise document.error(
            ("workload", "overlap", "exchange"),
            f"the pipeline {workload.pipeline} exchanges pooled vectors beside the dense part",
            given=False,
            expected="true, or another pipeline",
        )


def _first(chosen: bool | None, default: bool) -> bool:
    return default if chosen is None else chosen
