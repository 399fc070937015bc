"""Findings for people, made from pydantic's list of errors.

Pydantic reports each branch of a union; a person wants the branch they meant. An error's ``loc`` mixes keys of the
data with names of branches (labels); a comparison with the data separates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from inputs.errors import nearest_name
from inputs.fields import MAPPING, expected_at, keys_at
from inputs.given import MAX_KEYS
from inputs.keys import KeyPath, parse_key, value_at
from inputs.problems import Words, in_words, is_wrong_kind

MISSING = "missing"
NO_TAG = "union_tag_not_found"
UNKNOWN = "extra_forbidden"
TOO_SHORT = "too_short"
_DICT_KEY = "[key]"  # last part of the loc of an error about a key of a dict


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, located in the data.

    Attributes:
        steps: the parts of pydantic's loc, each with whether it is a label.
        path: its place in the data.
        type: pydantic's error type.
        words: text of the message.
        wrong_kind: the value itself is of another kind.
    """

    steps: tuple[tuple[str | int, bool], ...]
    path: KeyPath
    type: str
    words: Words
    wrong_kind: bool = False

    @property
    def labels(self) -> list[str]:
        """The union branches on the way."""
        return [str(part) for part, is_label in self.steps if is_label]


def findings(model: type[BaseModel], data: object, errors: Sequence[ErrorDetails]) -> list[Finding]:
    """Mistakes in ``data``, one finding each, in pydantic's order."""
    located = [_locate(data, error) for error in _without_false_lengths(errors)]
    chosen = _most_plausible(located, 0)
    return [_named(model, data, finding, chosen) for finding in _without_renamed(model, chosen)]


