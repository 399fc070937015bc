"""The English of docstrings and docs: counts of a private language that an outsider cannot search or trust."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROOMS = (
    "inputs",
    "hardware_specs",
    "simulator",
    "workloads",
    "traces",
    "scenarios",
    "reports",
    "validation",
    "trainer",
    "dlrmsim",
    "benchmarks",
)

EXCLUDED: tuple[str, ...] = ()
"""Files that are not counted."""

PAGES = ("CONTRIBUTING.md", "README.md", "CHANGELOG.md", "docs/**/*.md")

EXCLUDED_PAGES: tuple[str, ...] = ()
"""Pages that are not counted yet."""

MOST_TELLS = 0.3
"""Most uses of "tell" in 1,000 words. SimPy, HTA, TorchRec and httpx have 0 to 0.25."""

TELL = re.compile(r"\b(tells?|told|telling)\b", re.IGNORECASE)

PREPOSITION = re.compile(
    r"(Of|By|In|At|For|From|Up|Beside|Besides|With|Without|On|To|Over|Under|Among|Between|After|Before|Within|Into|Until"
    r"|As|Off|Below|Above|Against|Across|Per|Through|Beyond|Out|Apart)\b(?!-)"
)
"""First word of an opening that hides its noun: "Of a rank's interruptions, ...", "Up to where it is looked for"."""

CLAUSE = re.compile(r"(What|Who|How|Where|When|Which|That|Those)\b")
"""First word of a clause that stands for a noun of the field: "What a rank holds" for "Memory of a rank"."""

FRAGMENT = re.compile(r"(of|by|at|what|who|whose|where|which|that|those|how many|told)\b")
"""First word of an entry that is the rest of a sentence: "share: of every link"."""

PRIVATE = (
    re.compile(r"\banew\b", re.IGNORECASE),
    re.compile(r"(?:^|[.!?:]\s+)What of\b"),
    re.compile(r"(?:^|[.!?]\s+)Of [^.,;:]+, (?:the|what|how|that|those|all|only)\b"),
    re.compile(r"\bUp to where\b"),
    re.compile(r"\bthe one and the other\b", re.IGNORECASE),
)

MOST_POINTERS_IN_DOCSTRINGS, MOST_POINTERS_ON_PAGES = 2.3, 1.4
"""Most pronouns in place of a repeated noun in 1,000 words; 2.5 and 1.6 before sentences named their nouns."""

POINTER = re.compile(r"\b(those|that of|what is left of|of which only)\b", re.IGNORECASE)
"""Pronoun in place of a noun: "those that do not fit" for "divisions that do not fit"."""

FILLERS = frozenset(
    ("a", "an", "the", "its", "it", "this", "that", "of", "in", "to", "for", "and", "or", "is", "what", "which")
)
"""Words that add nothing to an entry."""


@dataclass(frozen=True)
class Docstring:
    """A docstring, its place, the constant or field it describes, and the types of what its owner declares."""

    path: str
    line: int
    text: str
    constant: str
    types: dict[str, str]

    @property
    def place(self):
        return f"{self.path}:{self.line}"


def declared_types(node: ast.AST) -> dict[str, str]:
    arguments = {
        part.arg: ast.unparse(part.annotation)
        for part in ast.walk(node)
        if isinstance(part, ast.arg) and part.annotation is not None
    }
    fields = {
        ast.unparse(part.target): ast.unparse(part.annotation)
        for part in ast.walk(node)
        if isinstance(part, ast.AnnAssign)
    }
    return fields | arguments


def strings_after_assignments(body: list[ast.stmt], path: str) -> Iterator[Docstring]:
    for before, node in pairwise(body):
        if (
            isinstance(before, ast.Assign | ast.AnnAssign)
            and isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            target = before.targets[0] if isinstance(before, ast.Assign) else before.target
            yield Docstring(path, node.lineno, node.value.value, ast.unparse(target), {})


def docstrings_of(source: str, path: str) -> Iterator[Docstring]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield Docstring(path, node.body[0].lineno, text, "", declared_types(node))
            yield from strings_after_assignments(node.body, path)


def entries_of(text: str) -> Iterator[tuple[str, str]]:
    """Names and texts of the entries under ``Args:`` and ``Attributes:``."""
    for section in re.finditer(r"^(?:Args|Attributes):\n((?:[ \t]+.*(?:\n|\Z)|\n)+)", text, re.MULTILINE):
        body = section[1]
        indent = len(body) - len(body.lstrip(" "))
        entry = rf"^ {{{indent}}}(\w[^:\n]*):(.*(?:\n {{{indent + 1},}}.*)*)"
        for found in re.finditer(entry, body, re.MULTILINE):
            yield found[1].strip(), " ".join(found[2].split())


def stems(text: str) -> set[str]:
    """Lower-case words, also those inside a name of any style, without a plural's s."""
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)}


def only_repeats(name: str, text: str, annotation: str) -> bool:
    """Whether every word of an entry is in the argument's name or type."""
    fillers = {word.rstrip("s") for word in FILLERS}
    return stems(text) - fillers <= stems(name) | stems(annotation)


def per_1000_words(pattern: re.Pattern[str], texts: list[str]) -> float:
    words = sum(len(text.split()) for text in texts)
    return 1000 * sum(len(pattern.findall(text)) for text in texts) / words


