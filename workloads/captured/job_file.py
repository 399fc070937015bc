"""Files of captured jobs: JSON, and the same as packed text that fits into a scenario."""

from __future__ import annotations

import base64
import binascii
import zlib
from functools import lru_cache
from pathlib import Path

import msgspec

from inputs.errors import InputError
from inputs.typed import UNREAD, wrong_type
from workloads.captured.checking import check_job
from workloads.captured.records import RecordedJob

JOB_FILE = "job.json"
"""Name of the file in a job's folder."""

MOST_BYTES = 512 * 2**20
"""Largest file that is read, and largest packed job once it is unpacked, bytes: some ten million tasks."""

LEVEL = 9
"""Compression level of zlib: the smallest text."""

EXPECTED = "a captured job, as `dlrmsim capture` writes it"


def read_job(path: Path) -> RecordedJob:
    """The job of a file, or of a folder with a file `JOB_FILE`.

    Raises:
        InputError: there is no such file, or it is no captured job; with file, key, given and expected value.
    """
    file = path / JOB_FILE if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        reason = "no such job" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(reason, file=file, expected=f"a folder with {JOB_FILE}, or such a file") from None
    if len(raw) > MOST_BYTES:
        raise InputError("the file is too large", file=file, expected=f"at most {MOST_BYTES:,} bytes")
    return _decoded(raw, file)


def write_job(job: RecordedJob, path: Path) -> None:
    """Write a job as JSON; equal jobs give equal bytes.

    Raises:
        InputError: the job contradicts itself, or the file cannot be written.
    """
    check_job(job, path)
    try:
        path.write_bytes(_encoded(job) + b"\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path, expected="a writable file") from None


def packed(job: RecordedJob) -> str:
    """A job as one line of text."""
    return base64.b64encode(zlib.compress(_encoded(job), LEVEL)).decode("ascii")


@lru_cache(maxsize=8)
def unpacked(text: str) -> RecordedJob:
    """The job of `packed` text.

    Raises:
        InputError: it is none.
    """
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError):
        raise InputError("not the packed text of a job", given=text, expected=EXPECTED) from None
    if not inflate.eof:
        raise InputError("packed text that is cut short or too large", given=text, expected=EXPECTED)
    return _decoded(raw, None)


def _encoded(job: RecordedJob) -> bytes:
    return msgspec.json.encode(job)


def _decoded(raw: bytes, file: Path | None) -> RecordedJob:
    """The checked job of JSON text; ``file`` is its name in messages."""
    named = Path(JOB_FILE) if file is None else file
    try:
        job = msgspec.json.decode(raw, type=RecordedJob)
    except msgspec.ValidationError as error:
        raise wrong_type(error, _plain(raw), named, kind=RecordedJob) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", file=named, expected=EXPECTED) from None
    check_job(job, named)
    return job


def _plain(raw: bytes) -> object:
    """JSON without types, for the given value of a message."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return UNREAD
