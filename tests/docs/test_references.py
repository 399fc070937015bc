"""Names of the repository's code in docstrings and docs exist: a rename that forgets a sentence is found here.

In docstrings a name between single backticks is one of this code; words, files and names of other packages stand
between double ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = sorted(room.name for room in ROOT.iterdir() if room.is_dir() and list(room.glob("*.py")))
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

DOTTED = re.compile(rf"`+((?:{'|'.join(ROOMS)})(?:\.\w+)+)(?:\(\))?`+")
"""Names from a room downwards."""
PATH = re.compile(rf"`+((?:{'|'.join([*ROOMS, 'docs'])})/[\w./-]+)`+")
OWN = re.compile(r"(?<![`\w])`([A-Za-z_][\w.]*)`(?!`)")
SUFFIXES = {"csv", "html", "json", "md", "parquet", "py", "yaml"}
GROUPS = re.compile(r"\"(dlrmsim\.\w+)\"")
"""Groups of entry points, as the registries name them: they look like modules."""


@cache
def modules() -> Mapping[str, Path | None]:
    """Files of modules by dotted name; None: a folder without ``__init__.py``."""
    found: dict[str, Path | None] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if path.suffix == ".py":
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
            elif path.is_dir():
                found.setdefault(".".join(parts), None)
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def defined(body: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Names that statements bind, those of imports and of both branches of an ``if`` included."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign():
                yield from ((name.id, node) for name in ast.walk(node) if isinstance(name, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name, node) for alias in node.names)
            case ast.If() | ast.Try() | ast.With():
                yield from defined(ast.iter_child_nodes(node))


def exists(name: str) -> bool:
    """Whether a dotted name is a module, a name in one, or a member of a class in one."""
    parts = name.split(".")
    known = [length for length in range(len(parts), 0, -1) if ".".join(parts[:length]) in modules()]
    if not known:
        return False
    file, rest = modules()[".".join(parts[: known[0]])], parts[known[0] :]
    if not rest or file is None:
        return not rest
    node = dict(defined(tree_of(file).body)).get(rest[0])
    if len(rest) == 1 or not isinstance(node, ast.ClassDef):
        return node is not None
    return bool(node.bases) or rest[1] in dict(defined(node.body))


def groups() -> set[str]:
    registries = [path for path in modules().values() if path and "Registry[" in path.read_text(encoding="utf-8")]
    return {group for path in registries for group in GROUPS.findall(path.read_text(encoding="utf-8"))}


def missing_names(text: str) -> list[str]:
    found = [name for name in DOTTED.findall(text) if name.rsplit(".", 1)[-1] not in SUFFIXES]
    return [name for name in found if not exists(name) and name not in groups()]


def missing_paths(text: str) -> list[str]:
    return [path for path in PATH.findall(text) if not (ROOT / path).exists() and not list(ROOT.glob(f"{path}[-.]*"))]


def sources() -> list[Path]:
    return [*(path for path in modules().values() if path is not None), *PAGES]


def test_dotted_names_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in sources()}
    assert sum(len(DOTTED.findall(text)) for text in texts.values()) > 100
    assert {str(path): found for path, text in texts.items() if (found := missing_names(text))} == {}


def test_paths_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in sources()}
    assert sum(len(PATH.findall(text)) for text in texts.values()) > 100
    assert {str(path): found for path, text in texts.items() if (found := missing_paths(text))} == {}


@cache
def identifiers() -> set[str]:
    """Every name that the code has."""
    found = {part for name in modules() for part in name.split(".")}
    for path in modules().values():
        for node in ast.walk(tree_of(path)) if path else ():
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name):
                    found.add(name)
                case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                    found.add(name)
                case ast.alias():
                    found.update((node.asname or node.name).split("."))
    return found


def unknown_names(source: ast.Module) -> list[str]:
    """Names between single backticks in docstrings, of which a part is nowhere in the code."""
    strings = [node.value for node in ast.walk(source) if isinstance(node, ast.Expr)]
    texts = [node.value for node in strings if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = [name for text in texts for name in OWN.findall(text)]
    return [name for name in names if any(part not in identifiers() for part in name.split("."))]


def test_names_between_single_backticks_are_names_of_the_code():
    files = [path for path in modules().values() if path and path.relative_to(ROOT).parts[0] != "tests"]
    assert len(files) > 500
    assert {str(path): found for path in files if (found := unknown_names(tree_of(path)))} == {}


def test_missing_names_are_found():
    names = ["simulator.compute.gpu.Missing", "simulator.missing", "inputs.errors.InputError.file", "dlrmsim.planners"]
    assert missing_names(" ".join(f"`{name}`" for name in names)) == names[:2]
    assert missing_paths(" ".join(f"`{path}`" for path in ("simulator/none.py", "simulator/program.py"))) == [
        "simulator/none.py"
    ]
    assert unknown_names(ast.parse('"""A `Mssing` name, ``any`` word, `TaskGraph.check`."""')) == ["Mssing"]
