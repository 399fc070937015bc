"""input_dist: indices from the ranks of the samples to those that hold the tables, as TorchRec's dist_data.py does it.

The ranks exchange in one all_to_all how much they will send (splits), which the host has to know; lengths and
values follow, an all_to_all of each for column shards and one for row blocks. Copied tables are looked up where the
samples are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.batches import Batch
from trainer.exchange import Started, all_to_all
from trainer.job import TrainingJob
from trainer.layout import Blocks, Kind, placement, rows_per_rank
from trainer.lookups import Lookups, make_lookups, stable_order
from trainer.waits import wait


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """Data that a kind of shards sends: bag lengths and values, receiver after receiver, and the counts ``[P]``."""

    lengths: Tensor
    values: Tensor
    length_splits: list[int]
    value_splits: Tensor


class ColumnRoute:
    """Sends each feature to the owners of its columns, once to each owner."""

    def __init__(self, job: TrainingJob, blocks: Sequence[Blocks], rank: int, device: torch.device) -> None:
        """Note which features go where."""
        self.mine = blocks[rank]
        batch = job.local_batch_size
        features = [[slot.feature for block in owned for slot in block.slots] for owned in blocks]
        self._features = features
        self._order = torch.tensor([feature for owned in features for feature in owned], device=device)
        self._length_splits = [len(owned) * batch for owned in features]
        self.receive_lengths = [len(features[rank]) * batch] * job.world_size

    def outgoing(self, batch: Batch) -> _Outgoing:
        """Put features into the order of their owners."""
        sizes = [sum(batch.starts[f + 1] - batch.starts[f] for f in owned) for owned in self._features]
        return _Outgoing(
            lengths=batch.lengths.index_select(0, self._order).view(-1),
            values=torch.cat([batch.of_feature(feature) for owned in self._features for feature in owned]),
            length_splits=self._length_splits,
            value_splits=torch.tensor(sizes, dtype=torch.int64),
        )


class RowRoute:
    """Sends each index to the owner of its row (FBGEMM's block_bucketize_sparse_features)."""

    def __init__(self, job: TrainingJob, blocks: Sequence[Blocks], rank: int) -> None:
        """Note how tables are cut."""
        self.mine = blocks[rank]
        self._world_size = job.world_size
        slots = [slot for block in self.mine for slot in block.slots]
        self._features = [(slot.feature, rows_per_rank(job.world_size, slot.piece)) for slot in slots]
        self._length_splits = [len(slots) * job.local_batch_size] * job.world_size
        self.receive_lengths = self._length_splits

    def outgoing(self, batch: Batch) -> _Outgoing:
        """Cut features into blocks of rows."""
        lengths = torch.stack([batch.lengths[feature] for feature, _ in self._features]).view(-1)
        features = [(batch.of_feature(feature), held) for feature, held in self._features]
        counts, values = bucketized(features, lengths, self._world_size)
        return _Outgoing(
            lengths=counts.to(lengths.dtype),
            values=values,
            length_splits=self._length_splits,
            value_splits=counts.view(self._world_size, -1).sum(1).cpu(),
        )


def bucketized(features: Sequence[tuple[Tensor, int]], lengths: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
    """Lookups of each owner's bags ``[P x bags]``, and the rows on their owners in that order ``[L]``.

    Args:
        features: values of each feature, and how many rows a rank holds of its table.
        lengths: lookups of each bag, feature after feature ``[bags]``.
        ranks: owners.
    """
    bags = lengths.numel()
    owners, rows = [], []
    for values, held in features:
        owner = torch.div(values, held, rounding_mode="floor")
        owners.append(owner)
        rows.append(values - owner * held)
    owner, local = torch.cat(owners), torch.cat(rows)
    bag = torch.repeat_interleave(torch.arange(bags, device=local.device), lengths, output_size=local.numel())
    counts = torch.bincount(owner.long() * bags + bag, minlength=ranks * bags)
    return counts, local.index_select(0, stable_order(owner, ranks))


@dataclass(frozen=True, slots=True)
class SplitsInFlight:
    """A batch whose splits are being exchanged: ``[P, 1 + 2 K]``, batch size, then lengths and values of each kind."""

    batch: Batch
    outgoing: dict[Kind, _Outgoing]
    received: Tensor
    sent: Tensor
    work: Started


@dataclass(frozen=True, slots=True)
class ValuesInFlight:
    """A batch whose lengths and values are being exchanged."""

    batch: Batch
    outgoing: dict[Kind, _Outgoing]
    lengths: dict[Kind, Tensor]
    values: dict[Kind, Tensor]
    received: dict[Kind, list[int]]
    works: list[Started]


@dataclass(frozen=True, slots=True)
class Distributed:
    """A batch that is where it is needed: lookups of each block of each kind."""

    batch: Batch
    lookups: dict[Kind, list[Lookups]]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors."""
        of_lookups = [t for blocks in self.lookups.values() for lookup in blocks for t in lookup.tensors]
        return [*self.batch.tensors, *of_lookups]


class InputDist:
    """Exchanges the indices of one batch after the other."""

    def __init__(self, job: TrainingJob, rank: int, device: torch.device, group: dist.ProcessGroup | None) -> None:
        """Note the routes; ``group``: of its own, None for that of all collectives."""
        self._world_size, self._device, self._group = job.world_size, device, group
        self._batch = job.local_batch_size
        columns, rows = placement(job, "column"), placement(job, "row_wise")
        self._copies = placement(job, "data_parallel")[rank]
        self._routes: dict[Kind, ColumnRoute | RowRoute] = {}
        if any(columns):
            self._routes["column"] = ColumnRoute(job, columns, rank, device)
        if rows[rank]:
            self._routes["row_wise"] = RowRoute(job, rows, rank)

    def start(self, batch: Batch) -> SplitsInFlight | Batch:
        """Put features into the order of their owners and start to exchange splits; nothing to do for copies alone."""
        if not self._routes:
            return batch
        outgoing = {kind: route.outgoing(batch) for kind, route in self._routes.items()}
        sent = torch.empty(self._world_size, 1 + 2 * len(outgoing), dtype=torch.int64)
        sent[:, 0] = self._batch
        for number, part in enumerate(outgoing.values()):
            sent[:, 1 + 2 * number] = torch.tensor(part.length_splits)
            sent[:, 2 + 2 * number] = part.value_splits
        sent = sent.to(self._device, non_blocking=True)
        received = torch.empty_like(sent)
        work = all_to_all(received, sent, group=self._group)
        return SplitsInFlight(batch, outgoing, received, sent, work)

    def finish(self, splits: SplitsInFlight | Batch) -> ValuesInFlight:
        """Wait for the splits on the host and start to exchange lengths and values."""
        if isinstance(splits, Batch):
            return ValuesInFlight(splits, {}, {}, {}, {}, [])
        wait(splits.work)
        host = splits.received.cpu().tolist()
        flight = ValuesInFlight(splits.batch, splits.outgoing, {}, {}, {}, [])
        for number, (kind, out) in enumerate(splits.outgoing.items()):
            sizes = [row[2 + 2 * number] for row in host]
            flight.received[kind] = sizes
            flight.lengths[kind] = self._exchange(
                flight, out.lengths, self._routes[kind].receive_lengths, out.length_splits
            )
            flight.values[kind] = self._exchange(flight, out.values, sizes, out.value_splits.tolist())
        return flight

    def wait(self, flight: ValuesInFlight) -> Distributed:
        """Wait for lengths and values, and put them into the order of the blocks."""
        for work in flight.works:
            wait(work)
        lookups = {
            kind: _by_block(route.mine, flight.lengths[kind], flight.values[kind], flight.received[kind], self._batch)
            for kind, route in self._routes.items()
        }
        if self._copies:
            lookups["data_parallel"] = self._local(flight.batch)
        return Distributed(flight.batch, lookups)

    def _local(self, batch: Batch) -> list[Lookups]:
        """Lookups of copied tables, which are where they are needed."""
        features = [slot.feature for block in self._copies for slot in block.slots]
        lengths = torch.stack([batch.lengths[feature] for feature in features])
        values = torch.cat([batch.of_feature(feature) for feature in features])
        return _by_block(self._copies, lengths, values, [values.numel()], self._batch)

    def _exchange(self, flight: ValuesInFlight, out: Tensor, receive: list[int], send: list[int]) -> Tensor:
        """Start an all_to_all of indices or lengths."""
        received = torch.empty(sum(receive), dtype=out.dtype, device=out.device)
        work = all_to_all(received, out, receive, send, group=self._group)
        flight.works.append(work)
        return received


def _by_block(blocks: Blocks, lengths: Tensor, values: Tensor, received: list[int], batch: int) -> list[Lookups]:
    """Lookups of each block from data received in the order source, slot, sample (TorchRec's recat)."""
    sources = len(received)
    if not blocks:
        return []
    slots = [[slot.first_row for slot in block.slots] for block in blocks]
    if len(blocks) == 1:
        return [make_lookups(values, lengths, slots[0], sources, blocks[0].rows)]
    by_block = lengths.view(sources, -1, batch).split([len(of_block) for of_block in slots], dim=1)
    sizes = torch.stack([part.sum((1, 2)) for part in by_block], dim=1)
    parts = values.split(sizes.view(-1).tolist())  # [source, block]
    return [
        make_lookups(torch.cat(parts[number :: len(blocks)]), by_block[number], slots[number], sources, block.rows)
        for number, block in enumerate(blocks)
    ]
