"""Table-batched lookups: one kernel for all tables of a rank, gradients fused with the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import dtype_of
from workloads.captured.records import Lookup, RecordedWork, Table, Update

_NAMES = ("table_lookup", "table_update")


def table_batched(call: CalledOperator) -> list[RecordedWork] | None:
    """The kernel of an operator of `trainer.capture.tables`; None of any other operator."""
    if call.func.namespace != "dlrmsim" or call.func._opname not in _NAMES:  # noqa: SLF001 - the name without namespace
        return None
    weights: Sequence[Tensor] = call.given["weights"]
    indices: Sequence[Tensor] = call.given["indices"]
    bags = [own.shape[0] for own in call.given["offsets"] or indices]
    parts = zip(weights, indices, bags, strict=True)
    tables = tuple(Table(w.shape[0], w.shape[1], lookups=own.numel(), bags=count) for w, own, count in parts)
    dtype, index_bytes = dtype_of(weights[0]), indices[0].element_size()
    if call.func._opname == "table_lookup":  # noqa: SLF001
        return [Lookup(tables=tables, dtype=dtype, index_bytes=index_bytes, output_dtype=dtype_of(call.result))]
    return [
        Update(
            tables=tables,
            dtype=dtype,
            index_bytes=index_bytes,
            gradient_dtype=dtype_of(call.tensor("gradient")),
            optimizer=call.given["optimizer"],
        )
    ]
