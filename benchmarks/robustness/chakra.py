"""Mutations of Chakra execution traces, message by message."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from benchmarks.robustness.trees import Tree
from benchmarks.robustness.values import Change


@dataclass(frozen=True, slots=True)
class Chakra:
    """Metadata and nodes as a tree; fields that no message can have are left out when they are written."""

    def read(self, data: bytes) -> Any:
        """A list of messages."""
        found, at = [], 0
        while at < len(data):  # messages of the sample are shorter than 128 bytes: their length is one byte
            payload = data[at + 1 : at + 1 + data[at]]
            kind = "Node" if at else "GlobalMetadata"
            found.append(json_format.MessageToDict(_message(kind, payload), preserving_proto_field_name=True))
            at += 1 + data[at]
        return Tree().read(json.dumps(found).encode())

    def draw(self, content: Any, random: random.Random) -> Change:
        """A change of a field or a message."""
        return Tree().draw(content, random)

    def change(self, content: Any, change: Change) -> Any:
        """The messages with one change."""
        return Tree().change(content, change)

    def write(self, content: Any) -> bytes:
        """Bytes of the messages that can be written."""
        out = b""
        try:
            messages = json.loads(Tree().write(content))
        except (ValueError, RecursionError):
            return out
        for number, fields in enumerate(messages if isinstance(messages, list) else []):
            payload = _message("Node" if number else "GlobalMetadata", b"", fields).SerializeToString()
            out += _varint(len(payload)) + payload
        return out


def _message(kind: str, payload: bytes, fields: object = None) -> Any:
    """A message of bytes or of fields, without those that it cannot have."""
    from traces.chakra.messages import messages

    made = messages()[kind]()
    made.ParseFromString(payload)
    for name, value in fields.items() if isinstance(fields, dict) else ():
        own = messages()[kind]()
        with suppress(json_format.ParseError, ValueError, TypeError, RecursionError):
            json_format.ParseDict({name: value}, own, ignore_unknown_fields=True)
            made.MergeFrom(own)
    return made


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])
