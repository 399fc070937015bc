"""Collectives of the trainer, started and not waited for.

A rank that is alone on a CPU exchanges nothing and copies its data. gloo's thread would do that copy on the
rank's cores, with threads of its own; from then on GNU OpenMP lets no thread of the process spin for its next kernel,
since there are more than cores, and each kernel has to wake the others up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor

from trainer.stopwatch import ISSUING

ALL_GATHER = ("all_gather_single", "all_gather_into_tensor")
REDUCE_SCATTER = ("reduce_scatter_single", "reduce_scatter_tensor")
"""Names of collectives of equal parts since torch 2.13 and in earlier versions."""


class Done:
    """Work that is complete."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


Started = dist.Work | Done
"""A collective that was started."""


def all_to_all(
    into: Tensor,
    out: Tensor,
    receive: Sequence[int] | None = None,
    send: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> Started:
    """Every rank sends each one its part of ``out``: ``send`` elements and gets ``receive``, or equal parts."""
    if _alone(out):
        into.copy_(out)
        return Done()
    with ISSUING:
        return _started(dist.all_to_all_single(into, out, receive, send, group=group, async_op=True))


def reduce_scatter(into: Tensor, out: Tensor) -> Started:
    """Sum over ranks of ``out`` ``[P n]``, each gets its part ``[n]``; gloo does it as an all_reduce."""
    return _of_parts(REDUCE_SCATTER, into, out)


def all_gather(into: Tensor, out: Tensor) -> Started:
    """Every rank gets all parts ``[n]``, side by side ``[P n]``."""
    return _of_parts(ALL_GATHER, into, out)


def all_reduce(buffer: Tensor) -> Started:
    """Sum over ranks, in place."""
    if _alone(buffer):
        return Done()
    with ISSUING:
        return _started(dist.all_reduce(buffer, async_op=True))


def renamed(name: str, name_before: str) -> Callable[..., Any]:
    """A function of c10d by its name since torch 2.13 or in earlier versions."""
    found: Callable[..., Any] = getattr(dist, name, None) or getattr(dist, name_before)
    return found


def _of_parts(names: tuple[str, str], into: Tensor, out: Tensor) -> Started:
    if _alone(out):
        into.copy_(out)
        return Done()
    with ISSUING:
        return _started(renamed(*names)(into, out, async_op=True))


def _alone(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and dist.get_world_size() == 1


def _started(work: dist.Work | None) -> Started:
    return Done() if work is None else work