def _without_false_lengths(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Drop "too short" about lists whose items are wrong: pydantic counts the good items only."""
    places = [error["loc"] for error in errors]

    def has_wrong_items(loc: tuple[int | str, ...]) -> bool:
        return any(len(other) > len(loc) and other[: len(loc)] == loc for other in places)

    return [error for error in errors if error["type"] != TOO_SHORT or not has_wrong_items(error["loc"])]


def _locate(data: object, error: ErrorDetails) -> Finding:
    """Separate keys from labels by walking down the data."""
    steps: list[tuple[str | int, bool]] = []
    loc, kind = error["loc"], error["type"]
    for depth, part in enumerate(loc):
        is_key = (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int))
        is_missing = kind == MISSING and depth == len(loc) - 1
        steps.append((part, not (is_key or is_missing)))
        if is_key:
            data = value_at(data, (part,))
    words = in_words(error)
    if loc and loc[-1] == _DICT_KEY:
        kind, words = UNKNOWN, replace(words, message="unknown key", nearest=nearest_name(str(loc[-2]), words.choices))
    inner = parse_key(words.key) if words.key else ()
    given = value_at(data, inner)
    if words.choices and kind != UNKNOWN and isinstance(given, str):
        words = replace(words, nearest=nearest_name(given, words.choices))
    path = (*(part for part, is_label in steps if not is_label), *inner)
    return Finding(tuple(steps), path, kind, words, is_wrong_kind(error))


def _most_plausible(group: Sequence[Finding], depth: int) -> list[Finding]:
    """Keep the best branch of each union below ``depth`` steps; where none fits, one joint finding."""
    here = [f for f in group if len(f.steps) == depth]
    deeper = _grouped([f for f in group if len(f.steps) > depth], lambda f: f.steps[depth])
    branches = {step: _most_plausible(members, depth + 1) for step, members in deeper.items()}
    alternatives = [members for (_, is_label), members in branches.items() if is_label]
    kept = [f for (_, is_label), members in branches.items() if not is_label for f in members]
    return [*here, *kept, *(_best(alternatives, depth + 1) if alternatives else [])]


def _best(alternatives: list[list[Finding]], depth: int) -> list[Finding]:
    """The branch with the fewest mistakes inside; if all fail at the value itself, one finding for all."""
    inside = [branch for branch in alternatives if not _fails_as_a_whole(branch, depth)]
    if inside:
        return min(inside, key=_mistakes)
    first = min((branch[0] for branch in alternatives), key=lambda f: f.wrong_kind)
    others = [branch[0].words.expected for branch in alternatives if branch[0] is not first]
    expected = dict.fromkeys(text for text in (first.words.expected, *others) if text)
    words = replace(first.words, expected=" or ".join(expected) or None)
    return [replace(first, steps=first.steps[: depth - 1], words=words)]


def _fails_as_a_whole(branch: list[Finding], depth: int) -> bool:
    return len(branch) == 1 and len(branch[0].steps) <= depth


def _mistakes(branch: list[Finding]) -> float:
    """Wrong keys weigh most; a missing key and an unknown one may be the same mistake."""
    unknown = sum(f.type == UNKNOWN for f in branch)
    missing = sum(f.type == MISSING for f in branch)
    return max(unknown, missing) + 0.5 * min(unknown, missing) + 0.9 * (len(branch) - unknown - missing)


def _grouped(
    group: Sequence[Finding], key: Callable[[Finding], tuple[str | int, bool]]
) -> dict[tuple[str | int, bool], list[Finding]]:
    groups: dict[tuple[str | int, bool], list[Finding]] = {}
    for finding in group:
        groups.setdefault(key(finding), []).append(finding)
    return groups


def _without_renamed(model: type[BaseModel], group: list[Finding]) -> list[Finding]:
    """Drop "x is missing" where an unknown key of the same mapping is x misspelt."""
    meant = {(*f.path[:-1], _nearest_key(model, f, group)) for f in group if f.type == UNKNOWN and f.path}
    return [f for f in group if not (f.type == MISSING and f.path in meant)]


def _named(model: type[BaseModel], data: object, finding: Finding, group: list[Finding]) -> Finding:
    """Add to the words from the model: accepted keys, and what a missing key should hold."""
    if finding.type == UNKNOWN and finding.path and not finding.words.choices:
        return replace(finding, words=_unknown_key(model, data, finding, group))
    if finding.type in (MISSING, NO_TAG) and finding.path:
        expected = expected_at(model, finding.path, finding.labels)
        message = "the item is missing" if isinstance(finding.path[-1], int) else "the key is missing"
        return replace(finding, words=replace(finding.words, message=message, expected=expected))
    if finding.words.expected and MAPPING in finding.words.expected:
        keys = keys_at(model, finding.path, finding.labels)
        mapping = f"a mapping with keys such as {', '.join(keys[:MAX_KEYS])}" if keys else MAPPING
        return replace(finding, words=replace(finding.words, expected=finding.words.expected.replace(MAPPING, mapping)))
    return finding


def _unknown_key(model: type[BaseModel], data: object, finding: Finding, group: list[Finding]) -> Words:
    parent, name = finding.path[:-1], finding.path[-1]
    keys = keys_at(model, parent, finding.labels)
    expected = f"one of {', '.join(keys)}" if keys else "no key here"
    if name in keys_at(model, parent):  # of another branch of a union
        others = ", ".join(key for key in _keys_of(value_at(data, parent)) if key in keys)
        return Words(f"the key does not go together with {others}" if others else "the key does not fit here", expected)
    return Words("unknown key", expected, _nearest_key(model, finding, group))


def _keys_of(value: object) -> list[str]:
    return [str(key) for key in value] if isinstance(value, dict) else []


def _nearest_key(model: type[BaseModel], finding: Finding, group: list[Finding]) -> str | None:
    """The nearest key: of those that are missing, else of all."""
    parent, name = finding.path[:-1], str(finding.path[-1])
    missing = [str(f.path[-1]) for f in group if f.type == MISSING and f.path[:-1] == parent]
    keys = keys_at(model, parent, finding.labels)
    return nearest_name(name, missing) or nearest_name(name, keys)
