"""Kernels of HSTU layers and of the steps before and behind them, forward and backward.

Linear layers are products over all positions of a rank; attention takes the sum of squares of the positions of its
samples. The kernels between them read and write activations: norms, gates, sums, concatenations. Their reads and writes
are counted in vectors of a position, from generative-recommenders (``stu.py``, ``hstu_compute.py``,
``preprocessors.py``), whose layers may compute UVQK and the gated attention again in the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.operators import Amount, Attention, Elementwise
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.sequence_batches import RankLengths, lengths_on_ranks
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.kernels import amount


@dataclass(frozen=True, slots=True)
class StackPositions:
    """Positions on a rank; each ``[P]`` where ranks differ.

    Attributes:
        samples: number of samples.
        own: positions of the sequence, candidates included.
        all: positions that layers run over, contextual ones included, and padding where there is any.
        squares: sum of the squares of the samples' ``all``.
        targets: positions that predictions are made for: candidates, or all of the sequence where it has none.
    """

    samples: Amount
    own: Amount
    all: Amount
    squares: Amount
    targets: Amount


def jagged(stack: HstuPart, tables: Tables, settings: DlrmSettings) -> RankLengths:
    """Positions that the layers of a stack need, without padding."""
    return lengths_on_ranks(tables.history, settings.dealing).beside(stack.contextual)


def stack_positions(stack: HstuPart, tables: Tables, settings: DlrmSettings) -> StackPositions:
    """Positions that the layers of a stack run over on each rank."""
    found = jagged(stack, tables, settings)
    over = found.padded() if settings.padded else found
    context, targets = found.samples * stack.contextual, tables.history.targets
    return StackPositions(
        samples=amount(found.samples),
        own=amount(over.positions - context),
        all=amount(over.positions),
        squares=amount(over.squares),
        targets=amount(found.samples * targets if targets else found.positions - context),
    )


def unpooled_elements(job: Job) -> Amount:
    """Elements of the vectors of a rank's lookups in a pass."""
    return sum((group.unpooled for group in job.groups), 0.0)


def received_bytes(job: Job, direction: Literal["forward", "backward"]) -> Amount:
    """Size of the vectors that a rank receives, or of the gradients that it sends, a row once where it asks once.

    Vectors of sharded tables have the number format of the wire, vectors of copied tables the format of a lookup.
    """
    settings, forward = job.settings, direction == "forward"
    wire = settings.forward_bytes if forward else settings.backward_bytes
    own = settings.lookup_bytes(summed=False) if forward else settings.gradient_bytes(gathered=False)
    return sum((group.received * (wire if group.forward else own) for group in job.groups), 0.0)


@dataclass(frozen=True, slots=True)
class StackKernels:
    """Kernels of a job's stack."""

    job: Job
    stack: HstuPart
    positions: StackPositions

    @classmethod
    def of(cls, job: Job, stack: HstuPart) -> StackKernels:
        """Kernels of the stack of a job."""
        return cls(job, stack, stack_positions(stack, job.plan.tables, job.settings))

    def pointwise(self, read: float, written: float, positions: Amount | None = None) -> Elementwise:
        """A kernel that reads ``read`` and writes ``written`` elements of each position."""
        size = (self.positions.all if positions is None else positions) * float(self.job.element_bytes)
        return Elementwise(size * read, size * written)

    @property
    def bias_bytes(self) -> Amount:
        """Size of the biases of all pairs of positions, which the heads share."""
        return self.positions.squares * float(self.job.element_bytes)

    def attention(self, *, backward: bool = False) -> Attention:
        """Attention of a layer, or its gradients."""
        hstu, positions = self.stack.hstu, self.positions
        of_pair = hstu.attention_backward if backward else hstu.attention_forward
        moved = 2 * hstu.queries + 2 * hstu.values  # q, k, v and the result; backward their gradients, too
        element = float(self.job.element_bytes)
        biases = self.bias_bytes * hstu.stores_bias
        return Attention(
            flops=positions.squares * of_pair,
            bytes=(positions.all * moved * element + biases) * (2.0 if backward else 1.0),
            head_dim=max(hstu.qk_width.value, hstu.value_width.value),
            sequence=amount(np.maximum(positions.squares, 1.0) / np.maximum(positions.all, 1.0)),
            precision="bf16" if self.job.precision == "fp8" else self.job.precision,
            causal=True,
            backward=backward,
            kernel=hstu.attention_kernel,
            pointwise=True,
        )
