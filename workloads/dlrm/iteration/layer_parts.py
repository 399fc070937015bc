"""Parts of dense layers that a rank has under strategies other than data parallelism.

A tensor group divides blocks of two layers, the first by columns and the second by rows, so that it exchanges
activations at the ends of a block only (Shoeybi et al., arXiv 1909.08053): the inputs of all its samples are gathered
before the block, and the outputs are summed and scattered behind it. A layer without a partner is divided by rows.
``fsdp`` divides the parameters that are left, ``ddp`` sums gradients over the ranks that have the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from inputs.errors import InputError
from simulator.precisions import Precision
from workloads.dlrm.model.dense import DensePart, padded_width
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.settings import DlrmSettings
from workloads.graph.levels import ALONE, LevelStrategies, RankGroup


@dataclass(frozen=True, slots=True)
class LayerPart:
    """Part of a linear layer on a rank.

    Attributes:
        layer: the layer with the widths of the rank.
        whole: the layer of the model.
        tensor: ranks that divide its widths, and share their samples.
        shard: ranks that divide the parameters of `layer` (FSDP).
        replicas: ranks that have the same parameters, and sum their gradients.
        opens: whether its inputs are those of a block; ``closes``: whether its outputs are.
    """

    layer: DenseLayer
    whole: DenseLayer
    tensor: RankGroup = ALONE
    shard: RankGroup = ALONE
    replicas: RankGroup = ALONE
    opens: bool = True
    closes: bool = True

    @property
    def updated(self) -> int:
        """Parameters that the rank updates; the last shard is padded."""
        return -(-self.layer.parameters // self.shard.size)

    @property
    def sums_whole(self) -> bool:
        """Whether the gradient on a rank is summed whole over its replicas (DDP)."""
        return self.shard.size == 1 and self.replicas.size > 1

    @property
    def sums_divided(self) -> bool:
        """Whether shards of the gradient are summed over their replicas (hybrid FSDP)."""
        return self.shard.size > 1 and self.replicas.size > 1

    @property
    def gathers_inputs(self) -> bool:
        """Whether its inputs are gathered before it, and the gradients of its inputs scattered."""
        return self.opens and self.tensor.size > 1

    @property
    def scatters_outputs(self) -> bool:
        """Whether its outputs are summed and scattered, and their gradients gathered."""
        return self.closes and self.tensor.size > 1


def layer_parts(dense: DensePart, settings: DlrmSettings) -> dict[str, LayerPart]:
    """Parts of the layers that some ranks divide, by name, in forward order; the others are data-parallel.

    Raises:
        InputError: a tensor group does not divide a width.
    """
    found: dict[str, LayerPart] = {}
    classes = {"bottom": (dense.bottom,), "top": (dense.cross, dense.top)}
    for key, networks in classes.items():
        strategies: LevelStrategies = getattr(settings.dense, key)
        sizes = settings.local_world_size, settings.nodes
        tensor, shard, replicas = (strategies.group(name, *sizes) for name in ("tensor", "fsdp", "ddp"))
        if tensor.size == shard.size == 1:
            continue
        for layers in networks:
            for part in _divided(layers, key, tensor, settings.precision.dense):
                found[part.whole.name] = replace(part, tensor=tensor, shard=shard, replicas=replicas)
    return found


def _divided(layers: Sequence[DenseLayer], key: str, group: RankGroup, precision: Precision) -> Iterator[LayerPart]:
    """Layers of a network with the widths of a rank of a tensor group."""
    if group.size == 1:
        yield from (LayerPart(layer, layer) for layer in layers)
        return
    inner = [layers[place + 1 if place + 1 < len(layers) else place].inputs for place in range(0, len(layers), 2)]
    for block, width in enumerate(inner):
        share = _share(width, key, group, precision, inner)
        first, *rest = layers[2 * block : 2 * block + 2]
        if not rest:
            yield LayerPart(replace(first, inputs=share), first)
            continue
        yield LayerPart(replace(first, outputs=share), first, closes=False)
        yield LayerPart(replace(rest[0], inputs=share), rest[0], opens=False)


def _share(width: int, key: str, group: RankGroup, precision: Precision, inner: Sequence[int]) -> int:
    """Share of a width that a rank of a tensor group has; a width is padded if it has to be.

    Raises:
        InputError: the group does not divide it.
    """
    padded = padded_width(width, precision)
    divisible = width if width % group.size == 0 else padded
    if divisible % group.size:
        common = gcd(*(padded_width(of, precision) for of in inner))
        raise InputError(
            f"a tensor group of {group.size} ranks does not divide a layer's width of {width}",
            key=f"workload.dense.{key}",
            given=f"tensor over {group.size} ranks",
            expected=f"a group whose size divides {common}, or ddp or fsdp on a level",
        )
    return divisible // group.size
