"""A convolutional network's own keys, resolved: defaults of its strategy filled, keys of other strategies refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardware_specs import Cluster
from hardware_specs.library import Backend
from inputs.keys import KeyPath, key_text
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.convnet.section import IMAGES_PER_RANK, ConvnetScenario, ConvnetSection
from scenarios.family import Asked, Filled
from scenarios.located import located
from scenarios.shared_keys import beside
from workloads.convnet.block_plan import BlockPlanFile
from workloads.convnet.catalog import network
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, Strategy, require_divisor
from workloads.family import Model
from workloads.graph.divisors import nearest_divisor
from workloads.graph.parameter_servers import GRPC_SERVER_THREADS

BATCH: KeyPath = ("workload", "global_batch_size")
PER_RANK: KeyPath = ("workload", "images_per_rank")
PARTITIONS: KeyPath = ("workload", "partitions")
LAYERS: KeyPath = ("workload", "layers_per_partition")
OUT_OF_CORE: KeyPath = ("workload", "out_of_core")
OUT_OF_CORE_PLAN: KeyPath = ("workload", "out_of_core_plan")
OF_BLOCKS = ("out_of_core", "out_of_core_plan", "weights")
"""Keys of plans for blocks."""

BACKEND_OF: Mapping[Strategy, Backend] = {
    "horovod_mpi": "mpi", "horovod_mpi_opt": "mpi", "baidu_ring": "mpi", "grpc_ps_mpi": "mpi", "horovod_nccl": "nccl",
    "hypar_mpi": "mpi",
}  # fmt: skip
"""Libraries by strategy; other transports of gRPC have the rate of the cluster's library."""

OUT_OF_CORE_STRATEGIES: tuple[Strategy, ...] = ("horovod_nccl", "horovod_mpi", "horovod_mpi_opt", "baidu_ring")
"""Strategies with all weights on every rank, and sums of gradients over all ranks."""

HOROVOD: Mapping[str, Any] = {"fusion_bytes": FUSION_BYTES, "cycle_time": CYCLE_S}
SERVERS: Mapping[str, Any] = {"servers": 1, "server_threads": GRPC_SERVER_THREADS}
PIPELINE: Mapping[str, Any] = {
    "partitions": 1, "layers_per_partition": None, "micro_batches": None, "schedule": "gpipe"
}  # fmt: skip
"""Keys of one group of strategies, with their defaults."""

KEYS_OF: Mapping[str, Mapping[str, Any]] = {"horovod": HOROVOD, "grpc_ps": SERVERS, "hypar": PIPELINE}
"""Keys by the prefix of their strategies' names."""

ON_CPUS: Sequence[Strategy] = ("horovod_mpi", "baidu_ring", "hypar_mpi")
"""Strategies whose messages go by MPI from host memory."""

PARTITIONED: Strategy = "hypar_mpi"


