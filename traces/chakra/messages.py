"""The messages of a Chakra execution trace, and the files they stand in: each preceded by its length as a varint.

Field numbers: MLCommons Chakra, ``schema/protobuf/et_def.proto`` version 0.0.4. Fields we do not read are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from inputs.errors import InputError
from traces.source import MAX_ITEM_BYTES

METADATA, NODE = "GlobalMetadata", "Node"
COMP, COMM_SEND, COMM_RECV, COMM_COLL = 4, 5, 6, 7
"""Node types (``NodeType``); 1 is metadata, 2 and 3 are loads and stores of memory."""
COMM_OPS = {
    0: "all_reduce", 1: "reduce", 2: "all_gather", 3: "gather", 4: "scatter", 5: "broadcast", 6: "all_to_all",
    7: "reduce_scatter", 8: "reduce_scatter", 9: "barrier",
}  # fmt: skip
"""``CollectiveCommType`` of the attribute comm_type."""
SEND, SEND_PARTS = "send", 2
"""A message whose direction a program does not keep: we write it as a gather of two members, whose buffer has a part of
the root's own, with the attribute ``op``."""

_VALUES = (
    ("double_val", 3, "DOUBLE"), ("float_val", 5, "FLOAT"), ("int32_val", 7, "INT32"), ("int64_val", 9, "INT64"),
    ("uint32_val", 11, "UINT32"), ("uint64_val", 13, "UINT64"), ("sint32_val", 15, "SINT32"),
    ("sint64_val", 17, "SINT64"), ("fixed32_val", 19, "FIXED32"), ("fixed64_val", 21, "FIXED64"),
    ("sfixed32_val", 23, "SFIXED32"), ("sfixed64_val", 25, "SFIXED64"), ("bool_val", 27, "BOOL"),
    ("string_val", 29, "STRING"), ("bytes_val", 31, "BYTES"),
)  # fmt: skip


@cache
def messages() -> dict[str, type[Any]]:
    """Message classes by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="dlrmsim_chakra.proto", package="ChakraProtoMsg", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, str, bool]) -> Any:
        made = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            own = {} if kind.isupper() else {"type_name": f".ChakraProtoMsg.{kind}"}
            kind_number = getattr(kinds, f"TYPE_{kind if kind.isupper() else 'MESSAGE'}")
            made.field.add(name=field, number=number, label=label, type=kind_number, **own)
        return made

    attribute = message("AttributeProto", ("name", 1, "STRING", False), *((n, f, k, False) for n, f, k in _VALUES))
    attribute.oneof_decl.add(name="value")
    for field in attribute.field[1:]:
        field.oneof_index = 0
    message(METADATA, ("version", 1, "STRING", False), ("attr", 2, "AttributeProto", True))
    message(
        NODE,
        ("id", 1, "UINT64", False),
        ("name", 2, "STRING", False),
        ("type", 3, "INT32", False),
        ("ctrl_deps", 4, "UINT64", True),
        ("data_deps", 5, "UINT64", True),
        ("start_time_micros", 6, "UINT64", False),
        ("duration_micros", 7, "UINT64", False),
        ("attr", 10, "AttributeProto", True),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name], pool)
    return {name.rsplit(".", 1)[-1]: kind for name, kind in classes.items()}


def read_nodes(file: Path, parts: Iterable[bytes]) -> Iterator[tuple[Any, int, bytes]]:
    """The nodes of a file, each with the byte it begins at and its own bytes.

    Args:
        file: its name, for messages.
        parts: its content, one part after the other.

    Raises:
        InputError: cut off, a message longer than 256 MiB, or no such messages; with the byte.
    """
    kind, is_first = messages()[NODE], True
    for payload, at in _payloads(file, parts):
        if is_first:
            _check_metadata(file, payload)
            is_first = False
        else:
            yield _parsed(kind, file, payload, at), at, payload


def nodes_begin(file: Path, raw: bytes) -> int | None:
    """Byte at which the nodes of a file begin, behind its metadata; None where it is cut off.

    Raises:
        InputError: it does not begin with metadata.
    """
    found = _length(file, raw, 0, 0)
    if found is None or sum(found) > len(raw):
        return None
    length, begin = found
    _check_metadata(file, raw[begin : begin + length])
    return begin + length


def _check_metadata(file: Path, payload: bytes) -> None:
    if not _parsed(messages()[METADATA], file, payload, 0).version:
        raise _broken(file, 0, "does not begin with Chakra's GlobalMetadata and its version")


def _parsed(kind: type[Any], file: Path, payload: bytes, at: int) -> Any:
    from google.protobuf.message import DecodeError

    made = kind()
    try:
        made.ParseFromString(payload)
    except DecodeError:
        raise _broken(file, at, f"is no {kind.DESCRIPTOR.name} of Chakra") from None
    return made


def _payloads(file: Path, parts: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """The length-delimited messages with the byte their length begins at."""
    buffer, offset = b"", 0
    for part in parts:
        buffer += part
        place = 0
        while (found := _length(file, buffer, place, offset)) is not None:
            length, begin = found
            if begin + length > len(buffer):
                break
            yield buffer[begin : begin + length], offset + place
            place = begin + length
        buffer, offset = buffer[place:], offset + place
    if buffer:
        raise _broken(file, offset, "a message is cut off")


def _length(file: Path, buffer: bytes, place: int, offset: int) -> tuple[int, int] | None:
    """The varint at ``place`` and the byte behind it; None where the buffer ends in it."""
    value = 0
    for shift, at in enumerate(range(place, min(place + 10, len(buffer)))):
        value |= (buffer[at] & 0x7F) << (7 * shift)
        if buffer[at] < 0x80:
            if value > MAX_ITEM_BYTES:
                raise _broken(file, offset + place, f"a message is longer than {MAX_ITEM_BYTES >> 20} MiB")
            return value, at + 1
    if len(buffer) - place >= 10:
        raise _broken(file, offset + place, "a message has no valid length")
    return None


def _broken(file: Path, at: int, message: str) -> InputError:
    return InputError(message, file=file, key=f"byte {at}", expected="a Chakra execution trace (PREFIX.RANK.et)")
