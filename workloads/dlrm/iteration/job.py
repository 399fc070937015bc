"""Data shared by the parts of the generator: the job's model, plan, settings, and values that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.operators import Amount, FloatArray
from simulator.precisions import Precision
from simulator.program import IntArray
from workloads.dlrm.iteration.embeddings import embedding_groups
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.layer_parts import LayerPart, layer_parts
from workloads.dlrm.iteration.residency import with_residency
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.dense import DensePart, dense_part
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.model import DlrmModel, InteractionKind
from workloads.dlrm.model.sequence_batches import lengths_on_ranks
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.cache import amount
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.buckets import GRADIENT_BYTES, Bucket, gradient_buckets
from workloads.graph.framework import Framework
from workloads.graph.levels import WORLD

PAYLOAD_BYTES = 16
"""Time (int64) and action (int64) of a position, which no table has (generative-recommenders, ``dlrm_hstu.py``)."""

COPIED_TABLES = "data_parallel_tables"
"""Stands for the gradients of copied tables among those of layers."""


@dataclass(frozen=True, slots=True)
class Job:
    """A DLRM job.

    Attributes:
        dense: layers and interaction.
        groups: embedding tables by kind of sharding.
        buckets: gradient buckets of each communicator, in the order in which backward fills them.
        parts: parts of dense layers that have another strategy than data parallelism, by name, in forward order.
    """

    plan: Plan
    settings: DlrmSettings
    dense: DensePart
    interaction: InteractionKind
    groups: tuple[EmbeddingGroup, ...]
    buckets: tuple[Bucket, ...]
    parts: Mapping[str, LayerPart] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Samples on the rank with most samples."""
        return self.settings.local_batch_size

    @property
    def element_bytes(self) -> int:
        """Size of a dense activation."""
        return self.settings.dense_bytes

    @property
    def mixed_precision(self) -> bool:
        """Whether dense layers compute in 16 bits from fp32 weights (autocast), which casts them every iteration."""
        return self.element_bytes < GRADIENT_BYTES

    @property
    def casts_weights(self) -> bool:
        """Whether fp32 weights are cast at each use, and their gradients cast back."""
        return self.mixed_precision and not self.settings.framework.keeps_half_weights

    @property
    def precision(self) -> Precision:
        """Arithmetic of dense layers."""
        return self.settings.precision.dense

    @property
    def bottom_on_first_rank(self) -> bool:
        """Whether the first rank computes the bottom MLP for all samples and its output is exchanged."""
        return bottom_is_exchanged(self.plan, self.settings, self.dense)

    @property
    def bottom_samples(self) -> Amount:
        """Samples that each rank computes the bottom MLP for: its own, or all on the first rank ``[P]``."""
        if not self.bottom_on_first_rank:
            return float(self.batch)
        samples = np.zeros(self.settings.world_size)
        samples[0] = self.settings.global_batch_size
        return samples

    @property
    def sharded(self) -> bool:
        """Whether any table is spread over the ranks, so that indices and pooled vectors are exchanged."""
        return any(group.values is not None for group in self.groups)

    @property
    def exchanges_indices(self) -> bool:
        """Whether the indices of sharded tables are sent to their owners."""
        return self.sharded and not self.settings.framework.owners_read and not self.plain

    @property
    def pooled_width(self) -> int:
        """Elements of all pooled vectors of a sample."""
        return sum(group.width for group in self.groups)

    @property
    def pooled_parts(self) -> int:
        """Parts in which the pooled vectors of a sample come: one for each feature of each range of columns."""
        plan, features = self.plan, self.plan.tables.features
        tables = [plan.columns.table, plan.nodes.table, plan.row_wise, plan.data_parallel]
        return int(sum(features[table].sum() for table in tables))

    @property
    def pairs(self) -> int:
        """Different pairs of vectors that the dot interaction has."""
        vectors = self.plan.tables.feature_count + 1
        return vectors * (vectors - 1) // 2

    @property
    def waits_for_copies_and_loss(self) -> bool:
        """Whether the host waits for the copies of a batch, and for the loss; there is nothing to wait for on CPUs."""
        settings = self.settings
        return settings.framework.waits_for_copies_and_loss and not settings.on_host and settings.cuda_graph == "none"

    @property
    def tensors(self) -> int:
        """Tensors of dense parameters: weights and biases of layers."""
        return sum(1 + layer.bias for layer in self.dense.layers)

    @property
    def plain(self) -> bool:
        """Whether the job is one rank that exchanges, scales and sums nothing."""
        return self.settings.framework.plain_alone and self.settings.world_size == 1

    @property
    def dense_parameters(self) -> int:
        """Dense parameters that a rank updates: all, unless layers are divided."""
        return sum(self._updated(layer) for layer in self.dense.layers)

    @property
    def parameters(self) -> int:
        """Parameters that a rank updates: dense ones and those of copied tables."""
        return self.dense_parameters + sum(group.copied_parameters for group in self.groups)

    @property
    def table_copies_bytes(self) -> float:
        """Size of copied tables and rows, and of their gradients."""
        return sum(group.copied_bytes for group in self.groups)

    @property
    def copied_bytes(self) -> float:
        """Size of those parameters, and of their gradients: dense ones and copies of tables."""
        return self.dense_parameters * GRADIENT_BYTES + self.table_copies_bytes

    def on_rank(self, layer: DenseLayer) -> DenseLayer:
        """A layer with the widths that a rank computes."""
        return self.parts[layer.name].layer if layer.name in self.parts else layer

    def samples(self, layer: DenseLayer, samples: Amount) -> Amount:
        """Samples that a rank computes a layer for: its own, and those of its tensor group."""
        return samples * self.parts[layer.name].tensor.size if layer.name in self.parts else samples

    def _updated(self, layer: DenseLayer) -> int:
        return self.parts[layer.name].updated if layer.name in self.parts else layer.parameters

    @property
    def input_bytes(self) -> Amount:
        """A rank's batch as it comes from the host: dense features (fp32), lengths and indices; ``[P]`` if drawn.

        Where owners read the indices of their tables these are of all samples, ``[P]`` where ranks differ.
        """
        if self.settings.framework.owners_read:
            indices = sum((group.lookup.index_bytes for group in self.groups), 0.0)
            return self.bottom_samples * (self.dense.dense_features * 4.0) + indices
        tables, sent = self.plan.tables, batch_lookups(self.plan.tables, self.settings).sum(axis=0)
        lookups = amount(sent if len(sent) > 1 else sent / (self.settings.global_batch_size / self.batch))
        beside = self.dense.dense_features * 4 + tables.feature_count * self.settings.length_bytes
        positions = self._payload_bytes if self.dense.hstu is not None else 0.0
        return self.batch * float(beside) + lookups * self.settings.index_bytes + positions

    @property
    def _payload_bytes(self) -> Amount:
        """Times and actions of the positions that layers run over."""
        return amount(attended_positions(self.plan.tables, self.settings) * PAYLOAD_BYTES)

    def vector_bytes(self, width: int) -> float:
        """Bytes of a dense activation ``[local batch, width]``."""
        return float(self.batch * width * self.element_bytes)


