"""A convolutional network's own keys, resolved: defaults of its strategy filled, keys of other strategies refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inputs.keys import KeyPath
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.convnet.section import IMAGES_PER_RANK, ConvnetScenario, ConvnetSection
from scenarios.family import Asked, Filled
from scenarios.located import located
from scenarios.shared_keys import beside
from workloads.convnet.block_plan import BlockPlanFile
from workloads.convnet.catalog import network
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, Strategy
from workloads.family import Model
from workloads.graph.parameter_servers import GRPC_SERVER_THREADS

BATCH: KeyPath = ("workload", "global_batch_size")
PER_RANK: KeyPath = ("workload", "images_per_rank")
OUT_OF_CORE: KeyPath = ("workload", "out_of_core")
OUT_OF_CORE_PLAN: KeyPath = ("workload", "out_of_core_plan")

OUT_OF_CORE_STRATEGIES: tuple[Strategy, ...] = ("horovod_nccl", "horovod_mpi", "horovod_mpi_opt", "baidu_ring")
"""Strategies that sum gradients over all ranks, each of which has all weights."""

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
    blocks = _out_of_core(document, section, asked.model)
    return Filled(section.model_copy(update={**defaults, **blocks, "images_per_rank": None}), asked.model, batch)


def _out_of_core(document: Document, section: ConvnetSection, model: Model) -> dict[str, Any]:
    """Keys of training beyond device memory, with the plan file read; choices that change nothing are left out.

    Raises:
        InputError: the strategy exchanges weights with servers, two keys exclude each other, or the plan is wrong.
    """
    found: dict[str, Any] = {
        "out_of_core": None if section.out_of_core == "none" else section.out_of_core,
        "out_of_core_plan": section.out_of_core_plan,
        "weights": None if section.weights == "keep" else section.weights,
    }
    for key, given in found.items():
        if given is not None and section.strategy not in OUT_OF_CORE_STRATEGIES:
            raise document.error(
                ("workload", key),
                f"blocks leave device memory with sums over all ranks only, and the strategy is {section.strategy}",
                given=given if isinstance(given, str) else None,
                expected=f"one of the strategies {', '.join(OUT_OF_CORE_STRATEGIES)}, or no such key",
            )
    if section.out_of_core_plan is None:
        return found
    if section.out_of_core is not None:
        raise document.error(OUT_OF_CORE_PLAN, "stands beside out_of_core", expected="one of the two")
    place: tuple[Document, KeyPath] = (document, OUT_OF_CORE_PLAN)
    if isinstance(section.out_of_core_plan, str):
        place = (load_yaml(beside(document, OUT_OF_CORE_PLAN, section.out_of_core_plan)), ())
    plan = validate(BlockPlanFile, place[0], prefix=place[1])
    with located(*place):
        plan.plan_for(network(model.name, section.classes))
    return {**found, "out_of_core_plan": plan.model_dump(mode="json")}


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
