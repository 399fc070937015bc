"""Memory per rank: bytes that a plan keeps in each tier.

Counted by the names that reports use: weights, optimizer state, gradients, activations, communication buffers, inputs
in flight, caches, framework reserve, in each memory tier. Bytes of PyTorch's tensors at the peak of an iteration,
without fragmentation (covered by the framework's reserve). Activations and buffers are counted at one of two moments,
the one with more bytes on the rank:

- end of the forward pass: all tensors that autograd keeps for backward, and the received pooled vectors, which the
model's forward still references; exchanges have ended, and their buffers are free;
- embedding backward: the gradient of the pooled vectors, its copy in the order of the owners (the send buffer), the
gradients that an owner receives, and the activations of the bottom MLP.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from simulator.operators import Amount, FloatArray
from simulator.precisions import WIRE_BYTES
from simulator.program import IntArray
from workloads.dlrm.iteration.hstu_kernels import received_bytes, stack_positions, unpooled_elements
from workloads.dlrm.iteration.hstu_memory import SequenceBytes, stack_peak
from workloads.dlrm.iteration.job import PAYLOAD_BYTES, Job, attended_positions, make_job
from workloads.dlrm.iteration.layer_parts import LayerPart, layer_parts
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.dense import DensePart, dense_part
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import KEY_VALUE, WRITE_BUFFER_BYTES, Item, stored_bytes
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.blocks import row_blocks
from workloads.dlrm.rows.traffic import asked_share
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.levels import PREFETCH, gathered_bytes
from workloads.graph.memory import MemoryUse, Tier
from workloads.graph.optimizers import DENSE_STATE
from workloads.graph.schedule import SCHEDULES

AT_A_TIME = 64
"""Tables cut by rows over all ranks that are counted at once: 2 MB an array on 4,096 ranks."""


def memory_per_rank(model: DlrmModel, plan: Plan, settings: DlrmSettings) -> MemoryUse:
    """Memory of each rank.

    Raises:
        InputError: the model contradicts itself.
    """
    return memory_of(make_job(model, plan, settings))


def memory_of(job: Job) -> MemoryUse:
    """Memory of each rank of a job."""
    plan, settings = job.plan, job.settings
    tables = stored_on_ranks(plan, settings)
    activations, buffers = _at_the_peak(job)
    hbm: dict[str, Amount] = {
        "weights": tables["hbm", "weights"] + float(job.copied_bytes),
        **({"gathered weights": gathered} if (gathered := gathered_weights_bytes(job.parts, settings)) else {}),
        "optimizer state": tables["hbm", "optimizer state"] + job.copied_bytes * DENSE_STATE[settings.optimizer.dense],
        "gradients": 0.0 if settings.evaluates else job.copied_bytes,
        "activations": activations + _pooled_ahead_bytes(job) + _held_bytes(job),
        "communication buffers": buffers + partial_sums_bytes(job.parts, settings),
        "inputs in flight": _input_bytes(job),
        "caches": tables["hbm", "caches"],
        "framework reserve": settings.framework.reserve_bytes.value,
    }
    ddr: dict[str, Amount] = {
        "weights": tables["ddr", "weights"],
        "optimizer state": tables["ddr", "optimizer state"],
        "inputs in flight": _queued_batches(settings) * job.input_bytes,
        "caches": tables["ddr", "caches"],
    }
    found: dict[Tier, dict[str, Amount]] = {"hbm": hbm, "ddr": ddr, "ssd": {"weights": tables["ssd", "weights"]}}
    return MemoryUse({tier: _spread(items, plan.world_size) for tier, items in found.items()})


def bytes_beside_tables(model: DlrmModel, tables: Tables, settings: DlrmSettings) -> float:
    """Device memory of a rank that is not for tables, bytes, before a plan exists.

    Activations, buffers and inputs are those of evenly spread tables; planners stay within the rest.
    """
    part, batch, width = dense_part(model, tables), settings.local_batch_size, int(tables.pooled_dim.sum())
    if part.hstu is not None:
        return _beside_sequences(part, part.hstu, tables, settings)
    parts = layer_parts(part, settings)
    per_byte = 2 + DENSE_STATE[settings.optimizer.dense]
    element = batch * settings.dense_bytes
    forward = element * (kept_width(part, parts) + width) + _cast_weight_bytes(part, parts, settings)
    exchanged = 2 * batch * width * max(settings.forward_bytes, settings.backward_bytes)
    backward = element * (_width(part.bottom, parts) + width) + exchanged
    ahead = SCHEDULES[settings.pipeline].lookup * batch * width * settings.forward_bytes
    indices = batch * (
        float(tables.lookups_per_sample.sum()) * settings.index_bytes + tables.feature_count * settings.length_bytes
    )
    schedule = SCHEDULES[settings.pipeline]
    inputs = (schedule.batches_on_device + schedule.exchanged_on_device) * indices
    held = element * width if settings.framework.holds_received_vectors else 0.0
    reserve = settings.framework.reserve_bytes.value + held
    own = GRADIENT_BYTES * sum(
        parts[layer.name].updated if layer.name in parts else layer.parameters for layer in part.layers
    )
    gathered = gathered_weights_bytes(parts, settings) + partial_sums_bytes(parts, settings)
    return own * per_byte + gathered + max(forward, backward) + ahead + inputs + reserve


def _beside_sequences(part: DensePart, stack: HstuPart, tables: Tables, settings: DlrmSettings) -> float:
    """`bytes_beside_tables` of a stack of HSTU layers, on the rank with the longest histories."""
    positions, lookups = stack_positions(stack, tables, settings), batch_lookups(tables, settings)
    elements = (tables.dim @ lookups) / (1 if lookups.shape[1] > 1 else settings.world_size)
    element, gradient = settings.lookup_bytes(summed=False), settings.gradient_bytes(gathered=False)
    rows = lookups * asked_share(tables, settings)[:, None]
    asked = (tables.dim @ rows) / (1 if lookups.shape[1] > 1 else settings.world_size)
    served = float(asked.mean()) * max(element, gradient)
    vectors = SequenceBytes(elements * element, elements * gradient, asked * settings.backward_bytes, served)
    activations, buffers = stack_peak(stack, positions, vectors, settings, settings.world_size)
    schedule, per_byte = SCHEDULES[settings.pipeline], 2 + DENSE_STATE[settings.optimizer.dense]
    indices = float((lookups.sum(axis=0) / (1 if lookups.shape[1] > 1 else settings.world_size)).max())
    batch = indices * settings.index_bytes + settings.local_batch_size * tables.feature_count * settings.length_bytes
    payload = float(np.max(attended_positions(tables, settings))) * PAYLOAD_BYTES
    inputs = schedule.batches_on_device * (batch + payload) + schedule.exchanged_on_device * batch
    ahead = schedule.lookup * float(elements.max()) * element
    reserve = settings.framework.reserve_bytes.value + _cast_weight_bytes(part, {}, settings)
    own = part.bytes * (per_byte - settings.evaluates)  # an evaluation has no gradients
    return float((activations + buffers).max()) + own + inputs + ahead + reserve


def stored_on_ranks(plan: Plan, settings: DlrmSettings) -> dict[tuple[Tier, Item], FloatArray]:
    """Bytes of sharded tables on each rank by tier and item ``[P]``: weights, their optimizer state, caches."""
    tables, columns, count = plan.tables, plan.columns, plan.world_size
    total: dict[tuple[Tier, Item], FloatArray] = defaultdict(lambda: np.zeros(count))

    def add(table: IntArray, rank: IntArray, rows: IntArray, dim: IntArray) -> None:
        element = tables.element_bytes[table]
        found = stored_bytes(
            plan.storage, settings.optimizer.tables, table, rows, dim, element, locks=settings.locks_cache
        )
        for place, size in found.items():
            total[place] = total[place] + np.bincount(rank, weights=size, minlength=count)
        on_ssd = rank[(plan.storage.kernel[table] == KEY_VALUE) & (rows > 0)]
        total["ddr", "caches"][on_ssd] = WRITE_BUFFER_BYTES

    add(columns.table, columns.rank, tables.rows[columns.table], columns.dim)
    by_rows = np.array_split(plan.row_wise, -(-len(plan.row_wise) // AT_A_TIME)) if len(plan.row_wise) else []
    for some in by_rows:
        table = np.repeat(some, count)
        rank = np.tile(np.arange(count), len(some))
        add(table, rank, row_blocks(tables.rows[some], count).ravel(), tables.dim[table])
    nodes, local = plan.nodes, plan.local_world_size
    on_node = (nodes.node[:, None] * local + np.arange(local)).ravel()
    add(np.repeat(nodes.table, local), on_node, plan.node_block_rows().ravel(), np.repeat(nodes.dim, local))
    return total


def _at_the_peak(job: Job) -> tuple[FloatArray, FloatArray]:
    """Activations and buffers of each rank at its peak moment, see the module; two ``[P]``."""
    if job.dense.hstu is not None:
        return _stack_peak(job, job.dense.hstu)
    if job.settings.evaluates:
        return _evaluation_peak(job)
    cast = _cast_weight_bytes(job.dense, job.parts, job.settings)
    kept = job.vector_bytes(kept_width(job.dense, job.parts) + job.pooled_width) + cast
    left, buffers = job.vector_bytes(_width(job.dense.bottom, job.parts) + job.pooled_width), _buffer_bytes(job)
    forward = kept > left + buffers
    return np.where(forward, kept, left), np.where(forward, 0.0, buffers)


def _evaluation_peak(job: Job) -> tuple[FloatArray, FloatArray]:
    """The same of a forward pass only: the widest input and output of a layer or of the interaction."""
    dense = job.dense
    widest = max(dense.interaction_inputs + dense.interaction_outputs, *(of.inputs + of.outputs for of in dense.layers))
    kept = job.vector_bytes(widest + job.pooled_width) + _cast_weight_bytes(dense, job.parts, job.settings)
    return np.broadcast_to(np.asarray(kept), job.plan.world_size), _buffer_bytes(job)


def _stack_peak(job: Job, stack: HstuPart) -> tuple[FloatArray, FloatArray]:
    """The same of a stack of HSTU layers (`workloads.dlrm.iteration.hstu_memory`)."""
    received = unpooled_elements(job)
    served: Amount = 0.0
    for group in job.groups:
        for call in group.forward:
            served = served + np.asarray(call.bytes) / WIRE_BYTES[call.dtype]
    settings = job.settings
    element, gradient = settings.lookup_bytes(summed=False), settings.gradient_bytes(gathered=False)
    sent = received_bytes(job, "backward")
    vectors = SequenceBytes(received * element, received * gradient, sent, served * max(element, gradient))
    positions = stack_positions(stack, job.plan.tables, settings)
    activations, buffers = stack_peak(stack, positions, vectors, settings, job.plan.world_size)
    return activations + _cast_weight_bytes(job.dense, job.parts, settings), buffers


def _held_bytes(job: Job) -> float:
    """Received pooled vectors that the framework keeps a reference to after the forward pass."""
    return job.vector_bytes(job.pooled_width) if job.settings.framework.holds_received_vectors else 0.0


def kept_width(dense: DensePart, parts: Mapping[str, LayerPart]) -> int:
    """Elements per sample that autograd keeps, with the inputs of blocks that tensor groups gathered."""
    return dense.kept_outputs + _gathered_width(dense.layers, parts)


def _width(layers: Sequence[DenseLayer], parts: Mapping[str, LayerPart]) -> int:
    return sum(layer.outputs for layer in layers) + _gathered_width(layers, parts)


def _gathered_width(layers: Sequence[DenseLayer], parts: Mapping[str, LayerPart]) -> int:
    """Elements of gathered inputs, for each sample of a rank."""
    found = [parts[layer.name] for layer in layers if layer.name in parts]
    return sum(part.tensor.size * part.whole.inputs for part in found if part.gathers_inputs)


def gathered_weights_bytes(parts: Mapping[str, LayerPart], settings: DlrmSettings) -> float:
    """Weights that FSDP has gathered at a time, and the whole gradient of a layer in the number format of its sum."""
    divided = [part.layer.parameters for part in parts.values() if part.shard.size > 1]
    gradient = max(divided, default=0) * WIRE_BYTES[settings.precision.all_reduce]
    return gathered_bytes(divided, PREFETCH, settings.dense_bytes) + gradient


def partial_sums_bytes(parts: Mapping[str, LayerPart], settings: DlrmSettings) -> float:
    """Largest outputs of a block for the samples of a tensor group, before they are summed and scattered."""
    widths = (part.tensor.size * part.whole.outputs for part in parts.values() if part.scatters_outputs)
    return float(max(widths, default=0) * settings.local_batch_size * settings.dense_bytes)


def _cast_weight_bytes(dense: DensePart, parts: Mapping[str, LayerPart], settings: DlrmSettings) -> float:
    """16-bit copies of fp32 weights that layers save for the gradients of their inputs (autocast); FSDP has none."""
    if settings.dense_bytes == GRADIENT_BYTES or settings.framework.keeps_half_weights:
        return 0.0
    cast = [layer for layer in dense.layers if layer.name not in parts]
    cast += [part.layer for part in parts.values() if part.shard.size == 1]
    return float(sum(layer.parameters for layer in cast) * settings.dense_bytes)


def _buffer_bytes(job: Job) -> FloatArray:
    """Gradients of pooled vectors that a rank sends, and gradients that it receives as an owner, over all steps."""
    total = np.zeros(job.plan.world_size)
    for group in job.groups:
        if group.forward:
            element = max(WIRE_BYTES[call.dtype] for call in (*group.forward, *group.backward))
            owned = sum(np.asarray(call.bytes) / WIRE_BYTES[call.dtype] for call in group.forward)
            total = total + (owned + job.batch * group.width) * element
    return total


def _input_bytes(job: Job) -> Amount:
    """Batches on the device: as copied, and in the order of the owners (`Schedule.exchanged_on_device`)."""
    received = np.zeros(job.plan.world_size)
    for group in job.groups:
        received = received + np.asarray(group.lookup.index_bytes)
    schedule = SCHEDULES[job.settings.pipeline]
    return schedule.batches_on_device * job.input_bytes + schedule.exchanged_on_device * received


def _pooled_ahead_bytes(job: Job) -> Amount:
    """Pooled vectors, or vectors of sequences, of the batches that are looked up ahead."""
    pooled = job.batch * job.pooled_width * job.settings.forward_bytes
    unpooled = unpooled_elements(job) * job.settings.lookup_bytes(summed=False)
    return SCHEDULES[job.settings.pipeline].lookup * (pooled + unpooled)


def _queued_batches(settings: DlrmSettings) -> int:
    """Batches in the pinned memory of the host: two, or as many as the queue of readers holds."""
    return 2 if settings.ingestion is None else settings.ingestion.queue_batches


def _spread(items: Mapping[str, Amount], world_size: int) -> dict[str, FloatArray]:
    return {
        name: np.broadcast_to(np.asarray(size, dtype=np.float64), world_size).copy() for name, size in items.items()
    }
