"""DLRMs as a user of PyTorch writes them, with tables dealt out to the ranks in turn, for `benchmarks.captures`.

Indices are permuted; their splits, lengths and values are exchanged; rows are looked up in one kernel; pooled vectors
are exchanged while the bottom MLP runs, and their gradients while its gradients are made, as TorchRec does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer.capture.tables import TableBatch
from workloads.dlrm.model.model import DlrmModel, Mlp, load_model
from workloads.dlrm.model.tables import expand_tables

SAMPLES = {"criteo_small": 2048, "mlperf_dlrm_v1": 8192}
"""Samples of a rank, by model."""

SPLITS = 3
"""Numbers that a rank sends to each other one beforehand: stride, lengths, values (torchrec dist_data.py)."""


class Request(torch.autograd.Function):
    """Starts an exchange of pooled vectors; its backward pass waits for the exchange of their gradients."""

    @staticmethod
    def forward(ctx: Any, exchange: VectorExchange, pooled: Tensor) -> Tensor:
        """See the class."""
        ctx.exchange, ctx.shape = exchange, pooled.shape
        exchange.start(pooled.reshape(-1), exchange.received, exchange.sent)
        return pooled.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, Tensor]:
        """See the class."""
        return None, ctx.exchange.end().view(ctx.shape)


class Wait(torch.autograd.Function):
    """Waits for an exchange; its backward pass starts the exchange of the gradients."""

    @staticmethod
    def forward(ctx: Any, exchange: VectorExchange, _: Tensor) -> Tensor:
        """See the class."""
        ctx.exchange = exchange
        return exchange.end()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        """See the class."""
        exchange: VectorExchange = ctx.exchange
        exchange.start(gradients[0].contiguous(), exchange.sent, exchange.received)
        return None, gradients[0].new_empty(0)


class VectorExchange:
    """all_to_all between lookups and interaction."""

    def __init__(self, samples: int, own: int, widths: Sequence[int]) -> None:
        """Sizes of the messages: ``own`` elements of a sample go to each rank, ``widths`` come from each."""
        self.sent = [samples * own] * len(widths)
        self.received = [samples * width for width in widths]
        self._work: Any = None
        self._result = torch.empty(0)

    def start(self, values: Tensor, received: list[int], sent: list[int]) -> None:
        """Start it."""
        self._result = values.new_empty(sum(received))
        self._work = dist.all_to_all_single(self._result, values, received, sent, async_op=True)

    def end(self) -> Tensor:
        """Wait for it."""
        self._work.wait()
        return self._result


class Permute(torch.autograd.Function):
    """Vectors in another order, and their gradients in the first one, in a kernel each (FBGEMM permute_pooled_embs)."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, order: Tensor, back: Tensor) -> Tensor:
        """See the class."""
        ctx.back = back
        return vectors.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """See the class."""
        return gradients[0].index_select(0, ctx.back), None, None


class Dot(torch.autograd.Function):
    """Products of all pairs of vectors; both parts of the gradient are added in the second product's kernel."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        """See the class."""
        ctx.save_for_backward(vectors)
        return torch.bmm(vectors, vectors.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """See the class."""
        (vectors,) = ctx.saved_tensors
        first = torch.bmm(gradients[0], vectors)
        return torch.baddbmm(first, gradients[0].transpose(1, 2), vectors)


class Dense(nn.Module):
    """Bottom MLP, dot interaction, top MLP."""

    def __init__(self, model: DlrmModel, tables: int, dim: int) -> None:
        super().__init__()
        mlp, features = mlp_of(model), tables + 1
        self.bottom = _layers(mlp.dense_features.value, mlp.bottom.value)
        self.top = _layers(dim + features * (features - 1) // 2, mlp.top.value)
        self.rows, self.columns = torch.tril_indices(features, features, -1)

    def forward(
        self, dense: Tensor, exchange: VectorExchange, requested: Tensor, order: Tensor, back: Tensor
    ) -> Tensor:
        """See the class."""
        bottom = self.bottom(dense)
        samples, dim = bottom.shape
        found = Wait.apply(exchange, requested).view(-1, dim)  # type: ignore[no-untyped-call]
        pooled = Permute.apply(found, order, back)  # type: ignore[no-untyped-call]
        vectors = torch.cat([bottom[:, None], pooled.view(samples, -1, dim)], dim=1)
        products = Dot.apply(vectors)  # type: ignore[no-untyped-call]
        kept = torch.cat([bottom, products[:, self.rows, self.columns]], dim=1)
        out: Tensor = self.top(kept)
        return out


def mlp_of(model: DlrmModel) -> Mlp:
    """Sizes of a model's dense layers.

    Raises:
        ValueError: it has none.
    """
    if model.mlp is None:
        raise ValueError(f"{model.name} has no dense layers")
    return model.mlp


def _layers(inputs: int, widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers)


def criteo_small(rank: int, world_size: int) -> Callable[[], None]:
    """Step of the model ``criteo_small``."""
    return _step("criteo_small", rank, world_size)


def mlperf_dlrm_v1(rank: int, world_size: int) -> Callable[[], None]:
    """Step of the model ``mlperf_dlrm_v1``."""
    return _step("mlperf_dlrm_v1", rank, world_size)


def _step(name: str, rank: int, world_size: int) -> Callable[[], None]:
    model, samples = load_model(name), SAMPLES[name]
    tables = expand_tables(model, "fp32")
    rows, dim = tables.rows.tolist(), int(tables.dim[0])
    counts = [len(rows[other::world_size]) for other in range(world_size)]
    own, batch = rows[rank::world_size], samples * world_size
    embeddings = TableBatch(own, dim, optimizer="rowwise_adagrad")
    dense = DistributedDataParallel(Dense(model, len(rows), dim).cuda(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(dense.parameters(), lr=0.01)
    features = mlp_of(model).dense_features.value
    width = 4 * features + 12 * len(rows)
    host = torch.empty(samples * width, dtype=torch.int8)
    exchange = VectorExchange(samples, len(own) * dim, [count * dim for count in counts])
    values = torch.empty(samples * len(rows), dtype=torch.int64, device="cuda")
    lengths = torch.empty(samples * len(rows), dtype=torch.int32, device="cuda")
    splits = torch.empty(SPLITS * world_size, dtype=torch.int64, device="cuda")
    order = torch.empty(samples * len(rows), dtype=torch.int64, device="cuda")
    inputs = torch.empty(samples, features, device="cuda")
    clicks = torch.empty(samples, 1, device="cuda")

    def all_to_all(given: Tensor) -> tuple[Tensor, Any]:
        sent, received = [samples * count for count in counts], [samples * len(own)] * world_size
        found = given.new_empty(sum(received))
        return found, dist.all_to_all_single(found, given, received, sent, async_op=True)

    def step() -> None:
        host.to("cuda")
        permuted = values.clone()
        arrived = torch.empty_like(splits)
        dist.all_to_all_single(arrived, splits)
        arrived.cpu()  # the host waits for the splits
        _, first = all_to_all(lengths)
        found, second = all_to_all(permuted)
        first.wait()
        second.wait()
        indices = found.clone().view(len(own), batch, 1)
        pooled = embeddings(list(indices.unbind(0)))
        requested = Request.apply(exchange, pooled)  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        clicked = dense(inputs, exchange, requested, order, order)
        nn.functional.binary_cross_entropy_with_logits(clicked, clicks).backward()
        optimizer.step()

    step.samples = samples  # type: ignore[attr-defined]
    return step
