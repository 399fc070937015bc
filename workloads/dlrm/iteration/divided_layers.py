"""Exchanges of dense layers that ranks divide: gathered weights, activations of tensor groups, sums of gradients."""

from __future__ import annotations

from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.operators import Elementwise
from simulator.precisions import WIRE_BYTES
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.iteration.layer_parts import LayerPart
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.levels import GATHER, PREFETCH, REDUCE, REPLICATE, TENSOR, WORLD, gathered_copies
from workloads.graph.recorder import Recorder

WEIGHTS, GRADIENTS = "weight_all_gather", "gradient_reduce_scatter"
"""Sections of the exchanges of FSDP."""


def divided_streams(job: Job) -> list[str]:
    """Streams of a rank that exchanges of divided layers use."""
    parts = job.parts.values()
    used = {
        TENSOR: any(part.tensor.size > 1 for part in parts),
        GATHER: any(part.shard.size > 1 for part in parts),
        REDUCE: any(part.shard.size > 1 or part.replicas.communicator != WORLD for part in parts),
        REPLICATE: any(part.sums_divided for part in parts),
    }
    return [name for name, is_used in used.items() if is_used]


class GatheredWeights:
    """Gathers the weights of divided layers before each use, forward and backward, `PREFETCH` layers ahead."""

    def __init__(self, recorder: Recorder, job: Job, optimizer: str) -> None:
        """Nothing of a pass is gathered yet.

        Args:
            optimizer: name of the task that updates the weights.
        """
        self._recorder, self._job, self._optimizer = recorder, job, optimizer
        forward = [name for name, part in job.parts.items() if part.shard.size > 1]
        self._uses = [(name, "forward") for name in forward] + [(name, "backward") for name in reversed(forward)]
        self._calls: list[int] = []
        self._used = 0

    def use(self, part: LayerPart | None, section: str) -> list[int]:
        """Hold the kernels for the weights of a layer, and gather those of the next one; returns the held tasks.

        Raises:
            ValueError: another layer is the next one.
        """
        if part is None or part.shard.size == 1:
            return []
        while len(self._calls) < min(self._used + 1 + PREFETCH, len(self._uses)):
            self._gather(*self._uses[len(self._calls)])
        layer, direction = self._uses[self._used]
        if layer != part.whole.name:
            raise ValueError(f"the weights of {part.whole.name} are used in place of those of {layer}")
        name = f"{layer}_weights_{direction}"
        held = [self._recorder.stream_wait(f"wait_{name}", self._calls[self._used], section=section)]
        self._used += 1
        element, parameters = self._job.element_bytes, part.layer.parameters
        copies = gathered_copies(parameters, element, element, gathered=True, reduced=False)
        if copies is not None:
            held.append(self._recorder.kernel(f"{name}_copy", copies, section=section))
        return held

    def _gather(self, layer: str, direction: str) -> None:
        """Gather a layer's weights, from where the host is; the first ones wait for the update before."""
        part, job = self._job.parts[layer], self._job
        size = float(part.layer.parameters * job.element_bytes)
        call = CollectiveCall("all_gather", part.shard.communicator, size, dtype=_wire_type(job))
        name = f"{layer}_weights_{direction}"
        task = self._recorder.collective(name, call, section=WEIGHTS, stream=GATHER)
        if not self._calls:
            self._recorder.depend(task, self._optimizer, lag=1)
        self._calls.append(task)


def gathered_activations(recorder: Recorder, job: Job, name: str, width: int, part: LayerPart, section: str) -> int:
    """Gather activations of the samples of a tensor group; returns the wait of the kernels.

    Args:
        width: elements of a sample.
    """
    return recorder.stream_wait(
        f"wait_{name}", _activations(recorder, job, name, "all_gather", width, part, section), section=section
    )


def scattered_activations(recorder: Recorder, job: Job, name: str, width: int, part: LayerPart, section: str) -> int:
    """Sum the parts of activations over a tensor group, and scatter the samples; returns the call."""
    return _activations(recorder, job, name, "reduce_scatter", width, part, section)


def sum_divided(recorder: Recorder, job: Job, part: LayerPart) -> list[int]:
    """Sum a layer's gradient of FSDP: scattered over the shards, in the last pass over their replicas; returns calls.

    It is divided by the number of ranks in the buffer of the call, unless the loss was. Gradients of earlier passes are
    kept divided, and added.
    """
    name, dtype = part.whole.name, job.settings.precision.all_reduce
    element, parameters = WIRE_BYTES[dtype], part.layer.parameters
    copy = gathered_copies(parameters, job.element_bytes, element, gathered=False, reduced=True)
    if copy is not None:
        recorder.kernel(f"{name}_gradient_copy", copy, section=GRADIENTS)
    if not job.settings.framework.keeps_half_weights:
        size = float(parameters * element)
        recorder.kernel(f"{name}_gradient_scale", Elementwise(size, size), section=GRADIENTS)
    scatter = CollectiveCall("reduce_scatter", part.shard.communicator, parameters * element, dtype=dtype)
    calls = [recorder.collective(f"{name}_gradient_scatter", scatter, section=GRADIENTS, stream=REDUCE)]
    if not recorder.first_pass:
        size = float(part.updated * GRADIENT_BYTES)
        add, both = Elementwise(2 * size, size), ["AccumulateGrad"]
        recorder.kernel(f"{name}_gradient_accumulate", add, section=GRADIENTS, after=calls, operators=both)
    if part.sums_divided and recorder.last_pass:
        own = parameters * element / part.shard.size
        call = CollectiveCall("all_reduce", part.replicas.communicator, own, dtype=dtype)
        calls.append(recorder.collective(f"{name}_gradient_replicas", call, section=GRADIENTS, stream=REPLICATE))
        recorder.depend(calls[1], calls[0])
    return calls


def _activations(
    recorder: Recorder, job: Job, name: str, op: CollectiveOp, width: int, part: LayerPart, section: str
) -> int:
    size = float(job.batch * part.tensor.size * width * job.element_bytes)
    call = CollectiveCall(op, part.tensor.communicator, size, dtype=_wire_type(job))
    return recorder.collective(name, call, section=section, stream=TENSOR)


def _wire_type(job: Job) -> str:
    """Number format of activations and gathered weights on the wire."""
    return {"tf32": "fp32", "fp8": "bf16"}.get(job.precision, job.precision)
