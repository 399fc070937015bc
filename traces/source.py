"""Bytes of a trace file, plain or gzip-compressed, in chunks of bounded size."""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from inputs.errors import InputError

CHUNK_BYTES = 4 << 20
"""Bytes read at a time: enough that splitting costs little, little beside what the columns of the events take."""
MAX_ITEM_BYTES = 256 << 20
"""Longest single event, line or message that is read; longer ones are no trace of a training job."""
_GZIP = b"\x1f\x8b"
_UNPACKABLE = "a file that gzip can unpack, or one that is not compressed"


def require_file(file: Path) -> None:
    """Check that ``file`` is a file with something in it.

    Raises:
        InputError: it does not exist, is a folder, cannot be read or is empty.
    """
    try:
        found = file.stat()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, expected="a trace file") from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError("is a folder", file=file, expected="a trace file")
    if found.st_size == 0:
        raise InputError("is empty (0 bytes)", file=file, expected="a trace file")


def start_of(file: Path, count: int = 4096) -> bytes:
    """The first ``count`` bytes, decompressed.

    Raises:
        InputError: see `chunks`.
    """
    return next(chunks(file, count), b"")


def chunks(file: Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The content, decompressed where it starts with gzip's magic number.

    Raises:
        InputError: no such file, a folder, empty, not readable, or a gzip stream that is cut off or broken; with the
            byte it was read up to.
    """
    require_file(file)
    done = 0
    try:
        with file.open("rb") as plain:
            packed = plain.read(2) == _GZIP
            plain.seek(0)
            stream = gzip.GzipFile(fileobj=plain) if packed else plain
            while chunk := stream.read(size):
                done += len(chunk)
                yield chunk
    except EOFError:
        where = f"byte {done} decompressed"
        raise InputError("the gzip stream is cut off", file=file, key=where, expected=_UNPACKABLE) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        where = f"byte {done} decompressed"
        raise InputError(f"the gzip stream is broken: {error}", file=file, key=where, expected=_UNPACKABLE) from None
    except OSError as error:
        where = f"byte {done}"
        raise InputError(f"cannot be read: {error.strerror}", file=file, key=where, expected="a trace file") from None


def whole(file: Path, limit: int = MAX_ITEM_BYTES) -> bytes:
    """All bytes of a small file, decompressed.

    Raises:
        InputError: see `chunks`; or it holds more than ``limit`` bytes.
    """
    parts, size = [], 0
    for chunk in chunks(file):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            expected = f"at most {limit:,} bytes"
            raise InputError(f"holds more than {limit >> 20} MiB", file=file, key=f"byte {size}", expected=expected)
    return b"".join(parts)
