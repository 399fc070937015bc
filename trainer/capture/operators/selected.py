"""Operators that touch selected rows or elements of a tensor, not all of it."""

from __future__ import annotations

from torch import Tensor

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import bytes_of, tensors_in
from workloads.captured.records import Moved, RecordedWork

_GATHERED = {
    "index": "indices", "index_select": "index", "gather": "index", "take": "index", "_unsafe_index": "indices",
    "take_along_dim": "indices",
}  # fmt: skip
"""Operators that read as many elements as they return -> argument of their indices."""

_SCATTERED = {
    "index_put": ("indices", "values"), "_unsafe_index_put": ("indices", "values"),
    "_index_put_impl": ("indices", "values"), "index_copy": ("index", "source"), "index_add": ("index", "source"),
    "index_fill": ("index", None), "scatter": ("index", "src"), "scatter_add": ("index", "src"),
    "scatter_reduce": ("index", "src"),
}  # fmt: skip
"""Operators that change selected elements -> arguments of the indices and of the new values."""

_ADDS = ("index_add", "scatter_add", "scatter_reduce")
"""Operators that read the tensor they change."""

_OF_TARGETS = ("nll_loss_forward", "nll_loss_backward")
"""Losses that touch one element of each row, at its target."""


def selected(call: CalledOperator) -> list[RecordedWork] | None:
    """The kernel of such an operator; None of any other one."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    plain = name.rstrip("_")
    if plain in _GATHERED:
        written = call.write_bytes
        return [Moved(read_bytes=written + _size(call, _GATHERED[plain]), write_bytes=written)]
    if plain in _SCATTERED:
        return [_scattered(call, plain, in_place=name.endswith("_"))]
    if name in _OF_TARGETS:
        return [_of_targets(call)]
    return None


def _scattered(call: CalledOperator, name: str, *, in_place: bool) -> Moved:
    """Write values at their places; the form that returns a tensor copies the old one first."""
    indices, values = _SCATTERED[name]
    changed = 0.0 if values is None else _values(call, values)
    changed = changed or _size(call, indices)
    read = (changed if values is not None else 0.0) + _size(call, indices)
    adds = name in _ADDS or bool(call.given.get("accumulate"))
    whole = 0.0 if in_place else bytes_of(call.tensor("self"))
    return Moved(read_bytes=read + adds * changed + whole, write_bytes=changed + whole)


def _of_targets(call: CalledOperator) -> Moved:
    """The loss reads an element of each row; its gradient writes whole rows with one element other than 0."""
    targets = bytes_of(call.tensor("target"))
    rows = float(call.tensor("target").numel() * call.tensor("self").element_size())
    return Moved(read_bytes=targets + rows, write_bytes=call.write_bytes)


def _values(call: CalledOperator, key: str) -> float:
    """Bytes of new values, which may be one for all places."""
    found = call.given.get(key)
    if not isinstance(found, Tensor):
        return 0.0
    return bytes_of(found)


def _size(call: CalledOperator, key: str) -> float:
    return sum(map(bytes_of, tensors_in(call.given.get(key))))
