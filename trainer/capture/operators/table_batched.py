"""Table-batched lookups: one kernel for all tables of a rank, gradients fused with the optimizer."""

from __future__ import annotations

from trainer.capture.operators.call import Call
from workloads.captured.records import RecordedWork


def table_batched(call: Call) -> list[RecordedWork] | None:
    """The kernel of a table-batched operator; None of any other operator."""
    return None