def attended_positions(tables: Tables, settings: DlrmSettings) -> FloatArray:
    """Positions of the sequence that layers run over on each rank ``[P]``, ``[1]`` where all are alike."""
    return lengths_on_ranks(tables.history, settings.dealing).positions


def make_job(model: DlrmModel, plan: Plan, settings: DlrmSettings) -> Job:
    """Compute the inputs of the generator and the memory estimate.

    Raises:
        InputError: the model contradicts itself.
    """
    dense = dense_part(model, plan.tables)
    exchanged = bottom_is_exchanged(plan, settings, dense)
    groups = embedding_groups(plan, settings, bottom_width=dense.bottom[-1].outputs if exchanged else 0)
    if settings.on_host:
        groups = with_residency(groups, plan, settings, dense)
    summed = dense.layers[len(dense.bottom) if exchanged else 0 :]
    parts = layer_parts(dense, settings)
    copied = [(COPIED_TABLES, group.copied_parameters) for group in groups if group.kind == "frequent"]
    copied += [(COPIED_TABLES, int(size)) for size in _copied(plan)]
    buckets = _buckets(summed, parts, copied, settings.framework)
    return Job(plan, settings, dense, model.interaction.value, groups, buckets, parts)


def _buckets(
    layers: Sequence[DenseLayer],
    parts: Mapping[str, LayerPart],
    copied: Sequence[tuple[str, int]],
    framework: Framework,
) -> tuple[Bucket, ...]:
    """Buckets of each communicator that sums gradients; those of FSDP need none.

    Args:
        copied: gradients of copied rows, which all ranks sum.
    """
    gradients: dict[str, list[tuple[str, int]]] = {WORLD: []}
    for layer in reversed(layers):
        part = parts.get(layer.name)
        if part is None:
            gradients[WORLD].append((layer.name, layer.parameters))
        elif part.sums_whole:
            of_group = gradients.setdefault(part.replicas.communicator, [])
            of_group.append((layer.name, part.layer.parameters))
    gradients[WORLD] += copied
    limits = framework.first_bucket_bytes.value, framework.bucket_bytes.value
    return tuple(bucket for name, found in gradients.items() for bucket in gradient_buckets(found, *limits, name))


def bottom_is_exchanged(plan: Plan, settings: DlrmSettings, dense: DensePart) -> bool:
    """Whether pooled vectors are exchanged and the framework adds the output of a bottom MLP to the exchange."""
    travel = settings.world_size > 1 and len(plan.columns) > 0
    return settings.framework.bottom_on_first_rank and travel and len(dense.bottom) > 0


def _copied(plan: Plan) -> IntArray:
    """Numbers in each copied table, largest first: buckets do not depend on the order of tables in a model."""
    return np.sort(plan.tables.rows[plan.data_parallel] * plan.tables.dim[plan.data_parallel])[::-1]
