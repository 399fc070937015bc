"""The elements of one long array in a JSON file, in batches, with memory bounded by a chunk and not by the file.

A batch is cut where one object ends and the next begins, ``} , {``. That such a cut lies between two elements and not
inside one is proved by parsing: the text from an element's begin to the cut, put into brackets, is valid JSON only if
the cut is outside of strings and of nested objects. Where it does not parse, a scan over strings and brackets finds
the ends of the elements, the end of the array, or the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from inputs.errors import InputError
from inputs.typed import UNREAD, wrong_type
from traces.source import CHUNK_BYTES, MAX_ITEM_BYTES, chunks

E = TypeVar("E")

_BETWEEN = re.compile(rb"(?P<end>\})\s*,\s*\{")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)
_END = re.compile(rb"(?P<end>\})\s*\]")
_START = re.compile(r"[\s,]*")
_COMMA = re.compile(rb"\s*,")
_FIRST_KEY = re.compile(rb'\s*,\s*\{\s*"[^"]{0,100}"')
_BEFORE_END = 2
"""Bytes before an element's end that are the same for all of them: ``]}`` where each ends with a list."""
_WINDOW_BYTES = 64 << 10
"""Size of the first window, from the end of the buffer, that is searched for a cut, bytes."""
_BYTE_OF_ERROR = re.compile(r"\(byte (\d+)\)")
_INDEX_OF_ERROR = re.compile(r"\$\[(\d+)\]")


_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError)


def _place_of(error: Exception, text: bytes) -> int:
    """The byte of ``text`` an error is about."""
    if isinstance(error, UnicodeDecodeError):
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as found:
            return found.start
    at = _BYTE_OF_ERROR.search(str(error))
    return max(int(at[1]) - 1, 0) if at else 0


def _element(text: bytes, index: int) -> object:
    """An element of the text of several, without types; `UNREAD` where it is not whole."""
    parse, words, at = json.JSONDecoder().raw_decode, text.decode("utf-8", "replace"), 0
    try:
        for number in range(index + 1):
            at = _START.match(words, at).end()  # type: ignore[union-attr]  # it matches everywhere
            element, at = parse(words, at)
            if number == index:
                return element
    except (ValueError, RecursionError):
        pass
    return UNREAD


