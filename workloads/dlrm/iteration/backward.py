"""The backward pass, gradient all_reduce beside it, and the optimizers.

Autograd goes back in the reverse of forward: top MLP, interaction, the exchange of pooled gradients (started where
forward waited for it), the bottom MLP meanwhile, last the embedding update, which waits for the exchange (TorchRec
comm_ops.py). DDP launches the all_reduce of a bucket when its last gradient has been computed, and waits for all of
them before the optimizer. Gradients are views of their bucket (TorchRec's DDP wrapper asks for that), so DDP copies
nothing; it divides each by world_size. With a 16-bit all_reduce the whole bucket is cast and divided instead, and cast
back (torch.distributed ``fp16_compress_hook``). `workloads.dlrm.model.choices.Overlap` says where a framework
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount, DenseOptimizer, Elementwise
from simulator.precisions import WIRE_BYTES
from workloads.dlrm.iteration.divided_layers import (
    GatheredWeights,
    gathered_activations,
    scattered_activations,
    sum_divided,
)
from workloads.dlrm.iteration.dot_interaction import record_dot_backward
from workloads.dlrm.iteration.forward import FORWARD_SHARE, output_bytes, pooled_columns, record_features
from workloads.dlrm.iteration.gemms import input_gradient_gemm, weight_gradient_gemm
from workloads.dlrm.iteration.groups import SUM_WORLD, EmbeddingGroup
from workloads.dlrm.iteration.hstu_kernels import StackKernels
from workloads.dlrm.iteration.hstu_tasks import BACKWARD, StackBackward
from workloads.dlrm.iteration.job import COPIED_TABLES, Job
from workloads.dlrm.iteration.output_dist import record_dequantise, record_exchange
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.layers import DenseLayer
from workloads.graph.buckets import GRADIENT_BYTES, Bucket
from workloads.graph.levels import REDUCE, WORLD
from workloads.graph.optimizers import DENSE_ACCESSES
from workloads.graph.recorder import COMM, SUM_COMM, Recorder

OPTIMIZER = "dense_optimizer"
"""The task that updates the parameters that all ranks hold, once per iteration."""


class Backward:
    """Records the backward pass and the optimizers; keeps the gradient all_reduces to wait for."""

    def __init__(self, recorder: Recorder, job: Job, weights: GatheredWeights) -> None:
        """Start with all buckets open."""
        self._recorder, self._job, self._weights = recorder, job, weights
        self._overlaps = job.settings.overlaps
        self._filled: list[tuple[int, Bucket]] = []
        self._reduced: dict[int, int] = {}
        self._divided: list[int] = []
        self._deferred: list[Callable[[], int]] = []
        self._one_rank_has = {layer.name for layer in job.dense.bottom} if job.bottom_on_first_rank else set()

    def record(self) -> tuple[int | None, list[int]]:
        """Record all of it; returns the last task of the bottom MLP, if there is one, and the embedding updates."""
        job = self._job
        if job.dense.hstu is None:
            self._mlp(job.dense.top, "top_mlp_backward", defer=bool(self._overlaps.weight_gradients))
            self._interaction()
        else:
            self._positions(job.dense.hstu)
        exchanges = self._start_exchange()
        if job.bottom_on_first_rank:  # the gradient of its output comes with those of pooled vectors
            wait = next(task for task in exchanges if task is not None)
            self._recorder.stream_wait("wait_bottom_gradient", wait, section="bottom_mlp_backward")
        updates = [] if self._overlaps.exchange else self._update_embeddings(exchanges)
        for weight_gradient in self._deferred:
            weight_gradient()
        samples = job.bottom_samples
        last = self._mlp(job.dense.bottom, "bottom_mlp_backward", input_gradient=False, samples=samples)
        if self._overlaps.exchange:
            updates = self._update_embeddings(exchanges)
        if self._recorder.last_pass:
            self._reduce(self._filled)
            self._optimizer()
            seconds = job.settings.framework.seconds("iteration_s")
            self._recorder.wait_for_launches("iteration_launches", seconds, section="optimizer")
        return last, updates

    def _mlp(
        self,
        layers: tuple[DenseLayer, ...],
        section: str,
        *,
        input_gradient: bool = True,
        defer: bool = False,
        samples: Amount | None = None,
    ) -> int | None:
        """Layers in reverse; returns the last task, None when there is none or the weight gradients are deferred.

        Per layer: gradient through the activation with the bias gradient, then of the inputs, then of the weights; of
        layers without bias the weights first: autograd goes through ``mm(self, mat2)`` and ``addmm(self, mat1, mat2)``
        by name. The first layer's inputs are data and need no gradient when ``input_gradient`` is false. ``samples`` as
        forward. For GEMMs in fp8 the 16-bit gradient is cast first.
        """
        last, samples = None, self._job.batch if samples is None else samples
        for layer in reversed(layers):
            of_inputs = input_gradient or layer is not layers[0]
            self._through(layer, section, samples)
            weights = partial(self._weight_product, layer, section, samples, continues=of_inputs and layer.bias)
            if not layer.bias and not defer:
                last = weights()
            scattered = self._inputs(layer, section, samples, defer=defer) if of_inputs else []
            if layer.bias and not defer:
                last = weights()
            if defer:
                self._deferred.append(partial(self._weight_gradient, layer, section, samples))
            else:
                last = self._weights_ready(layer, section) or last
            for call in scattered:
                last = self._recorder.stream_wait(f"wait_{layer.name}_inputs_backward", call, section=section)
        return last

    def _through(self, layer: DenseLayer, section: str, samples: Amount) -> None:
        """Gradient of a layer's outputs: through its activation, from its tensor group, in fp8; and its weights."""
        job, part = self._job, self._job.parts.get(layer.name)
        size = output_bytes(job, layer, samples)
        if not job.settings.framework.activates_in_gemm and (layer.activation or layer.bias):
            through = Elementwise(3 * size if layer.activation else size, size if layer.activation else 0.0)
            self._recorder.kernel(
                f"{layer.name}_activation_backward",
                through,
                section=section,
                launches=1 + layer.activation,
                operators=_THROUGH[: 1 + layer.activation],
            )
        if part is not None and part.scatters_outputs:
            name = f"{layer.name}_outputs_backward"
            gathered_activations(self._recorder, job, name, layer.outputs, part, section)
            size = size * part.tensor.size
        if job.precision == "fp8":
            self._recorder.kernel(f"{layer.name}_gradient_in_fp8", Elementwise(size, size), section=section)
        self._weights.use(part, section)

    def _inputs(self, layer: DenseLayer, section: str, samples: Amount, *, defer: bool) -> list[int]:
        """Gradient of a layer's inputs; returns the call that scatters it, if a tensor group does."""
        job, part = self._job, self._job.parts.get(layer.name)
        gemm = input_gradient_gemm(job, job.on_rank(layer), job.samples(layer, samples))
        continues = not layer.bias and not defer
        self._recorder.kernel(f"{layer.name}_input_gradient", gemm, section=section, continues=continues)
        if part is None or not part.gathers_inputs:
            return []
        name = f"{layer.name}_inputs_backward"
        return [scattered_activations(self._recorder, job, name, layer.inputs, part, section)]

    def _weight_gradient(self, layer: DenseLayer, section: str, samples: Amount) -> int:
        """Gradient of a layer's weights, added to that of earlier passes; returns the last task."""
        product = self._weight_product(layer, section, samples)
        return self._weights_ready(layer, section) or product

    def _weight_product(self, layer: DenseLayer, section: str, samples: Amount, *, continues: bool = False) -> int:
        """Product for the weights; ``continues``: the operator of the product for the inputs does it."""
        job, name = self._job, f"{layer.name}_weight_gradient"
        gemm = weight_gradient_gemm(job, job.on_rank(layer), job.samples(layer, samples))
        return self._recorder.kernel(name, gemm, section=section, continues=continues)

    def _weights_ready(self, layer: DenseLayer, section: str) -> int | None:
        """Work after both gradients of a layer: that of its weights is cast, if at all, and may be reduced.

        Returns:
            The cast; None where there is none.
        """
        job, last, part = self._job, None, self._job.parts.get(layer.name)
        if part is not None and part.shard.size > 1:
            self._divided += sum_divided(self._recorder, job, part)
            return None
        size = float(job.on_rank(layer).parameters * GRADIENT_BYTES)
        if job.casts_weights:
            cast = Elementwise(size / 2, size)
            last = self._recorder.kernel(f"{layer.name}_gradient_cast", cast, section=section)
        self._ready(layer.name, size)
        return last

    def _positions(self, stack: HstuPart) -> None:
        """Gradients of predictions and of layers over positions, then of the vectors of sequences."""
        kernels = StackKernels.of(self._job, stack)
        self._mlp(self._job.dense.top, "top_mlp_backward", samples=kernels.positions.targets)

        def linear(layers: Sequence[DenseLayer], positions: Amount, section: str) -> None:
            self._mlp(tuple(layers), section, samples=positions)

        def ready(layer: DenseLayer, section: str) -> None:
            self._weights_ready(layer, section)

        record_features(self._recorder, self._job, BACKWARD)
        StackBackward(self._recorder, kernels, linear, BACKWARD, ready).record()

    def _interaction(self) -> None:
        """Gradients of the interaction, then of the pooled vectors in the order and precision of the wire."""
        job, section = self._job, "interaction_backward"
        for v, u in reversed(list(zip(job.dense.cross[::2], job.dense.cross[1::2], strict=True))):
            self._mlp((v, u), section, defer=bool(self._overlaps.weight_gradients))
            size = job.vector_bytes(u.outputs)  # the gradients of x and x0 each gain a term
            self._recorder.kernel(f"{u.name}_accumulate", Elementwise(4 * size, 2 * size), section=section, launches=2)
        inputs = job.vector_bytes(job.dense.interaction_inputs)
        outputs = job.vector_bytes(job.dense.interaction_outputs)
        if job.interaction == "dot":
            record_dot_backward(self._recorder, job)
        else:
            self._recorder.kernel("interaction_backward", Elementwise(outputs, inputs), section=section)
        wire = float(job.batch * job.pooled_width * job.settings.backward_bytes)
        cast = pooled_columns(job, job.vector_bytes(job.pooled_width), wire)
        record_features(self._recorder, job, section)
        self._recorder.kernel("pooled_gradient_permute", cast, section=section, operators=["SliceBackward"])

    def _start_exchange(self) -> list[int | None]:
        """Start to send the pooled gradients to the owners; one task per group, None for copied tables."""
        return [
            record_exchange(self._recorder, group, "backward", group.backward[:1]) if group.backward else None
            for group in self._job.groups
        ]

    def _update_embeddings(self, exchanges: list[int | None]) -> list[int]:
        """End the exchanges; sort, sum and apply the gradients of embedding rows, each group after its exchange.

        Gradients of copied rows need no exchange: where sums of gradients have a stream of their own they come first.

        Returns:
            The updates in the order of the groups.
        """
        groups = list(zip(self._job.groups, exchanges, strict=True))
        copied_first = self._job.settings.framework.sums_apart
        tasks: dict[str, int] = {}
        if copied_first:
            tasks |= {group.kind: self._update(group, None) for group, exchange in groups if exchange is None}
            self._copies_ready()
        tasks |= {group.kind: self._update(group, exchange) for group, exchange in groups if group.kind not in tasks}
        if not copied_first:
            self._copies_ready()
        return [tasks[group.kind] for group, _ in groups]

    def _update(self, group: EmbeddingGroup, exchange: int | None) -> int:
        """Update a group, after its exchange if it has one; returns the kernel."""
        after: list[int] = []
        launches_s = (1 - FORWARD_SHARE) * self._job.settings.framework.seconds("table_s") * group.lookup.tables
        self._recorder.wait_for_launches(f"{group.kind}_update_launches", launches_s, section="embedding_backward")
        if exchange is not None:
            arrived = record_exchange(self._recorder, group, "backward", group.backward[1:], after=exchange)
            after = [*record_dequantise(self._recorder, group, group.backward[-1], after=[arrived])]
        return self._recorder.kernel(
            f"{group.kind}_update", group.update, section="embedding_backward", after=after, launches=_LAUNCHES
        )

    def _copies_ready(self) -> None:
        """The gradients of copied rows may be summed."""
        if self._job.table_copies_bytes > 0.0:
            self._ready(COPIED_TABLES, self._job.table_copies_bytes)

    def _optimizer(self) -> None:
        """Update the parameters that all ranks hold, when all their gradients are summed."""
        job = self._job
        accesses = DENSE_ACCESSES[job.settings.optimizer.dense]
        work = DenseOptimizer(job.parameters, job.copied_bytes * accesses)
        kernels = (
            job.tensors if job.settings.framework.adds_gradients else job.settings.framework.optimizer_kernels.value
        )
        if self._compresses:
            self._reduced = {number: self._decompress(number, task) for number, task in self._reduced.items()}
        after = [*self._reduced.values(), *self._divided]
        self._recorder.kernel(OPTIMIZER, work, section="optimizer", after=after, launches=kernels)

    def _ready(self, name: str, size_bytes: float) -> None:
        """Add the gradients of ``name`` to those of earlier passes; in the last one sum the buckets they complete.

        Autograd adds in place, weights and bias apart (pytorch csrc/autograd/functions/accumulate_grad.h).
        """
        if name in self._one_rank_has:
            return
        section = "gradient_all_reduce"
        if self._job.settings.framework.adds_gradients or not self._recorder.first_pass:
            add, both = Elementwise(2 * size_bytes, size_bytes), ["AccumulateGrad"] * 2
            self._recorder.kernel(f"{name}_gradient_accumulate", add, section=section, launches=2, operators=both)
        part = self._job.parts.get(name)
        if self._job.plain or not self._recorder.last_pass:
            return
        in_a_bucket = part is None or part.sums_whole
        if not (self._sums_as_computed or (in_a_bucket and self._compresses)):
            scale = Elementwise(size_bytes, size_bytes)
            self._recorder.kernel(f"{name}_gradient_scale", scale, section=section, launches=2)  # weights and bias
        filled = [(number, bucket) for number, bucket in enumerate(self._job.buckets) if bucket.ready_after == name]
        if self._overlaps.all_reduce:
            self._reduce(filled)
        else:
            self._filled += filled

    def _reduce(self, buckets: list[tuple[int, Bucket]]) -> None:
        """Launch the all_reduces of numbered buckets."""
        section, precision = "gradient_all_reduce", self._job.settings.precision.all_reduce
        for number, bucket in buckets:
            wire = bucket.parameters * WIRE_BYTES[precision]
            if self._compresses:
                cast = Elementwise(bucket.bytes + wire, 2 * wire)
                self._recorder.kernel(f"gradient_compress_{number}", cast, section=section, launches=2)
            group, stream = bucket.communicator, REDUCE
            if group == WORLD:
                group, stream = (SUM_WORLD, SUM_COMM) if self._job.settings.framework.sums_apart else (WORLD, COMM)
            call = CollectiveCall("all_reduce", group, wire, precision)
            name = f"gradient_all_reduce_{number}"
            self._reduced[number] = self._recorder.collective(name, call, section=section, stream=stream)

    @property
    def _compresses(self) -> bool:
        """Whether fp32 gradients are cast to a narrower type for the wire."""
        narrow = WIRE_BYTES[self._job.settings.precision.all_reduce] < GRADIENT_BYTES
        return narrow and not self._sums_as_computed

    @property
    def _sums_as_computed(self) -> bool:
        """Whether gradients go on the wire as GEMMs write them, scaled beforehand with the loss."""
        return self._job.settings.framework.keeps_half_weights

    def _decompress(self, number: int, reduced: int) -> int:
        """Cast a summed bucket back to fp32."""
        bucket, precision = self._job.buckets[number], self._job.settings.precision.all_reduce
        cast = Elementwise(bucket.parameters * WIRE_BYTES[precision], float(bucket.bytes))
        return self._recorder.kernel(
            f"gradient_decompress_{number}", cast, section="gradient_all_reduce", after=[reduced]
        )


_THROUGH = ("aten::sum", "ReluBackward")
"""Operators of the gradient through an activation: that of the bias, that of the input."""

_LAUNCHES = 9
"""Kernels of an embedding update: linearise, sort, run lengths (2), prefix sum (2), long runs, rows by block, rows by
warp (FBGEMM transpose_embedding_input.cu, embedding_backward_split_template.cu; counted in the TorchRec trace of 8
V100, facebookresearch/param et_replay tests)."""