def matching(pattern: re.Pattern[str], found: list[Docstring]) -> list[str]:
    return [f"{d.place}: {d.text.splitlines()[0]}" for d in found if pattern.match(d.text)]


@pytest.fixture(scope="module")
def docstrings():
    excluded = {path for pattern in EXCLUDED for path in ROOT.glob(pattern)}
    files = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if path not in excluded]
    return [found for path in files for found in docstrings_of(path.read_text(), str(path.relative_to(ROOT)))]


@pytest.fixture(scope="module")
def pages():
    excluded = {path for pattern in EXCLUDED_PAGES for path in ROOT.glob(pattern)}
    return {path: path.read_text() for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if path not in excluded}


def test_docstrings_report_measure_and_predict_but_do_not_tell(docstrings):
    assert len(docstrings) > 2000
    assert per_1000_words(TELL, [d.text for d in docstrings]) <= MOST_TELLS


def test_pages_report_measure_and_predict_but_do_not_tell(pages):
    assert pages
    assert per_1000_words(TELL, list(pages.values())) <= MOST_TELLS


def test_docstrings_and_pages_repeat_a_noun_rather_than_point_to_it(docstrings, pages):
    assert per_1000_words(POINTER, [d.text for d in docstrings]) <= MOST_POINTERS_IN_DOCSTRINGS
    assert per_1000_words(POINTER, list(pages.values())) <= MOST_POINTERS_ON_PAGES


def test_docstrings_begin_with_a_noun_or_a_verb_and_not_with_a_preposition(docstrings):
    assert matching(PREPOSITION, docstrings) == []


def test_docstrings_begin_with_a_noun_or_a_verb_and_not_with_a_clause(docstrings):
    assert matching(CLAUSE, docstrings) == []


def test_entries_of_arguments_and_attributes_add_to_name_and_type(docstrings):
    repeated = [
        f"{d.place}: {name}: {text}"
        for d in docstrings
        for name, text in entries_of(d.text)
        if only_repeats(name, text, d.types.get(name, ""))
    ]
    assert repeated == []


def test_entries_of_arguments_and_attributes_are_not_the_rest_of_a_sentence(docstrings):
    assert [
        f"{d.place}: {name}: {text}" for d in docstrings for name, text in entries_of(d.text) if FRAGMENT.match(text)
    ] == []


def test_docstrings_have_no_sentences_of_a_private_english(docstrings):
    found = [f"{d.place}: {m[0]}" for d in docstrings for pattern in PRIVATE for m in pattern.finditer(d.text)]
    assert found == []


def test_pages_have_no_sentences_of_a_private_english(pages):
    found = [f"{path}: {m[0]}" for path, text in pages.items() for pattern in PRIVATE for m in pattern.finditer(text)]
    assert found == []


RAISED = re.compile(r"(Error|\bproblem|\.error)$")
"""Calls that make an error of a wrong input."""


def text_of(node: ast.AST) -> str:
    """Text of a string or f-string, with ``{}`` for values; empty for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or "{}" for part in parts)
    return ""


def messages_of(source: str) -> tuple[list[str], list[str]]:
    """Help texts of options, and texts of errors."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    helps = [text_of(of.value) for call in calls for of in call.keywords if of.arg == "help"]
    raised = [call for call in calls if RAISED.search(ast.unparse(call.func))]
    parts = [part for call in raised for part in (*call.args, *(of.value for of in call.keywords))]
    return [text for text in helps if text], [text for part in parts if (text := text_of(part))]


@pytest.fixture(scope="module")
def messages():
    sources = [path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    helps, errors = zip(*map(messages_of, sources), strict=True)
    return [text for of in helps for text in of], [text for of in errors for text in of]


def test_help_begins_with_a_noun_or_a_verb(messages):
    helps, _ = messages
    assert len(helps) > 100
    assert [text for text in helps if PREPOSITION.match(text) or CLAUSE.match(text)] == []


def test_help_and_errors_have_no_words_of_a_private_english(messages):
    assert len(messages[1]) > 500
    patterns = (TELL, *PRIVATE)
    assert [text for texts in messages for text in texts if any(pattern.search(text) for pattern in patterns)] == []


BAD = '''
SHARE = 0.5
"""Of a core that two who want it have."""

def share(job: Job, width: float) -> float:
    """What a job has, told anew.

    Args:
        job: the job.
        width: of a row,
            bytes.
    """
'''


def test_the_patterns_find_what_they_are_for():
    constant, function = sorted(docstrings_of(BAD, "bad.py"), key=lambda d: d.line)
    assert constant.constant == "SHARE"
    assert PREPOSITION.match(constant.text)
    assert CLAUSE.match(function.text)
    assert TELL.search(function.text)
    assert PRIVATE[0].search(function.text)
    assert dict(entries_of(function.text)) == {"job": "the job.", "width": "of a row, bytes."}
    assert only_repeats("job", "the job.", function.types["job"])
    assert not only_repeats("width", "of a row, bytes.", function.types["width"])
    assert FRAGMENT.match("of a row, bytes.")
    assert per_1000_words(TELL, ["a b c told"]) == 250.0
    assert per_1000_words(POINTER, ["those of a rank", "that is that of a rank"]) == 200.0
    wrong = 'Option(help="Of it."); raise InputError(f"{name} tells", expected="one anew")'
    assert messages_of(wrong) == (["Of it."], ["{} tells", "one anew"])
