"""Lookups of a block: which rows each bag reads, and the same turned round, which bags each row serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK_BYTES = 2**20
"""Row gradients summed at a time on a CPU, bytes: they stay in a core's second-level cache, of which AMD's Zen 4 and 5
have 1 MiB, Intel's server cores since Skylake as much or more."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """Lookups of one block.

    Attributes:
        rows: rows of the block, bag after bag ``[L]``.
        offsets: begin of each bag ``[bags + 1]``, in the type of ``rows``.
        lengths: lookups of each bag ``[bags]``.
    """

    rows: Tensor
    offsets: Tensor
    lengths: Tensor

    @property
    def bags(self) -> int:
        """Bags: pairs of a sample and a shard."""
        return self.lengths.numel()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return self.rows, self.offsets, self.lengths


def make_lookups(values: Tensor, lengths: Tensor, first_rows: Sequence[int], sources: int, rows: int) -> Lookups:
    """Lookups of bags that come ordered by source, slot, sample.

    Args:
        values: rows within each shard ``[L]``.
        lengths: lookups of each bag ``[sources x S x B]``.
        first_rows: first row in the block of the shard of each slot ``[S]``.
        sources: ranks that they come from.
    """
    lengths = lengths.reshape(-1)
    slots = len(first_rows)
    if rows > torch.iinfo(values.dtype).max:
        values = values.long()
    if any(first_rows):
        first = torch.tensor(first_rows, dtype=values.dtype, device=values.device).repeat(sources)
        per_slot = lengths.view(sources * slots, -1).sum(1)
        values = values + torch.repeat_interleave(first, per_slot, output_size=values.numel())
    offsets = torch.zeros(lengths.numel() + 1, dtype=values.dtype, device=values.device)
    torch.cumsum(lengths, 0, out=offsets[1:])
    return Lookups(values, offsets, lengths)


@dataclass(frozen=True, slots=True)
class _ByRow:
    """Lookups sorted by row: distinct rows ``[U]``, where the bags of each begin ``[U + 1]``, and the bags ``[L]``."""

    rows: Tensor
    starts: Tensor
    bags: Tensor


def row_gradients(lookups: Lookups, gradient: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Distinct rows ``[u]`` and the sums of their bags' gradients ``[u, D]``, in chunks of ascending rows.

    The sum over the bags of a row is an embedding lookup turned round: the gradients are the table, the rows the bags.
    It goes through the bags in ascending order, so it does not depend on how samples are spread over ranks.

    Args:
        gradient: gradient of each bag ``[bags, D]``, fp32.
    """
    if not lookups.rows.numel():
        return
    by_row = _sorted_by_row(lookups)
    chunk = len(by_row.rows)
    if not gradient.is_cuda:  # a GPU does all at once: otherwise the host would need the begin of each chunk
        chunk = max(1, CHUNK_BYTES // (gradient.element_size() * gradient.shape[1]))
    for low in range(0, len(by_row.rows), chunk):
        starts = by_row.starts[low : low + chunk + 1]
        bags = by_row.bags
        if chunk < len(by_row.rows):
            begin, end = int(starts[0]), int(starts[-1])
            bags, starts = bags[begin:end], starts - begin
        summed = torch.nn.functional.embedding_bag(bags, gradient, starts, mode="sum", include_last_offset=True)
        yield by_row.rows[low : low + chunk], summed


def _sorted_by_row(lookups: Lookups) -> _ByRow:
    """Sort (row, bag) pairs packed into one integer; equal pairs are alike, so the order is always the same."""
    device, count = lookups.rows.device, lookups.rows.numel()
    bits = max(1, (lookups.bags - 1).bit_length())
    bag = torch.repeat_interleave(torch.arange(lookups.bags, device=device), lookups.lengths, output_size=count)
    keys = _sorted((lookups.rows.long() << bits).bitwise_or_(bag))
    rows, counts = torch.unique_consecutive(keys >> bits, return_counts=True)
    starts = torch.zeros(len(rows) + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=starts[1:])
    return _ByRow(rows, starts, keys.bitwise_and_((1 << bits) - 1))


def _sorted(keys: Tensor) -> Tensor:
    """Sort in place where possible: numpy's vectorised sort is three times as fast as torch's on a CPU."""
    if keys.is_cuda:
        return torch.sort(keys).values
    keys.numpy().sort()
    return keys


def stable_order(keys: Tensor, count: int) -> Tensor:
    """The order that sorts small integers below ``count`` and keeps that of equal ones ``[n]``."""
    if keys.is_cuda or count > torch.iinfo(torch.int16).max:
        return torch.sort(keys, stable=True).indices
    return torch.from_numpy(keys.to(torch.int16).numpy().argsort(kind="stable"))  # a radix sort for 16 bits
