"""YAML files: what each scalar means, where each key stands, and one message for every file that is wrong."""

from pathlib import Path

import pytest
import yaml

from inputs import yaml_nodes
from inputs.errors import InputError
from inputs.yaml_lines import MAX_FILE_BYTES, load_yaml, parse_yaml

FILE = Path("job.yaml")


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request, monkeypatch):
    """Everything holds with libyaml and with the parser in Python that stands in where libyaml is missing."""
    if request.param == "libyaml" and not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML without libyaml")
    loader = yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader
    monkeypatch.setattr(yaml_nodes, "_LOADER", loader)
    return request.param


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, FILE)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 10**9),
        ("1.5e9", 1_500_000_000),
        ("5e-3", 0.005),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("1_000", 1000),
        ("010", 10),
        ("0x1F", 31),
        ("3.0", 3.0),
        ("1e400", float("inf")),
        (".inf", float("inf")),
        ("-.inf", -float("inf")),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("NO", "NO"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12:30:00", "12:30:00"),
        ("2026-11-21", "2026-11-21"),
        ("1.2.3", "1.2.3"),
        ("0o17", "0o17"),
        ("1__0", "1__0"),
        ("25 GB/s", "25 GB/s"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("\u0663", "\u0663"),  # a digit, but not an ASCII one
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text, value):
    given = parse_yaml(f"a: {text}", FILE).data["a"]
    assert given == value
    assert type(given) is type(value)


def test_every_value_knows_its_line():
    document = parse_yaml("a: 1\nb:\n  - x: 1\n    y:\n      z\n  - [2,\n     3]\n", FILE)
    assert document.data == {"a": 1, "b": [{"x": 1, "y": "z"}, [2, 3]]}
    assert document.lines == {
        (): 1, ("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 0, "x"): 3, ("b", 0, "y"): 4,
        ("b", 1): 6, ("b", 1, 0): 6, ("b", 1, 1): 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["a: 1\r\nb: 2\r\n", "\ufeffa: 1\nb: 2", "a: 1\rb: 2\r", "# note\n---\na: 1\nb: 2\n..."]
)
def test_line_ends_byte_order_marks_and_document_marks_do_not_matter(text):
    assert parse_yaml(text, FILE).data == {"a": 1, "b": 2}


def test_an_alias_repeats_its_anchor():
    document = parse_yaml("a: &x {k: 1}\nb: *x\n", FILE)
    assert document.data == {"a": {"k": 1}, "b": {"k": 1}}
    assert document.data["a"] is not document.data["b"]
    assert document.lines["b",] == 2


@pytest.mark.parametrize("text", ["", "  \n\n", "# only a comment\n", "---\n", "null", "\ufeff"])
def test_an_empty_file_is_called_empty(text):
    assert refusal(text) == "job.yaml:1: the file is empty; expected a mapping: lines of the form 'key: value'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n- 2", "job.yaml:1: the file holds a list; expected a mapping"),
        ("\nhello", "job.yaml:2: the file holds 'hello'; expected a mapping"),
        ("a: 1\nb: 2\na: 3", "job.yaml:3: a: the key stands twice, first in line 1"),
        ("w:\n  m: 1\n  m: 1", "job.yaml:3: w.m: the key stands twice, first in line 2"),
        ("a: 1\n'a': 2", "job.yaml:2: a: the key stands twice"),
        (
            "b:\n - x: !!python/object/apply:os.system [ls]",
            "job.yaml:2: b[0].x: YAML tags are not accepted; given '!!py",
        ),
        ("a: !!python/name:os.system x", "given '!!python/name:os.system'; expected a plain value without a tag"),
        ("a: !!str 1", "YAML tags are not accepted; given '!!str'"),
        ("a: !gpu x", "YAML tags are not accepted; given '!gpu'"),
        ("!!map\na: 1", "YAML tags are not accepted; given '!!map'"),
        ("!x a: 1", "a key that is no plain text"),
        ("base: &b {x: 1}\nuse:\n  <<: *b", "job.yaml:3: use: merge keys are not supported; given '<<'"),
        ("a: &x [*x]", "job.yaml:1: a[0]: an alias that contains itself; given '*x'"),
        ("a: &x\n  b: *x", "job.yaml:2: a.b: an alias that contains itself"),
        ("a: 1\nb: *nope", "job.yaml:2: b: an alias without an anchor; given '*nope'"),
        ("1: x", "a key that is no text; given '1'; expected a name (put it in quotes)"),
        ("true: x", "a key that is no text; given 'true'"),
        ("? [a, b]\n: 1", "a key that is no plain text"),
        ("a: 1\n---\nb: 1", "a second document starts here; expected one document"),
        ("a:\n\tb: 1", "job.yaml:2: not valid YAML: a tab in the indentation"),
        ("a: b: c", "job.yaml:1: not valid YAML: mapping values are not allowed"),
        ("a: [1, 2", "not valid YAML"),
        ('a: "open', "expected the closing quote"),
        ("a: @x", "expected quotes around text that begins with a special character"),
        ("a: 1\nb: \x01", "job.yaml:2: a character that text files do not contain"),
        ("a: " + "9" * 400, "job.yaml:1: a: a number of 400 digits; expected at most 300"),
        ("a: " + "[" * 100 + "]" * 100, "nested deeper than 64 levels"),
        ("a: " + "{b: " * 3000 + "}" * 3000, "nested deeper than 64 levels"),
        ("\n".join(" " * i + "k:" for i in range(200)), "nested deeper than 64 levels"),
        ("- " * 3000 + "x", "nested deeper than 64 levels"),
    ],
)
def test_what_is_refused_and_what_is_said(text, message):
    assert message in refusal(text)


def test_the_line_of_a_syntax_error_is_one_of_the_file():
    assert refusal("a: 1\nb: [1,\n\n\n").startswith("job.yaml:2: ")


def test_aliases_that_expand_without_end_are_refused_before_they_expand():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    assert "more than 250,000 values, aliases expanded" in refusal("\n".join(levels))


def test_aliases_that_nest_without_end_are_refused():
    levels = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 100))]
    assert "nested deeper than 64 levels" in refusal("\n".join(levels))


def test_files_that_cannot_be_read(tmp_path):
    for path, message in [
        (tmp_path / "missing.yaml", "no such file"),
        (tmp_path, "this is a folder; expected a YAML file"),
        (Path("/dev/zero"), "the file is too large"),
        (tmp_path / "missing.yaml" / "x", "no such file"),
        (tmp_path / ("x" * 5000), "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(InputError, match=message):
            load_yaml(path)


def test_a_file_that_is_no_utf_8_is_refused_with_line_and_byte(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"a: 1\nname: caf\xe9\n")
    with pytest.raises(InputError, match=r"latin\.yaml:2: the file is not UTF-8 text; given byte 0xe9; expected UTF-8"):
        load_yaml(file)
    file.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(InputError, match="not UTF-8"):
        load_yaml(file)


def test_a_file_over_the_limit_is_refused(tmp_path):
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * MAX_FILE_BYTES + b"\na: 1")
    with pytest.raises(InputError, match="too large; expected at most 16,777,216 bytes"):
        load_yaml(file)


def test_a_good_file_is_read(tmp_path):
    file = tmp_path / "good.yaml"
    file.write_text("name: caf\u00e9\n", encoding="utf-8")
    document = load_yaml(file)
    assert (document.data, document.file) == ({"name": "caf\u00e9"}, file)
