"""A rank's part of the model, and one training iteration of it.

The order of work is that of the simulator's generator (`workloads.dlrm.iteration.generate`), hence of TorchRec: lookups
and their exchange, the bottom MLP beside it, interaction, top MLP, loss; back through the top MLP and the interaction,
the exchange of pooled gradients beside the backward pass of the bottom MLP, the embedding updates, the optimizer once
all gradients are summed. Stages carry the generator's section names in traces.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.profiler import record_function

from trainer.buckets import BucketedGradients
from trainer.dense import DenseModule
from trainer.devices import arithmetic
from trainer.embeddings import CopiedBlock, ShardedBlock
from trainer.exchange import Started
from trainer.input_dist import Distributed
from trainer.job import TrainingJob
from trainer.layout import KINDS, Kind, ShardBlock, placement
from trainer.optimizers import BufferOptimizer
from trainer.output_dist import OutputDist
from trainer.waits import wait
from workloads.dlrm.iteration.job import COPIED_TABLES


class RankModel:
    """The model on a rank: its shards, the dense part, and their optimizers."""

    def __init__(self, job: TrainingJob, rank: int, device: torch.device, *, repeated_weights: bool = False) -> None:
        """Draw the first weights, of tables a part if they are to be ``repeated_weights``, and make the buffers."""
        self._job, self._device = job, device
        self._repeated = repeated_weights
        self._dtype = arithmetic(device, job.settings.precision.dense)
        self.dense = DenseModule(job, device)
        placed = {kind: placement(job, kind) for kind in KINDS}
        self.copied = [
            CopiedBlock(block, job.seed, device, repeated=self._repeated) for block in placed["data_parallel"][rank]
        ]
        used = [kind for kind in KINDS if any(placed[kind])]
        self.sharded = {
            kind: [self._sharded(block) for block in placed[kind][rank]] for kind in used if kind != "data_parallel"
        }
        self._exchanges = {kind: OutputDist(job, kind, placed[kind], rank, device) for kind in used}
        copies = [piece.rows * piece.dim for table in self.copied for piece in table.block.pieces]
        self._buckets = BucketedGradients(job, self.dense.layers, copies, device)
        self._copied_gradients = self._split_copies()
        self.optimizer = BufferOptimizer(
            job.settings.optimizer.dense,
            [(self.dense.flat, self._buckets.dense), *zip(self._weights(), self._copied_gradients, strict=True)],
        )
        self._pooled = torch.zeros(job.local_batch_size, job.job.pooled_width, dtype=self._dtype, device=device)

    def train(self, batch: Distributed, between: Callable[[], None] | None = None) -> Tensor:
        """One iteration; returns the mean loss of the rank's samples, still on the device.

        Args:
            batch: lookups where the tables are, dense features where the samples are.
            between: called between forward and backward.
        """
        loss = self._forward(batch)
        if between is not None:
            between()
        self._backward(loss, batch)
        return loss.detach()

    def _forward(self, batch: Distributed) -> Tensor:
        with torch.no_grad(), record_function("embedding_forward"):
            works = [exchange.forward(self._lookups(kind, batch)) for kind, exchange in self._exchanges.items()]
        with self._autocast():
            with record_function("bottom_mlp_forward"):
                bottom = self.dense.bottom(batch.batch.dense)
            with record_function("output_dist_wait"):
                _wait(works)
            with record_function("interaction_forward"):
                joined = self.dense.interact(bottom, self._collected())
            with record_function("top_mlp_forward"):
                logits = self.dense.top(joined)
            with record_function("loss"):
                clicks = batch.batch.labels.unsqueeze(1).expand(-1, logits.shape[1])
                return binary_cross_entropy_with_logits(logits.float(), clicks)

    def _backward(self, loss: Tensor, batch: Distributed) -> None:
        with record_function("backward"):
            loss.backward()
        with torch.no_grad():
            with record_function("embedding_backward"):
                for (kind, exchange), work in zip(self._exchanges.items(), self._returns, strict=True):
                    _wait([work])
                    self._update(kind, exchange, batch)
            with record_function("all_reduce_wait"):
                self._buckets.wait()
            with record_function("optimizer"):
                self.optimizer.step()

    def _lookups(self, kind: Kind, batch: Distributed) -> list[Tensor]:
        tables = self.copied if kind == "data_parallel" else self.sharded[kind]
        with record_function(f"{kind}_lookup"):
            return [table.pooled(lookups) for table, lookups in zip(tables, batch.lookups[kind], strict=True)]

    def _collected(self) -> Tensor:
        """Pooled vectors as they enter the interaction; when their gradient is there, it is sent back at once."""
        with torch.no_grad():
            for exchange in self._exchanges.values():
                exchange.collect(self._pooled)
        pooled = self._pooled.detach().requires_grad_()
        pooled.register_post_accumulate_grad_hook(self._send_back)
        return pooled

    def _send_back(self, pooled: Tensor) -> None:
        gradient = pooled.grad
        if gradient is None:
            raise RuntimeError("the pooled vectors have no gradient")
        with torch.no_grad(), record_function("output_dist_backward"):
            self._returns = [exchange.backward(gradient) for exchange in self._exchanges.values()]
        pooled.grad = None

    def _update(self, kind: Kind, exchange: OutputDist, batch: Distributed) -> None:
        """Update the tables of a kind; gradients are of the ranks' mean losses: their sum is divided by the ranks."""
        scale = 1.0 / self._job.world_size
        with record_function(f"{kind}_update"):
            gradients = zip(batch.lookups[kind], exchange.gradients(), strict=True)
            if kind != "data_parallel":
                for sharded, (lookups, gradient) in zip(self.sharded[kind], gradients, strict=True):
                    sharded.update(lookups, gradient, scale)
                return
            for copied, into, (lookups, gradient) in zip(self.copied, self._copied_gradients, gradients, strict=True):
                copied.accumulate(lookups, gradient, scale, into)
            self._buckets.ready(COPIED_TABLES)

    def _split_copies(self) -> list[Tensor]:
        """Places of the gradients of copied blocks ``[R, D]`` in the buckets."""
        weights = self._weights()
        parts = self._buckets.copied.split([weight.numel() for weight in weights])
        return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]

    def _weights(self) -> list[Tensor]:
        return [table.weight for table in self.copied]

    def _sharded(self, block: ShardBlock) -> ShardedBlock:
        kind = self._job.settings.optimizer.tables
        return ShardedBlock(block, self._job.seed, self._device, optimizer=kind, repeated=self._repeated)

    def _autocast(self) -> AbstractContextManager[object]:
        """16-bit arithmetic from fp32 weights where the scenario asks for it."""
        if self._dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self._device.type, self._dtype, cache_enabled=False)


def _wait(works: list[Started | None]) -> None:
    for work in works:
        if work is not None:
            wait(work)
