"""Text of options as values."""

from __future__ import annotations

from collections.abc import Sequence

from inputs.errors import InputError, nearest_name
from inputs.quantities import parse_quantity


def parse_ranks(text: str | None) -> tuple[int, ...] | None:
    """The ranks in ``0,5,9``, ascending, each once; None for None.

    Raises:
        InputError: it is no such list.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise InputError("not a list of ranks", file="--ranks", given=text, expected="numbers and commas, e.g. 0,5,9")
    return tuple(sorted({int(part) for part in parts}))


def parse_precisions(text: str | None) -> dict[str, str]:
    """``fp16`` or ``all_to_all=fp16,all_reduce=bf16`` as a type by operation.

    Raises:
        InputError: it is no such text.
    """
    from traces.replay.precision import WIRE

    found = {}
    for part in text.split(",") if text else ():
        op, _, dtype = part.strip().rpartition("=")
        if dtype not in WIRE:
            known = sorted(WIRE)
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
