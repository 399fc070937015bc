"""Criteo's click logs: lines of a label, 13 counts and 26 hashed categories, separated by tabs; any may be missing.

Format: https://ailab.criteo.com/download-criteo-1tb-click-logs-dataset. Counts become ``log(1 + count)``, with missing
and negative ones as 0; categories, hexadecimal numbers, are taken modulo the rows of their table, as
facebookresearch/dlrm does (``--max-ind-range``), and missing ones are row 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from trainer.batches import Batch, batch_from_arrays
from trainer.job import TrainingJob

COUNTS, CATEGORIES = 13, 26
FIELDS = 1 + COUNTS + CATEGORIES
CATEGORY_DIGITS = 8
"""Hexadecimal digits of a category at most: 32 bits (Criteo's readme)."""
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
SAMPLE = Path(__file__).parent / "samples" / "criteo.tsv"
"""A small file in this format, made up: 512 lines that fall off steeply, about a tenth of the values missing."""


class Criteo:
    """A rank's part of a file that is read from the start again when it ends.

    Iteration i has the lines ``i G`` to ``(i + 1) G``, G the global batch; lines that do not fill a last batch are left
    out. The file is read as it goes, never as a whole.
    """

    def __init__(self, file: Path, job: TrainingJob, rank: int) -> None:
        """Check that model and file go together.

        Raises:
            InputError: the model is not one of 13 dense features and 26 tables with one lookup each, or the file
                cannot be read or has less than one batch.
        """
        _check_model(file, job)
        self._file, self._settings = file, job.settings
        self._rows = job.plan.tables.rows[list(job.table_of_feature)]
        self._size = job.local_batch_size
        self._first = rank * self._size
        self._batches = _count_lines(file) // self._settings.global_batch_size
        if not self._batches:
            batch = self._settings.global_batch_size
            raise InputError("holds less than one global batch", file=file, expected=f"{batch} lines or more")
        self._next, self._lines = 0, self._lines_from(0)

    def batch(self, iteration: int) -> Batch:
        """The rank's samples of an iteration.

        Raises:
            InputError: a line is malformed.
        """
        if iteration != self._next:
            self._lines = self._lines_from(iteration)
        self._next = iteration + 1
        return self._parsed(list(islice(self._lines, self._size)))

    def _lines_from(self, iteration: int) -> Iterator[tuple[int, bytes]]:
        """The rank's lines (number, text) from an iteration's batch on, without end."""
        batch, usable = self._settings.global_batch_size, self._batches * self._settings.global_batch_size
        skipped = iteration % self._batches
        while True:
            with self._file.open("rb") as stream:
                for number, line in enumerate(islice(stream, usable)):
                    place = number % batch
                    if number // batch >= skipped and self._first <= place < self._first + self._size:
                        yield number + 1, line
            skipped = 0

    def _parsed(self, lines: Sequence[tuple[int, bytes]]) -> Batch:
        fields = [_fields(self._file, number, line) for number, line in lines]
        labels, counts, categories = (list(part) for part in zip(*fields, strict=True))
        rows = np.array(categories, dtype=np.int64) % self._rows
        one_each = np.ones(len(lines), dtype=np.int64)
        return batch_from_arrays(
            np.log1p(np.maximum(np.array(counts, dtype=np.float64), 0.0)),
            np.array(labels, dtype=np.float64),
            [one_each] * CATEGORIES,
            list(rows.T),
            index_bytes=self._settings.index_bytes,
            length_bytes=self._settings.length_bytes,
        )


def _check_model(file: Path, job: TrainingJob) -> None:
    tables, dense = job.plan.tables, job.job.dense
    each = [mean for table in range(len(tables)) for mean in tables.pooling_of_features(table)]
    pooling = max(each, default=1.0), min(each, default=1.0)
    if (dense.dense_features, tables.feature_count) != (COUNTS, CATEGORIES) or pooling != (1.0, 1.0):
        raise InputError(
            f"does not go with the model {job.model.name}",
            file=file,
            given=f"{dense.dense_features} dense features, {tables.feature_count} features, {pooling[0]:g} lookups",
            expected=f"{COUNTS} dense features, {CATEGORIES} features of tables, 1 lookup each",
        )


def _count_lines(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            return sum(1 for _ in stream)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, expected="Criteo's file of clicks") from None


def _fields(file: Path, number: int, line: bytes) -> tuple[int, list[float], list[int]]:
    """Label, counts and categories of a line."""
    parts = line.rstrip(b"\r\n").split(b"\t")
    if len(parts) != FIELDS:
        raise InputError(
            "not a line of Criteo's format", file=file, line=number, given=f"{len(parts)} fields", expected=f"{FIELDS}"
        )
    try:
        label = {b"0": 0, b"1": 1}[parts[0]]
        counts = [float(int(part)) if part else 0.0 for part in parts[1 : 1 + COUNTS]]
        return label, counts, [_category(part) for part in parts[1 + COUNTS :]]
    except (ValueError, KeyError, OverflowError):
        raise InputError(
            "not a line of Criteo's format",
            file=file,
            line=number,
            given=line.decode(errors="replace").strip(),
            expected="a label 0 or 1, 13 whole numbers, 26 hexadecimal numbers",
        ) from None


def _category(part: bytes) -> int:
    """Number of a category; 0 where the field is empty."""
    if len(part) > CATEGORY_DIGITS or not _HEXADECIMAL.issuperset(part):
        raise ValueError
    return int(part, 16) if part else 0
