"""Changes that a replay makes to the measured job, and their form on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from inputs.errors import InputError, nearest_name
from inputs.quantities import parse_quantity
from traces.replay.precision import FLOATING

Absent = Literal["none", "clones", "late"]
Overlap = Literal["as_traced", "none", "hidden"]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to the measured job.

    Attributes:
        cluster: name or path of the cluster that takes the collectives; None: transfers as measured.
        gpu: name or path of the GPU that takes the kernels; None: kernels as measured.
        from_gpu: the GPU the trace was taken on; None: by its name in the trace.
        world_size: ranks of the job, None: as traced.
        local_batch: samples of each rank, None: as traced.
        absent: ranks without a trace: left out, clones of the traced ones, or known only by when they arrive; None:
            clones on a cluster or another world size, else left out.
        overlap: overlap of device work.
        delays_s: delay of each rank in each step.
        precisions: type by operation of collectives, ``all`` for the others.
    """

    cluster: str | None = None
    gpu: str | None = None
    from_gpu: str | None = None
    world_size: int | None = None
    local_batch: int | None = None
    absent: Absent | None = None
    overlap: Overlap = "as_traced"
    delays_s: Mapping[int, float] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether anything is other than measured."""
        return self != Changes()


def parse_precisions(text: str | None) -> dict[str, str]:
    """``fp16`` or ``all_to_all=fp16,all_reduce=bf16`` as a type by operation.

    Raises:
        InputError: it is no such text.
    """
    found = {}
    for part in text.split(",") if text else ():
        op, _, dtype = part.strip().rpartition("=")
        if dtype not in FLOATING:
            known = sorted(FLOATING)
            near, expected = nearest_name(dtype, known), f"one of {', '.join(known)}, or OP=TYPE"
            raise InputError(
                "no such type", file="--collective-precision", given=dtype, expected=expected, nearest=near
            )
        found[op or "all"] = dtype
    return found


def parse_delays(texts: Sequence[str]) -> dict[int, float]:
    """``3=2ms`` as seconds by rank.

    Raises:
        InputError: one is no such text.
    """
    found = {}
    for text in texts:
        rank, mark, length = text.partition("=")
        if not mark or not (rank.isascii() and rank.isdecimal()):
            raise InputError("is no delay", file="--delay", given=text, expected="RANK=TIME, e.g. 3=2ms")
        try:
            found[int(rank)] = parse_quantity(length, "s")
        except InputError as error:
            raise InputError(error.message, file="--delay", given=text, expected=error.expected) from None
    return found


def chosen(name: str, text: str | None, kind: Any) -> Any:
    """One of a few words.

    Raises:
        InputError: it is none of them.
    """
    words = get_args(kind)
    if text is not None and text not in words:
        expected, near = f"one of {', '.join(words)}", nearest_name(text, words)
        raise InputError("is none of its words", file=name, given=text, expected=expected, nearest=near)
    return text
