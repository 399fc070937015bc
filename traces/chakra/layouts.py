"""Layouts of files: a trace that differs from another one in times only is not parsed again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_VARINT = rb"[\x80-\xff]{0,8}[\x00-\x7f]"
_TIMES = re.compile(rb"(?:\x30%b)?(?:\x38(%b))?" % (_VARINT, _VARINT))
"""Fields 6 and 7 of a node, start_time_micros and duration_micros, both varints of at most 63 bits."""
_START, _DURATION = 6, 7
_FIXED_BYTES = {1: 8, 5: 4}
"""Bytes of a value by its wire type, where it has a fixed size."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes of a file ``[N]``: the bytes of each before its times and behind them."""

    nodes: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> Layout | None:
        """The layout of a file's nodes; None where a node does not have its fields in order."""
        nodes = [_around_times(payload) for payload in payloads]
        known = tuple(node for node in nodes if node is not None)
        return cls(known) if len(known) == len(nodes) else None

    def durations_us(self, raw: bytes, begin: int) -> list[int] | None:
        """Durations of the nodes of another file ``[N]``; None where it has another layout.

        Args:
            raw: the whole file.
            begin: byte at which its nodes begin.
        """
        found, at, size = [], begin, len(raw)
        for head, tail in self.nodes:
            varint = _varint(raw, at)
            if varint is None:
                return None
            length, start = varint
            at = start + length
            times_end = at - len(tail)
            if not raw.startswith(head, start) or raw[times_end:at] != tail:
                return None
            duration = _duration_us(raw[start + len(head) : times_end])
            if duration is None or start + len(head) > times_end:
                return None
            found.append(duration)
        return found if at == size else None


@lru_cache(maxsize=1 << 16)
def _duration_us(times: bytes) -> int | None:
    """Duration in the times of a node, 0 where it is absent; None: these are no such fields."""
    found = _TIMES.fullmatch(times)
    if found is None:
        return None
    varint = _varint(found[1], 0) if found[1] else None
    return 0 if varint is None else varint[0]


def _varint(raw: bytes, at: int) -> tuple[int, int] | None:
    """The varint at a place and the byte behind it; None where there is none of at most 63 bits."""
    value, shift, size = 0, 0, len(raw)
    while at < size and shift < 63:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return None


def _around_times(payload: bytes) -> tuple[bytes, bytes] | None:
    """The bytes of a node before its times and behind them; None where its fields are not in order."""
    at, last, before, behind = 0, 0, 0, 0
    while at < len(payload):
        tag = _varint(payload, at)
        end = None if tag is None else _value_end(payload, tag[1], tag[0] & 7)
        number = 0 if tag is None else tag[0] >> 3
        if end is None or number < last:
            return None
        at, last = end, number
        before = end if number < _START else before
        behind = end if number <= _DURATION else behind
    return payload[:before], payload[behind:]


def _value_end(payload: bytes, at: int, wire_type: int) -> int | None:
    """The byte behind a value; None where it cannot be known."""
    if wire_type in _FIXED_BYTES:
        return at + _FIXED_BYTES[wire_type]
    varint = _varint(payload, at)
    if varint is None or wire_type not in (0, 2):
        return None
    return varint[1] + (varint[0] if wire_type == 2 else 0)
