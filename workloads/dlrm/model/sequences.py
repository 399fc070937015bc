"""Sequence features: histories with a lookup for every position, whose vectors are not summed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from inputs.errors import InputError, nearest_name
from inputs.keys import KeyPath
from inputs.model import Strict
from inputs.quantities import Quantity
from inputs.yaml_lines import Document
from workloads.dlrm.laws.sequence_lengths import LengthLaw, MaxLength, check_longest, read_lengths
from workloads.dlrm.model.hstu import Hstu
from workloads.dlrm.model.table_list import TableGroup
from workloads.graded import Graded, value_path

Targets = Annotated[int, Quantity("count", 0, 100_000)]


class SequenceFeature(Strict):
    """Features that have the same length in a sample, such as the items of a history and their artists.

    Attributes:
        max_length: positions that are kept of a longer history.
        lengths: distribution of the lengths.
        targets: candidates behind the history, each one more position.
    """

    max_length: Graded[MaxLength]
    lengths: Graded[LengthLaw]
    targets: Graded[Targets] | None = None


@dataclass(frozen=True, slots=True)
class SequenceLengths:
    """Lengths of a sequence; hashable.

    Attributes:
        name: its name in the model, by which draws are keyed.
        maximum: largest length without targets.
        targets: positions of candidates in every sample.
        attended: whether HSTU layers run over it, so that samples are dealt to ranks by its lengths.
        context: positions beside it in every sample, which the layers run over, too.
        even_positions: length at which work that grows with a length's square is as much as that which grows with the
            length.
    """

    name: str
    law: LengthLaw
    maximum: int
    targets: int = 0
    attended: bool = False
    context: int = 0
    even_positions: float = 0.0

    @property
    def mean_positions(self) -> float:
        """Mean number of positions of a sample, candidates included."""
        return self.law.mean_length(self.maximum) + self.targets

    @property
    def fixed(self) -> bool:
        """Whether all samples have the same length."""
        return self.law.distribution == "fixed"


def lengths_of(
    sequences: Mapping[str, SequenceFeature], hstu: Hstu | None, groups: tuple[TableGroup, ...]
) -> dict[str, SequenceLengths]:
    """Lengths of each sequence of a model, and the work that they are for its layers.

    Args:
        groups: the model's tables.
    """
    found: dict[str, SequenceLengths] = {}
    for name, feature in sequences.items():
        targets = 0 if feature.targets is None else feature.targets.value
        known = SequenceLengths(name, feature.lengths.value, feature.max_length.value, targets)
        if hstu is not None and name == hstu.sequence:
            context = sum(g.count * g.features for g in groups if g.sequence == hstu.context and hstu.context)
            known = replace(known, attended=True, context=context, even_positions=hstu.even_positions)
        found[name] = known
    return found


def with_lengths(
    sequences: Mapping[str, SequenceFeature], document: Document, path: KeyPath
) -> dict[str, SequenceFeature]:
    """Sequences with their files of lengths read in.

    Args:
        sequences: sequences at ``path`` of ``document``.

    Raises:
        InputError: a file is missing or wrong, or a length lies beyond the maximum.
    """
    return {
        name: feature.model_copy(
            update={"lengths": read_law(feature.lengths, feature, document, (*path, name, "lengths"))}
        )
        for name, feature in sequences.items()
    }


def read_law(law: Graded[LengthLaw], feature: SequenceFeature, document: Document, path: KeyPath) -> Graded[LengthLaw]:
    """A law of lengths for a feature, its file read in.

    Args:
        path: path of the law in the document.

    Raises:
        InputError: the file is missing or wrong, a length lies beyond the feature's maximum, or no sample has a
            position.
    """
    place = value_path(document, path)
    try:
        found = _read(law, feature, document, place)
        _check_positions(found.value, feature)
    except InputError as error:
        if error.line is not None:
            raise
        key = (*place, "file") if law.value.file is not None else place
        raise document.error(key, error.message, given=error.given, expected=error.expected) from None
    return found


def _read(law: Graded[LengthLaw], feature: SequenceFeature, document: Document, place: KeyPath) -> Graded[LengthLaw]:
    """The law at ``place`` of the document with its file read in, none of its lengths beyond the maximum."""
    maximum = feature.max_length.value
    if law.value.file is None:
        check_longest(law.value, maximum)
        return law
    given = Path(law.value.file).expanduser()
    _, line = document.where((*place, "file"))
    file = given if line is None else document.file.parent / given
    if not file.is_file():
        raise InputError("no such file", given=law.value.file, expected="a CSV with a column length")
    return law.model_copy(
        update={"value": read_lengths(file, maximum, cut=bool(law.value.cut)), "note": f"as counted in {file.name}"}
    )


def _check_positions(law: LengthLaw, feature: SequenceFeature) -> None:
    """Check that a sample may have a position.

    Raises:
        InputError: all lengths are 0, and there are no candidates.
    """
    targets = 0 if feature.targets is None else feature.targets.value
    if law.mean_length(feature.max_length.value) + targets == 0.0:
        raise InputError("no sample has a position", given="lengths of 0", expected="a length above 0, or targets")


def why_no_context(feature: SequenceFeature) -> str | None:
    """Reason why features cannot stand before a history, each as one position; None where they can."""
    law, targets = feature.lengths.value, feature.targets
    if feature.max_length.value != 1 or law.distribution != "fixed" or law.mean not in (None, 1.0):
        return "a contextual feature has one position in every sample"
    return "a contextual feature has no candidates" if targets is not None and targets.value else None


def check_named(
    groups: tuple[TableGroup, ...], sequences: Mapping[str, SequenceFeature], document: Document, path: KeyPath
) -> None:
    """Check that every table's sequence is one of the model's.

    Args:
        groups: groups at ``path`` of ``document``.

    Raises:
        InputError: a table names a sequence without lengths, or no table names a sequence.
    """
    for number, group in enumerate(groups):
        if group.sequence is not None and group.sequence not in sequences:
            raise document.error(
                (*path, number, "sequence"),
                "a sequence feature without lengths",
                given=group.sequence,
                expected=f"one of sequences: {', '.join(sequences) or 'none is given'}",
                nearest=nearest_name(group.sequence, sequences),
            )
    unused = next((name for name in sequences if all(group.sequence != name for group in groups)), None)
    if unused is not None:
        expected = f"sequence: {unused} of a table, or no such sequence"
        raise document.error(path, "no table looks up the positions of a sequence", given=unused, expected=expected)