def fill(asked: Asked[Model, ConvnetScenario]) -> Filled[Model]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section = asked.document, asked.scenario.workload
    _check_passes(document, section)
    _check_processors(document, section, asked.cluster)
    defaults: dict[str, Any] = {}
    for start, keys in KEYS_OF.items():
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
    if section.strategy == PARTITIONED:
        defaults["partitions"] = _partitions(document, section, asked.world_size)
    batch = _batch(document, section, asked.world_size)
    if section.strategy == PARTITIONED and section.micro_batches is None:
        images = max(batch // section.training_ranks(asked.world_size), 1)
        defaults["micro_batches"] = nearest_divisor(defaults["partitions"], images)
    blocks = _out_of_core(asked)
    return Filled(section.model_copy(update={**defaults, **blocks, "images_per_rank": None}), asked.model, batch)


def _out_of_core(asked: Asked[Model, ConvnetScenario]) -> dict[str, Any]:
    """Keys of training beyond device memory, with the plan file read; choices that change nothing are left out.

    Raises:
        InputError: ranks lack weights or have no device memory, two keys exclude each other, or the plan is wrong.
    """
    document, section, node = asked.document, asked.scenario.workload, asked.cluster.node
    found: dict[str, Any] = {key: getattr(section, key) for key in OF_BLOCKS}
    found |= {
        key: None for key, does_nothing in (("out_of_core", "none"), ("weights", "keep")) if found[key] == does_nothing
    }
    key = next((key for key in OF_BLOCKS if found[key] is not None), None)
    if key is None:
        return found
    given = found[key] if isinstance(found[key], str) else None
    if section.strategy not in OUT_OF_CORE_STRATEGIES:
        raise document.error(
            ("workload", key),
            f"out-of-core training needs all weights on every rank, and the strategy is {section.strategy}",
            given=given,
            expected=f"one of the strategies {', '.join(OUT_OF_CORE_STRATEGIES)}, or no such key",
        )
    if node.gpu is None:
        raise document.error(
            ("workload", key),
            f"out-of-core training needs GPUs, and {asked.cluster.name} has none",
            given=given,
            expected="a cluster whose nodes have GPUs, or no such key",
        )
    if section.out_of_core_plan is not None:
        found["out_of_core_plan"] = _block_plan(document, section, asked.model)
    return found


def _block_plan(document: Document, section: ConvnetSection, model: Model) -> dict[str, Any]:
    """The plan of a scenario for its blocks, read.

    Raises:
        InputError: the plan is wrong, or a key that asks for a search is given, too.
    """
    if section.out_of_core is not None:
        raise document.error(OUT_OF_CORE_PLAN, "given together with out_of_core", expected="one of the two")
    place: tuple[Document, KeyPath] = (document, OUT_OF_CORE_PLAN)
    if isinstance(section.out_of_core_plan, str):
        place = (load_yaml(beside(document, OUT_OF_CORE_PLAN, section.out_of_core_plan)), ())
    plan = validate(BlockPlanFile, place[0], prefix=place[1])
    with located(*place):
        plan.plan_for(network(model.name, section.classes, section.image_size))
    return plan.model_dump(mode="json")


def _check_processors(document: Document, section: ConvnetSection, cluster: Cluster) -> None:
    """Refuse processors without a rate of convolutions, and strategies for GPUs on CPUs.

    Raises:
        InputError: the cluster or the strategy is refused.
    """
    node = cluster.node
    if node.gpu is None and (node.cpu.kernels or node.cpu.rates is None):
        raise document.error(
            ("cluster",),
            f"no rate of convolutions is known for {node.cpu.name}, the CPU of {node.rank_name} of {cluster.name}",
            given=cluster.name,
            expected="a cluster whose nodes have GPUs, or CPUs with `rates`",
        )
    if node.gpu is None and section.strategy not in ON_CPUS:
        raise document.error(
            ("workload", "strategy"),
            f"{section.strategy} needs GPUs, and {cluster.name} has none",
            given=section.strategy,
            expected=f"one of {', '.join(ON_CPUS)}",
        )


def _partitions(document: Document, section: ConvnetSection, world_size: int) -> int:
    """Number of partitions of the network.

    Raises:
        InputError: the number does not divide the ranks, or the list of layers has another length.
    """
    layers, partitions = section.layers_per_partition, section.held_partitions
    if layers is not None and len(layers) != partitions:
        raise document.error(
            LAYERS,
            f"has {len(layers)} numbers for {partitions} partitions",
            given=list(layers),
            expected=f"{partitions} numbers, or no key partitions",
        )
    with located(document):
        require_divisor(key_text(PARTITIONS), partitions, world_size, f"{world_size} ranks")
    return partitions


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
    batch, sharing = section.global_batch_size, section.training_ranks(world_size)
    if batch is None:
        return (section.images_per_rank or IMAGES_PER_RANK) * sharing
    if section.images_per_rank is not None:
        raise document.error(PER_RANK, "given together with global_batch_size", expected="one of the two")
    if batch % sharing and batch > sharing:
        below = batch - batch % sharing
        raise document.error(
            BATCH,
            f"the {sharing} {'ranks' if sharing == world_size else 'replicas'} cannot share the batch evenly",
            given=batch,
            expected=f"a multiple of {sharing}, e.g. {below} or {below + sharing}",
        )
    return batch
