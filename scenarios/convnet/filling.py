"""A convolutional network's own keys, resolved: defaults of its strategy filled, keys of other strategies refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.convnet.section import IMAGES_PER_RANK, ConvnetScenario, ConvnetSection
from scenarios.family import Asked, Filled
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES
from workloads.family import Model
from workloads.graph.parameter_servers import GRPC_SERVER_THREADS

BATCH: KeyPath = ("workload", "global_batch_size")
PER_RANK: KeyPath = ("workload", "images_per_rank")

HOROVOD: Mapping[str, Any] = {"fusion_bytes": FUSION_BYTES, "cycle_time": CYCLE_S}
SERVERS: Mapping[str, Any] = {"servers": 1, "server_threads": GRPC_SERVER_THREADS}
"""Keys of one group of strategies, with their defaults."""


def fill(asked: Asked[Model, ConvnetScenario]) -> Filled[Model]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section = asked.document, asked.scenario.workload
    _check_passes(document, section)
    node = asked.cluster.node
    if node.gpu is None:
        raise document.error(
            ("cluster",),
            f"rates of convolutions are known on GPUs only, and the ranks of {asked.cluster.name} are {node.rank_name}",
            given=asked.cluster.name,
            expected="a cluster whose nodes have GPUs",
        )
    defaults: dict[str, Any] = {}
    for start, keys in (("horovod", HOROVOD), ("grpc_ps", SERVERS)):
        for key, default in keys.items():
            given = getattr(section, key)
            if section.strategy.startswith(start):
                defaults[key] = default if given is None else given
            elif given is not None:
                raise document.error(
                    ("workload", key),
                    f"{key} is a key of {start} strategies, and this one is {section.strategy}",
                    given=given,
                    expected=f"a strategy whose name starts with {start}, or no such key",
                )
    batch = _batch(document, section, asked.world_size)
    return Filled(section.model_copy(update={**defaults, "images_per_rank": None}), asked.model, batch)


def _check_passes(document: Document, section: ConvnetSection) -> None:
    """Refuse keys of all workloads that these do not use.

    Raises:
        InputError: one of them is given.
    """
    if section.gradient_buckets is not None:
        raise document.error(
            ("workload", "gradient_buckets"),
            "gradients are fused by the strategy, not in DDP's buckets",
            expected="workload.fusion_bytes with a horovod strategy",
        )
    if section.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            "every iteration has one pass",
            given=section.gradient_accumulation,
            expected="1",
        )


def _batch(document: Document, section: ConvnetSection, world_size: int) -> int:
    """Images per iteration over all ranks.

    Raises:
        InputError: both keys are given, or ranks cannot have equal batches.
    """
    batch = section.global_batch_size
    if batch is None:
        return (section.images_per_rank or IMAGES_PER_RANK) * world_size
    if section.images_per_rank is not None:
        raise document.error(PER_RANK, "stands beside global_batch_size", expected="one of the two")
    if batch % world_size and batch > world_size:
        below = batch - batch % world_size
        raise document.error(
            BATCH,
            f"the {world_size} ranks cannot share the batch evenly",
            given=batch,
            expected=f"a multiple of {world_size}, e.g. {below} or {below + world_size}",
        )
    return batch
