"""output_dist: pooled vectors from the ranks that hold tables to those of the samples, and their gradients back.

Column shards go by all_to_all, row blocks by reduce_scatter and all_gather, copies nowhere. A block's lookup comes out
ordered by rank, slot, sample, which is the order on the wire, so with one block nothing is moved before it is sent.
All buffers are made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from trainer.devices import DTYPES
from trainer.exchange import Started, all_gather, all_to_all, reduce_scatter
from trainer.job import TrainingJob
from trainer.layout import Blocks, Kind, ShardBlock, width_of


class OutputDist:
    """Exchange of one kind of shards."""

    def __init__(
        self, job: TrainingJob, kind: Kind, placement: Sequence[Blocks], rank: int, device: torch.device
    ) -> None:
        """Make the buffers.

        Args:
            job: batch, precisions on the wire.
            placement: blocks on each rank ``[P]``.
        """
        self._kind, self._batch = kind, job.local_batch_size
        self._mine = placement[rank]
        wire = job.settings.precision
        forward, backward = wire.forward_all_to_all, wire.backward_all_to_all
        if kind == "data_parallel":
            forward = backward = "fp32"  # nothing is on a wire
        self._receivers = 1 if kind == "data_parallel" else job.world_size
        sources = placement if kind == "column" else [self._mine]
        self._send_splits = [self._batch * width_of(self._mine)] * self._receivers
        self._receive_splits = [self._batch * width_of(blocks) for blocks in sources]
        self._out = self._buffer(sum(self._send_splits), forward, device)
        self._in = self._buffer(sum(self._receive_splits), forward, device)
        self._gradient_out = self._buffer(sum(self._receive_splits), backward, device)
        self._gradient_in = self._buffer(sum(self._send_splits), backward, device)
        if kind == "data_parallel":
            self._in, self._gradient_in = self._out, self._gradient_out
        self._places = _places(job, sources)
        self._sent_back = self._arrived(self._gradient_out)

    def forward(self, pooled: Sequence[Tensor]) -> Started | None:
        """Start to send pooled vectors ``[bags, dim]`` of each block; None where nothing is sent."""
        out = self._whole(pooled, self._out)
        if self._kind == "data_parallel":
            self._in = out
            return None
        if self._kind == "row_wise":
            return reduce_scatter(self._in, out)
        return all_to_all(self._in, out, self._receive_splits, self._send_splits)

    def collect(self, into: Tensor) -> None:
        """Bring received vectors into the columns of its tables ``[B, W]``, in their number format."""
        torch._foreach_copy_(self._columns(into), self._arrived(self._in))

    def backward(self, gradient: Tensor) -> Started | None:
        """Start to send gradients ``[B, W]`` of pooled vectors back; None where nothing is sent."""
        torch._foreach_copy_(self._sent_back, self._columns(gradient))
        if self._kind == "data_parallel":
            return None
        if self._kind == "row_wise":
            return all_gather(self._gradient_in, self._gradient_out)
        return all_to_all(self._gradient_in, self._gradient_out, self._send_splits, self._receive_splits)

    def gradients(self) -> list[Tensor]:
        """Gradients of each block's bags ``[bags, dim]``, fp32, once they have arrived."""
        parts = self._by_block(self._gradient_in)
        return [part.reshape(-1, block.dim).float() for part, block in zip(parts, self._mine, strict=True)]

    def _whole(self, pooled: Sequence[Tensor], buffer: Tensor) -> Tensor:
        """Buffer to send: the lookup's result as it is, or its blocks side by side in the precision of the wire."""
        if len(pooled) == 1 and pooled[0].dtype == buffer.dtype:
            return pooled[0].view(-1)
        for part, block_pooled in zip(self._by_block(buffer), pooled, strict=True):
            part.copy_(block_pooled.view(part.shape))
        return buffer

    def _by_block(self, buffer: Tensor) -> list[Tensor]:
        """A sending buffer as blocks ``[receivers, F, B, dim]``."""
        widths = [self._batch * block.width for block in self._mine]
        parts = buffer.view(self._receivers, sum(widths)).split(widths, dim=1)
        return [
            part.unflatten(1, (len(block.slots), self._batch, block.dim))
            for part, block in zip(parts, self._mine, strict=True)
        ]

    def _arrived(self, buffer: Tensor) -> list[Tensor]:
        """A receiving buffer as vectors ``[B, dim]`` of each shard."""
        sizes = [self._batch * dim for _, dim in self._places]
        return [part.view(self._batch, dim) for part, (_, dim) in zip(buffer.split(sizes), self._places, strict=True)]

    def _columns(self, pooled: Tensor) -> list[Tensor]:
        """The columns ``[B, dim]`` of each shard in the input of the interaction."""
        return [pooled[:, column : column + dim] for column, dim in self._places]

    @staticmethod
    def _buffer(elements: int, precision: str, device: torch.device) -> Tensor:
        return torch.zeros(elements, dtype=DTYPES[precision], device=device)


def _places(job: TrainingJob, sources: Sequence[Blocks]) -> list[tuple[int, int]]:
    """First column and width of each shard among all pooled vectors, in the order in which they arrive."""
    dims = [int(job.plan.tables.dim[table]) for table in job.table_of_feature]
    first = list(accumulate(dims, initial=0))

    def of(block: ShardBlock) -> list[tuple[int, int]]:
        return [(first[slot.feature] + slot.piece.column, slot.piece.dim) for slot in block.slots]

    return [place for blocks in sources for block in blocks for place in of(block)]