class JsonArray(Generic[E]):
    """Reads ``{"...": ..., KEY: [element, ...], "...": ...}``, or a bare array.

    Attributes:
        head: the object without the array, complete once all batches were read.
    """

    def __init__(self, file: Path, key: str, element: type[E], *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Read the array under ``key`` of ``file``, some bytes at a time; ``element`` is a msgspec type."""
        self._file, self._key = file, key
        self._decoder = msgspec.json.Decoder(list[element])  # type: ignore[valid-type]
        self._chunks = chunks(file, chunk_bytes)
        self._buffer = b""
        self._offset = 0
        self._count = 0
        self._bare = False
        self._between = _BETWEEN
        self.head: dict[str, Any] = {}

    def batches(self) -> Iterator[list[E]]:
        """The elements in order.

        Raises:
            InputError: not JSON, cut off, no such array, or an element of the wrong type; with its byte or number.
        """
        self._read_head()
        wanted = 0
        while True:
            if len(self._buffer) >= wanted:
                batch, used, ended = self._next()
                if batch:
                    yield batch
                if ended:
                    return
                self._drop(used)
                wanted = 0 if used else 2 * len(self._buffer)
            if len(self._buffer) > MAX_ITEM_BYTES:
                raise self._error(0, f"an element is longer than {MAX_ITEM_BYTES >> 20} MiB")
            if not self._more():
                yield self._last()
                return

    def _read_head(self) -> None:
        """Find the array; keep the part before it."""
        key = re.compile(rb'"' + re.escape(self._key.encode()) + rb'"\s*:\s*\[')
        while True:
            text = self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            self._bare = text.startswith(b"[")
            if self._bare:
                self._drop(len(self._buffer) - len(text) + 1)
                return
            if text and not text.startswith(b"{"):
                raise self._error(0, "is not JSON", expected=f"an object with {self._key}, or an array")
            for match in key.finditer(self._buffer):
                head = self._object(self._buffer[: match.end()] + b"]}")
                if head is not None:
                    self.head = {k: v for k, v in head.items() if k != self._key}
                    self._drop(match.end())
                    return
            if len(self._buffer) > MAX_ITEM_BYTES:
                raise self._error(0, f"no {self._key} within {MAX_ITEM_BYTES >> 20} MiB")
            if not self._more():
                raise self._no_array()

    def _no_array(self) -> InputError:
        try:
            value = json.loads(self._buffer)
        except (ValueError, RecursionError) as error:
            return self._error(getattr(error, "pos", 0), "is no complete JSON")
        kind = "an object without it" if isinstance(value, dict) else type(value).__name__
        return InputError(f"has no array {self._key}", file=self._file, given=kind, expected=f"an array {self._key}")

    def _object(self, text: bytes) -> dict[str, Any] | None:
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise self._too_deep() from None
        except _NO_JSON:
            return None
        return value if isinstance(value, dict) else None

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._buffer += chunk
        return bool(chunk)

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._offset += count

    def _next(self) -> tuple[list[E], int, bool]:
        """Elements that are complete in the buffer: (elements, bytes they take, whether the array ends here)."""
        cut = self._last_match(self._between)
        if cut < 0:
            return [], 0, False
        batch = self._parsed(cut)
        return self._scanned() if batch is None else (batch, self._buffer.index(b",", cut) + 1, False)

    def _last_match(self, pattern: re.Pattern[bytes]) -> int:
        """Position behind the last ``}`` with which ``pattern`` matches, -1 for none."""
        for begin in (max(len(self._buffer) - _WINDOW_BYTES, 0), 0):
            found = [match.end("end") for match in pattern.finditer(self._buffer, begin)]
            if found:
                return found[-1]
        return -1

    def _parsed(self, cut: int) -> list[E] | None:
        """The elements up to ``cut``, None where it lies inside one."""
        try:
            batch = self._decoder.decode(b"[" + self._buffer[:cut] + b"]")
        except msgspec.ValidationError as error:
            raise self._wrong_element(error, self._buffer[:cut]) from None
        except RecursionError:
            raise self._too_deep() from None
        except _NO_JSON:
            return None
        self._count += len(batch)
        return batch

    def _scanned(self) -> tuple[list[E], int, bool]:
        """Result of a scan of the buffer: (elements, bytes they take, whether the array ends here)."""
        end, closing = self._scan()
        if closing >= 0:
            batch = self._elements(self._buffer[:closing])
            self._close(closing)
            return batch, 0, True
        comma = _COMMA.match(self._buffer, end)
        if comma is None and end and self._buffer[end:].strip():
            raise self._error(end, "is no JSON", expected=f", or ] after an element of {self._key}")
        if comma is None or not end:
            return [], 0, False
        batch = self._elements(self._buffer[:end])
        self._learn(end)
        return batch, comma.end(), False

    def _learn(self, end: int) -> None:
        """Look from now on for what stands between these two elements: those that nest objects have more in common."""
        following = _FIRST_KEY.match(self._buffer, end)
        if following:
            before = re.escape(self._buffer[max(end - 1 - _BEFORE_END, 0) : end - 1])
            self._between = re.compile(before + rb"(?P<end>\})" + re.escape(following[0]))

    def _scan(self) -> tuple[int, int]:
        """End of the last complete element in the buffer, and the place of the array's closing bracket, -1 for none."""
        depth, end = 0, 0
        for match in _TOKEN.finditer(self._buffer):
            token = match[0]
            if token in b"{[":
                depth += 1
            elif token == b'"':
                break
            elif token in b"}]":
                depth -= 1
                if depth < 0:
                    return end, match.start() if token == b"]" else -1
                end = match.end() if depth == 0 else end
        return end, -1

    def _elements(self, text: bytes) -> list[E]:
        """Parse whole elements from the begin of the buffer.

        Raises:
            InputError: they are no JSON.
        """
        try:
            batch = self._decoder.decode(b"[" + text + b"]")
        except msgspec.ValidationError as error:
            raise self._wrong_element(error, text) from None
        except RecursionError:
            raise self._too_deep() from None
        except _NO_JSON as error:
            said = _BYTE_OF_ERROR.sub("", str(error)).strip()
            raise self._error(_place_of(error, text), f"is no JSON: {said}") from None
        self._count += len(batch)
        return batch

    def _last(self) -> list[E]:
        """The rest at the end of the file: the last elements and the array's end."""
        end = self._last_match(_END)
        batch = self._parsed(end) if end >= 0 else None
        if batch is not None:
            self._close(self._buffer.index(b"]", end))
            return batch
        batch, _, ended = self._scanned()
        if not ended:
            raise self._error(len(self._buffer), f"the file ends inside {self._key} (half a JSON)")
        return batch

    def _close(self, closing: int) -> None:
        """Go on behind the array, whose closing bracket is at ``closing``."""
        self._drop(closing + 1)
        self._read_tail()

    def _read_tail(self) -> None:
        """Read the rest after the array."""
        while self._more():
            if len(self._buffer) > MAX_ITEM_BYTES:
                raise self._error(0, f"more than {MAX_ITEM_BYTES >> 20} MiB follow {self._key}")
        if self._bare:
            if self._buffer.strip():
                raise self._error(0, "something follows the array")
            return
        rest = self._object(b'{"":0' + self._buffer)
        if rest is None:
            raise self._error(len(self._buffer), f"is no complete JSON after {self._key} (half a JSON)")
        self.head |= {k: v for k, v in rest.items() if k}

    def _wrong_element(self, error: msgspec.ValidationError, text: bytes) -> InputError:
        found = _INDEX_OF_ERROR.search(str(error))
        index = int(found[1]) if found else 0
        element = _element(text, index)
        return wrong_type(error, element, self._file, f"element {self._count + index} of {self._key}", skip=1)

    def _too_deep(self) -> InputError:
        return self._error(0, "is nested too deep to be read", expected="at most some hundred levels")

    def _error(self, at: int, message: str, expected: str | None = None) -> InputError:
        where = f"byte {self._offset + at}"
        return InputError(message, file=self._file, key=where, expected=expected or f"JSON with an array {self._key}")
