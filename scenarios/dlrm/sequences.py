"""Keys of a scenario about sequences: laws of lengths, batching, layout; and what jobs with sequences cannot have."""

from __future__ import annotations

from collections.abc import Mapping

from inputs.errors import nearest_name
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.dlrm.section import DlrmScenario, DlrmSection
from scenarios.family import Asked
from workloads.dlrm.laws.sequence_lengths import LengthLaw
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.sequences import SequenceFeature, read_law, why_no_context
from workloads.graded import Graded

LENGTHS: KeyPath = ("workload", "sequence_lengths")
SCENARIO = "the scenario"
"""Source of values that a scenario gives."""
OF_SEQUENCES = ("sequence_lengths", "batching", "sequence_layout")
"""Keys that only models of sequences have."""
NOT_OF_SEQUENCES = ("table_row_wise", "grid_shard", "table_column_wise")
"""Planners that cut tables by rows over the ranks of nodes."""


UNDIVIDED_STACK = "layers over positions are data-parallel"
"""Reason why such layers have no other strategy."""


def refuse_sequences(document: Document, model: DlrmModel, who: str) -> None:
    """Refuse models of sequences where only pooled lookups are modelled.

    Args:
        who: start of the sentence about parts that are modelled.

    Raises:
        InputError: the model has sequences.
    """
    if model.hstu is not None:
        raise document.error(
            ("workload", "model"),
            f"{who} pooled lookups and MLPs only",
            given=model.name,
            expected="a model without sequences",
        )


def with_sequence_lengths(model: DlrmModel, lengths: Mapping[str, LengthLaw] | None, document: Document) -> DlrmModel:
    """The model with the laws of lengths that a scenario gives.

    Raises:
        InputError: there is no such sequence, a file is wrong, or a length lies beyond the maximum.
    """
    sequences = dict(model.sequences or {})
    for name, law in (lengths or {}).items():
        if not sequences:
            expected = "a model such as mlperf_dlrm_v4_hstu, or no such key"
            raise document.error(LENGTHS, f"{model.name} has no sequences", expected=expected)
        if name not in sequences:
            raise document.error(
                (*LENGTHS, name),
                "no such sequence",
                given=name,
                expected=f"one of {', '.join(sequences)}",
                nearest=nearest_name(name, sequences),
            )
        feature: SequenceFeature = sequences[name]
        given = Graded[LengthLaw](value=law, source=SCENARIO, grade="assumed")
        read = read_law(given, feature, document, (*LENGTHS, name))
        sequences[name] = feature.model_copy(update={"lengths": read})
        if model.hstu is not None and name == model.hstu.context:
            why = why_no_context(sequences[name])
            if why is not None:
                raise document.error((*LENGTHS, name), why, given=law.distribution, expected="fixed, or no such key")
    return model.model_copy(update={"sequences": sequences}) if lengths else model


def check_sequences(asked: Asked[DlrmModel, DlrmScenario]) -> None:
    """Refuse keys of sequences for models without any, and keys that models of sequences cannot have.

    Raises:
        InputError: there is one.
    """
    document, chosen = asked.document, asked.scenario.workload
    if asked.model.hstu is None:
        for key in OF_SEQUENCES:
            if getattr(chosen, key) is not None:
                raise document.error(
                    ("workload", key),
                    f"{asked.model.name} has no sequences",
                    expected="a model such as mlperf_dlrm_v4_hstu, or no such key",
                )
        if chosen.sharding.index_dedup:
            place = ("workload", "sharding", "index_dedup")
            raise document.error(place, f"{asked.model.name} has no sequences", given=True, expected="no such key")
        return
    if asked.cluster.node.gpu is None:
        raise document.error(
            ("cluster",),
            "layers of attention were not measured on CPUs",
            given=asked.cluster.name,
            expected="a cluster of GPUs",
        )
    if chosen.sharding.planner in NOT_OF_SEQUENCES:
        raise document.error(
            ("workload", "sharding", "planner"),
            "no kind of sharding that TorchRec has for sequences",
            given=chosen.sharding.planner,
            expected="row_wise, column_wise, table_wise or greedy",
        )
    for key, usual in _unusual(chosen):
        raise document.error(("workload", key), "a job with sequences has none of it", expected=usual)


def _unusual(chosen: DlrmSection) -> list[tuple[str, str]]:
    """Keys that a job with sequences cannot have, each with its expected value."""
    found = []
    if chosen.dense is not None and not chosen.dense.plain:
        found.append(("dense", f"no such key: {UNDIVIDED_STACK}"))
    if chosen.hybrid_embedding is not None:
        found.append(("hybrid_embedding", "no such key"))
    if chosen.pooling_spread is not None:
        found.append(("pooling_spread", "sequence_lengths"))
    if chosen.cuda_graph == "iteration":
        found.append(("cuda_graph", "none or network: the sizes of exchanges differ from batch to batch"))
    if chosen.exchange != "all_to_all":
        found.append(("exchange", "all_to_all"))
    return found
