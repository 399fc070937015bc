"""A transformer's own keys, resolved: sizes of groups, sequences and micro-batches, checked against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from hardware_specs import Cluster
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.family import Asked, Filled
from scenarios.located import located
from scenarios.site_order import SEARCH
from scenarios.transformer.divisions import shared_in_node
from scenarios.transformer.messages import StageMessages
from scenarios.transformer.section import ParallelChoice, TransformerScenario, TransformerSection
from scenarios.transformer.typed import TransformerResolved
from simulator.precisions import Precision
from workloads.graph.divisors import nearest_divisor
from workloads.graph.framework import Framework
from workloads.transformer.architecture import Transformer
from workloads.transformer.settings import ParallelSizes, TransformerSettings

BATCH: KeyPath = ("workload", "global_batch_size")
SEQUENCES: KeyPath = ("workload", "sequences")
PARALLEL: KeyPath = ("workload", "parallel")
COMPRESSION: KeyPath = ("workload", "compression")


def fill(asked: Asked[Transformer, TransformerScenario]) -> Filled[Transformer]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section = asked.document, asked.scenario.workload
    if asked.cluster.node.gpu is None:
        raise document.error(
            ("cluster",), "transformers train on GPUs", given=asked.cluster.name, expected="a cluster with GPUs"
        )
    gpu = asked.cluster.node.gpu
    if section.attention == "flash3" and gpu.architecture != "hopper":
        raise document.error(
            ("workload", "attention"),
            f"FlashAttention 3 is for Hopper, and {gpu.name} is {gpu.architecture}",
            given="flash3",
            expected="flash2, cudnn or unfused",
        )
    if section.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            "passes follow from sequences and micro_batch_size",
            given=section.gradient_accumulation,
            expected="1",
        )
    sizes = sizes_of(document, section, asked.world_size, asked.cluster)
    length = section.sequence or asked.model.sequence
    batch = _sequences(document, section, sizes, length) * length
    filled = section.model_copy(update={"sequence": length, "sequences": None})
    with located(document):
        settings = plain_settings(asked.scenario, filled, asked.model, asked.framework, sizes, batch)
    _check_compression(document, section, settings, asked.cluster)
    order = None
    if asked.scenario.site_order == SEARCH and sizes.pipeline > 1:
        order = StageMessages.of(asked.scenario, asked.cluster, settings).best_order()
    return Filled(filled, asked.model, batch, site_order=order)


def _check_compression(
    document: Document, section: TransformerSection, settings: TransformerSettings, cluster: Cluster
) -> None:
    """Refuse compression without effect, and formats that cannot have their ratio.

    Raises:
        InputError: no tensor is named, no message is sent, or an element has fewer bits than the ratio.
    """
    choice = section.compression
    if choice is None:
        return
    if settings.sizes.pipeline == 1:
        message = "the job has no messages between stages"
        expected = "a pipeline of 2 or more, or no such key"
        raise document.error(COMPRESSION, message, given="pipeline: 1", expected=expected)
    if choice.where == "between_sites" and len(cluster.site_names) < 2:
        expected = "everywhere, or a cluster with several `sites`"
        where = (*COMPRESSION, "where")
        raise document.error(where, f"{cluster.name} is one site", given=choice.where, expected=expected)
    bits, tensors = 8 * settings.element_bytes, {"activations": choice.activations, "gradients": choice.gradients}
    if not any(tensors.values()):
        raise document.error(COMPRESSION, "the direction is missing", expected="activations, gradients, or both")
    for name, tensor in tensors.items():
        if tensor is not None and tensor.format == "quantize" and tensor.ratio > bits:
            message = f"an element has {bits} bits"
            expected = f"1 to {bits}: at least one bit is left"
            raise document.error((*COMPRESSION, name, "ratio"), message, given=tensor.ratio, expected=expected)


def sizes_of(document: Document, section: TransformerSection, world_size: int, cluster: Cluster) -> ParallelSizes:
    """Sizes of the groups.

    Raises:
        InputError: their product is not the number of ranks, or a size of shards is given without hybrid sharding.
    """
    asked = section.parallel
    data = _data_groups(document, asked, world_size)
    if asked.shard_size is not None and asked.sharding != "hybrid":
        raise document.error(
            (*PARALLEL, "shard_size"),
            f"only hybrid sharding has groups, and this is {asked.sharding}",
            given=asked.shard_size,
            expected="sharding: hybrid, or no such key",
        )
    sizes = ParallelSizes(data=data, **asked.model_dump(exclude={"data", "shard_size"}))
    return replace(sizes, shard_size=asked.shard_size or shared_in_node(sizes, cluster.node.ranks))


def _data_groups(document: Document, asked: ParallelChoice, world_size: int) -> int:
    """Groups with sequences of their own: what the other sizes leave.

    Raises:
        InputError: a size does not divide the ranks that those before it leave, or is not what they leave.
    """
    left = world_size
    for key in ("tensor", "context", "pipeline"):
        size = getattr(asked, key)
        if left % size:
            of = f"the {world_size} ranks" if left == world_size else f"the {left} of {world_size} ranks that are left"
            raise document.error(
                (*PARALLEL, key),
                f"does not divide {of}",
                given=size,
                expected=f"a divisor of {left}",
                nearest=str(nearest_divisor(size, left)),
            )
        left //= size
    if asked.data not in (None, left):
        raise document.error(
            (*PARALLEL, "data"),
            f"data x tensor x pipeline x context = {asked.data * world_size // left}, and there are {world_size} ranks",
            given=asked.data,
            expected=f"{left}, or no such key",
        )
    return left


def _sequences(document: Document, section: TransformerSection, sizes: ParallelSizes, length: int) -> int:
    """Sequences of an iteration over all ranks.

    Raises:
        InputError: both keys are given, or the batch is not whole micro-batches for every data group.
    """
    step = sizes.data * section.micro_batch_size
    tokens, asked = section.global_batch_size, section.sequences
    if tokens is None:
        sequences, key, unit = asked or step * sizes.pipeline, SEQUENCES, 1
    elif asked is not None:
        raise document.error(SEQUENCES, "given together with global_batch_size", expected="one of the two")
    else:
        sequences, key, unit = tokens // length, BATCH, length
    if (tokens or length) % length or sequences < 1 or sequences % step:
        below = max(sequences - sequences % step, step)
        words = f"micro-batches of {section.micro_batch_size} x {length} tokens in {sizes.data} data groups"
        raise document.error(
            key,
            f"the batch is not whole {words}",
            given=asked if tokens is None else tokens,
            expected=f"a multiple of {step * unit}, e.g. {below * unit} or {(below + step) * unit}",
        )
    return sequences


def plain_settings(
    scenario: TransformerScenario,
    section: TransformerSection,
    model: Transformer,
    framework: Framework,
    sizes: ParallelSizes,
    tokens: int,
) -> TransformerSettings:
    """The settings of a scenario whose section is filled, without compression; raises as `TransformerSettings`."""
    length = section.sequence or model.sequence
    return TransformerSettings(
        model=model,
        sequence=length,
        micro_batch=section.micro_batch_size,
        microbatches=tokens // (length * sizes.data * section.micro_batch_size),
        sizes=sizes,
        recompute=section.recompute,
        compiled=section.compiled,
        attention=section.attention,
        precision=cast(Precision, scenario.precision.dense),
        reduced=scenario.precision.all_reduce,
        state=scenario.precision.state,
        optimizer=section.optimizer.dense,
        first_bucket_bytes=framework.first_bucket_bytes.value,
        bucket_bytes=framework.bucket_bytes.value,
        operator_s=framework.operator_s.value,
        iteration_s=framework.seconds("iteration_s"),
        optimizer_kernels=framework.optimizer_kernels.value,
        reserve_bytes=framework.reserve_bytes.value,
        layers_apart=bool(scenario.transform),
    )


def settings_of_resolved(resolved: TransformerResolved) -> TransformerSettings:
    """The settings of a resolved scenario."""
    scenario, section = resolved.scenario, resolved.scenario.workload
    sizes = sizes_of(resolved.document, section, resolved.world_size, resolved.cluster)
    plain = plain_settings(scenario, section, resolved.model, resolved.framework, sizes, resolved.global_batch_size)
    return StageMessages.of(scenario, resolved.cluster, plain).compressed(resolved.site_order)
