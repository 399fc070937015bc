"""Public traces: which there are, and fetching them into a folder, each checked against its sha256."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from importlib.resources import as_file, files
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from inputs.errors import InputError
from inputs.model import Strict
from inputs.validate import validate
from inputs.yaml_lines import load_yaml

SOURCE = "https://raw.githubusercontent.com"
"""Address of files of repositories: SOURCE/REPOSITORY/HEAD/PATH."""
TIMEOUT_S = 60.0
SLACK_BYTES = 1 << 20
"""A download may be longer than the content by this: what gzip adds to what it cannot compress."""
_GZIP = b"\x1f\x8b"


class PublicTrace(Strict):
    """One file of `traces/public.yaml`.

    Attributes:
        file: its place in the folder of traces.
        about: one line of description.
        repository: OWNER/NAME.
        licence: SPDX name.
        path: the file in the repository; None where it stands in an archive or under a name we do not know.
        folder: the folder it is in or near, where there is no path.
        size_bytes: size of the content, decompressed.
        sha256: checksum of the content, decompressed.
    """

    file: str
    about: str
    repository: str
    licence: str
    path: str | None = None
    folder: str | None = None
    size_bytes: int
    sha256: str


class _Manifest(Strict):
    traces: tuple[PublicTrace, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Outcome for one trace: ``fetched``, ``present``, or ``by hand``."""

    trace: PublicTrace
    status: str


@cache
def public_traces() -> tuple[PublicTrace, ...]:
    """All traces of the manifest."""
    with as_file(files("traces") / "public.yaml") as file:
        return validate(_Manifest, load_yaml(file)).traces


def fetch(folder: Path, source: str = SOURCE) -> Iterator[Fetched]:
    """Get every trace that can be got into ``folder``; those that are there already are checked only.

    Args:
        folder: destination of the files.
        source: address of repositories, see `SOURCE`.

    Raises:
        InputError: a trace cannot be fetched, or is another one than the manifest says; earlier files stay.
    """
    for trace in public_traces():
        target = folder / trace.file
        if target.exists():
            _check(trace, _read(target, trace.size_bytes + SLACK_BYTES), str(target))
            yield Fetched(trace, "present")
        elif trace.path is None:
            yield Fetched(trace, "by hand")
        else:
            url = f"{source}/{trace.repository}/HEAD/{trace.path}"
            content = _check(trace, _download(url, trace.size_bytes + SLACK_BYTES), url)
            _write(target, content)
            yield Fetched(trace, "fetched")


def _download(url: str, limit_bytes: int) -> bytes:
    """Content at an address, at most ``limit_bytes``."""
    if not url.startswith(("https://", "http://")):
        raise InputError("is no address", file="--from", given=url, expected="https://...")
    try:
        with urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 - the scheme was checked
            data: bytes = response.read(limit_bytes + 1)
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"cannot be fetched: {reason}", file=url, expected="access to the internet") from None
    if len(data) > limit_bytes:
        raise InputError("is longer than the manifest says", file=url, expected=f"at most {limit_bytes:,} bytes")
    return data


def _check(trace: PublicTrace, data: bytes, where: str) -> bytes:
    """The content, decompressed, if it is the trace of the manifest."""
    try:
        content = _decompressed(data, trace.size_bytes + 1) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"is broken: {error}", file=where, expected="an archive of traces") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != trace.sha256:
        raise InputError(
            "is another file than the manifest names", file=where, key="sha256", given=digest, expected=trace.sha256
        )
    return content


def _read(target: Path, limit_bytes: int) -> bytes:
    with target.open("rb") as stream:
        return stream.read(limit_bytes)


def _decompressed(data: bytes, limit_bytes: int) -> bytes:
    """The content of gzip data, no more than ``limit_bytes`` of it."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return stream.read(limit_bytes)


def _write(target: Path, content: bytes) -> None:
    """Write a trace, whole or not at all, compressed where its name says so."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", file=target, expected="a folder with room") from None
