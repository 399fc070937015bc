"""A user's file whose functions are wrong, each in its own way."""

import sys

import torch
import torch.distributed as dist
from torch import nn

number = 3


def good(rank, world_size):
    model = nn.Linear(4, 4).cuda()
    return lambda: model(torch.zeros(2, 4, device="cuda")).sum().backward()


def returns_none(rank, world_size):
    return None


def returns_number(rank, world_size):
    return number


def other_parameters(model):  # given: other_parameters(model)
    return lambda: model


def step_needs_batch(rank, world_size):
    def step(batch):  # given: step(batch)
        return batch

    return step


def starts_nothing(rank, world_size):
    return lambda: None


def loads(rank, world_size):
    torch.load("weights.pt")  # given: torch.load


def _reading(read):
    def function(rank, world_size):
        model, x = nn.Linear(4, 4).cuda(), torch.zeros(2, 4, device="cuda")

        def step():
            read(model(x))
            model(x).sum().backward()

        return step

    return function


iterates = _reading(lambda y: next(iter(torch.utils.data.DataLoader([1, 2]))))  # given: DataLoader
item = _reading(lambda y: y.sum().item())  # given: .item()
branch = _reading(lambda y: 1 if y.sum() > 0 else 2)  # given: bool()
nonzero = _reading(lambda y: y.nonzero())  # given: nonzero()
mask = _reading(lambda y: y[y > 0])  # given: a boolean mask
unique = _reading(torch.unique)  # given: aten._unique2
numpy = _reading(lambda y: y.detach().cpu().numpy())  # given: .numpy()
formatted = _reading(lambda y: f"{y.sum():.3f}")  # given: __format__


@torch.library.custom_op("dlrmsim_tests::without_fake", mutates_args=())
def without_fake(y: torch.Tensor) -> torch.Tensor:
    return y.clone()


custom = _reading(without_fake)
objects = _reading(lambda y: dist.all_gather_object([None] * 4, 1))  # given: torch.distributed.all_gather_object


def begins_group(rank, world_size):
    dist.init_process_group("nccl")  # given: torch.distributed.init_process_group


def wraps_fsdp1(rank, world_size):
    from torch.distributed.fsdp import FullyShardedDataParallel

    FullyShardedDataParallel(nn.Linear(4, 4).cuda())  # given: FullyShardedDataParallel


def wraps_sparse(rank, world_size):
    table = nn.EmbeddingBag(10, 4, sparse=True)
    nn.parallel.DistributedDataParallel(table)  # given: EmbeddingBag


def raises(rank, world_size):
    def step():
        raise ValueError("no such thing")  # given: no such thing

    return step


def exits(rank, world_size):
    sys.exit(3)  # given: sys.exit(3)


def wrong_shapes(rank, world_size):
    return lambda: nn.Linear(4, 4)(torch.zeros(2, 5))  # given: reduction dim


def _calling(call):
    def function(rank, world_size):
        model, x = nn.Linear(4, 4).cuda(), torch.zeros(2, 4, device="cuda")

        def step():
            y = model(x).sum()
            y.backward()
            call(rank, model.weight.grad)

        return step

    return function


uneven = _calling(lambda rank, gradient: dist.all_reduce(gradient) if rank else None)
other_call = _calling(lambda rank, g: dist.all_reduce(g) if rank else dist.broadcast(g, 0))
other_size = _calling(lambda rank, g: dist.all_reduce(g if rank else g[0].contiguous()))
unsent = _calling(lambda rank, gradient: dist.recv(gradient, 1) if rank == 0 else None)


def odd_samples(rank, world_size):
    step = good(rank, world_size)
    step.samples = 2.5
    return step
