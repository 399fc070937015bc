"""Every mistake in a document becomes one message: file, line, key, given, expected, nearest valid name."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import pytest
from pydantic import Field, model_validator
from pydantic_core._pydantic_core import list_all_errors

from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.problems import in_words
from inputs.quantities import Bytes, BytesPerSecond, Count
from inputs.validate import validate
from inputs.yaml_lines import parse_yaml

T = TypeVar("T")


class Sourced(Strict, Generic[T]):
    value: T
    source: str


class Ring(Strict):
    kind: Literal["ring"] = "ring"
    chunks: int


class Tree(Strict):
    kind: Literal["tree"] = "tree"
    widths: list[int] = Field(description="fan-out of each level")


class ByPlanner(Strict):
    planner: Literal["greedy", "table_wise"]
    seed: int = 0


class ByPlan(Strict):
    plan: str


class Table(Strict):
    rows: Count
    dim: int = Field(64, ge=1, le=4096, multiple_of=4)


class Grade(StrEnum):
    READ = "read"
    MEMORY = "memory"


class Job(Strict):
    version: int = Field(1, alias="schema")
    name: str = Field("job", pattern=r"^[a-z_0-9]+$", min_length=2)
    tables: tuple[Table, ...] = ()
    pair: tuple[int, int] = (1, 2)
    sharding: ByPlanner | ByPlan = ByPlanner(planner="greedy")
    algorithm: Annotated[Ring | Tree, Field(discriminator="kind")] | None = None
    iterations: Literal["auto"] | int = "auto"
    scaling: Literal["none", "fit"] | Ring = "none"
    network: dict[Literal["all_reduce", "all_to_all"], str] = Field(default_factory=dict)
    link: Sourced[BytesPerSecond] | None = None
    memory: Annotated[Bytes, Field(gt=0)] = 1.0
    seed: int | str | None = None
    grade: Grade = Grade.READ
    steady: bool = False
    factor: float = 1.0
    note: str | None = None
    file: Path = Path()
    ranks: tuple[int, ...] = Field((0,), min_length=1, max_length=3)

    @model_validator(mode="after")
    def _agree(self) -> "Job":
        if self.factor == 7:
            raise problem("too lucky", key="factor", expected="another number", nearest="8")
        if self.factor == 8:
            raise ValueError("factor and seed disagree")
        if self.factor == 9:
            raise InputError("found in a catalogue", key="factor", given="x")
        return self


def refusal(text: str, *overrides: str) -> str:
    document = parse_yaml(text, Path("job.yaml"))
    for override in overrides:
        document = document.set(*override.split("=", 1))
    with pytest.raises(InputError) as caught:
        validate(Job, document)
    return str(caught.value)


def test_a_good_document_becomes_the_model():
    text = (
        "schema: 2\ntables: [{rows: 1e6}, {rows: 10, dim: 8}]\npair: [3, 4]\nsharding: {plan: a.json}\n"
        "algorithm: {kind: tree, widths: [2]}\niterations: 5\nscaling: {chunks: 1}\n"
        "link: {value: 200 Gb/s, source: x}\n"
        "factor: 2\nnetwork: {all_reduce: ring}\nsteady: true\nseed:\ngrade: memory\n"
    )
    job = validate(Job, parse_yaml(text, Path("job.yaml")))
    assert (job.version, job.pair, job.factor, job.steady) == (2, (3, 4), 2.0, True)
    assert job.tables == (Table(rows=10**6), Table(rows=10, dim=8))
    assert (job.sharding, job.algorithm) == (ByPlan(plan="a.json"), Tree(widths=[2]))
    assert (job.iterations, job.scaling, job.seed, job.grade) == (5, Ring(chunks=1), None, Grade.MEMORY)
    assert job.link is not None
    assert job.link.value == 25e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # unknown keys
        ("\nnmae: x", "job.yaml:2: nmae: unknown key; given 'nmae'; expected one of schema, name, tables,"),
        ("nmae: x", "did you mean 'name'?"),
        ("Steady: true", "did you mean 'steady'?"),
        ("version: 1", "version: unknown key"),  # the alias is what people write
        ("tables:\n- rows: 1\n- rows: 1\n  dims: 2", "job.yaml:4: tables[1].dims: unknown key; given 'dims'"),
        ("tables:\n- rwos: 1", "job.yaml:2: tables[0].rwos: unknown key; given 'rwos'; expected one of rows, dim; did"),
        (
            "link: {value: 1 B/s, sauce: x}",
            "link.sauce: unknown key; given 'sauce'; expected one of value, source; did",
        ),
        ("network: {allreduce: ring}", "network.allreduce: unknown key; given 'allreduce'; expected one of all_reduce"),
        # missing keys
        ("name: ok\ntables:\n- dim: 4", "job.yaml:3: tables[0].rows: the key is missing; expected a whole number"),
        ("algorithm:\n  kind: tree", "algorithm.widths: the key is missing; expected a list (fan-out of each level)"),
        ("algorithm: {chunks: 1}", "algorithm.kind: the key is missing; expected ring or tree"),
        ("link: {source: x}", "link.value: the key is missing; expected a bandwidth with a unit"),
        ("pair: [1]", "pair[1]: the item is missing"),
        # wrong types
        ("tables: 3", "tables: wrong type; given 3; expected a list"),
        ("tables: {rows: 1}", "tables: wrong type; given a mapping with key rows; expected a list"),
        ("tables: [3]", "tables[0]: wrong type; given 3; expected a mapping with keys such as rows, dim"),
        ("name: 12", "name: wrong type; given 12; expected text"),
        ("name: true", "name: wrong type; given true; expected text"),
        ("name: [a]", "name: wrong type; given a list of 1 item; expected text"),
        ("name:", "name: wrong type; given nothing (null); expected text"),
        ("factor: '1'", "factor: wrong type; given '1'; expected a number"),
        ("factor: true", "factor: wrong type; given true; expected a number"),
        ("schema: 1.5", "schema: wrong type; given 1.5; expected a whole number"),
        ("schema: '1'", "schema: wrong type; given '1'; expected a whole number"),
        ("schema: true", "schema: wrong type; given true; expected a whole number"),
        ("steady: yes", "steady: wrong type; given 'yes'; expected true or false"),
        ("steady: 1", "steady: wrong type; given 1; expected true or false"),
        ("file: 3", "file: wrong type; given 3; expected a path"),
        ("network: []", "network: wrong type; given a list of 0 items; expected a mapping (lines 'key: value')"),
        ("seed: 1.5", "seed: wrong type; given 1.5; expected a whole number or text"),
        # impossible values
        ("factor: .nan", "factor: impossible value; given .nan; expected a finite number"),
        ("factor: -.inf", "factor: impossible value; given -.inf; expected a finite number"),
        ("tables: [{rows: -5}]", "tables[0].rows: impossible value; given -5; expected from 0 to"),
        ("tables: [{rows: 1, dim: 0}]", "tables[0].dim: impossible value; given 0; expected 1 or more"),
        ("tables: [{rows: 1, dim: 6}]", "given 6; expected a multiple of 4"),
        ("tables: [{rows: 1, dim: 5000}]", "given 5000; expected 4096 or less"),
        ("memory: 0 B", "memory: impossible value; given '0 B'; expected more than 0"),
        ("memory: -1 GiB", "memory: impossible value; given '-1 GiB'; expected from 0 B to 1 EB"),
        ("link: {value: 3, source: x}", "link.value: the unit is missing; given 3; expected a bandwidth with a unit"),
        ("link: {value: 3 gb/s, source: x}", "link.value: unknown unit 'gb/s'; given '3 gb/s'"),
        ("name: a b", "name: impossible value; given 'a b'; expected text that matches ^[a-z_0-9]+$"),
        ("name: a", "expected at least 2 characters"),
        ("ranks: []", "ranks: impossible value; expected at least one item"),
        ("ranks: [1, 2, 3, 4]", "ranks: impossible value; expected at most 3 items, there are 4"),
        # unknown names
        ("grade: raed", "grade: unknown value; given 'raed'; expected one of read, memory; did you mean 'read'?"),
        ("iterations: atuo", "iterations: unknown value; given 'atuo'; expected auto or a whole number; did you mean"),
        (
            "scaling: fti",
            "scaling: unknown value; given 'fti'; expected one of none, fit or a mapping with keys such as",
        ),
        ("algorithm: {kind: rign}", "algorithm.kind: unknown value; given 'rign'; expected one of ring, tree; did you"),
        # unions: the branch that was meant
        ("sharding: greedy", "expected a mapping with keys such as planner, seed, plan"),
        (
            "sharding: {planner: gredy}",
            "sharding.planner: unknown value; given 'gredy'; expected one of greedy, table_",
        ),
        (
            "sharding: {planer: greedy}",
            "sharding.planer: unknown key; given 'planer'; expected one of planner, seed; did",
        ),
        ("sharding: {plan: 3}", "sharding.plan: wrong type; given 3; expected text"),
        ("sharding: {planner: greedy, plan: a}", "sharding.plan: the key does not go together with planner"),
        ("sharding: {}", "sharding.planner: the key is missing"),
        ("algorithm: {kind: ring, chunks: x}", "algorithm.chunks: wrong type; given 'x'; expected a whole number"),
        ("algorithm: {kind: ring, widths: [2], chunks: 2}", "algorithm.widths: the key does not go together with kind"),
        ("algorithm: 3", "algorithm: wrong type; given 3; expected a mapping with keys such as kind, chunks, widths"),
        ("scaling: {chunks: x}", "scaling.chunks: wrong type; given 'x'; expected a whole number"),
        # validators of the model
        ("a: 1\nfactor: 7", "job.yaml:1: a: unknown key"),
        ("name: job\nfactor: 7", "job.yaml:2: factor: too lucky; given 7; expected another number; did you mean '8'?"),
        ("factor: 8", "job.yaml:1: factor and seed disagree"),
        ("name: ok\nfactor: 9", "job.yaml:2: factor: found in a catalogue; given 'x'"),
    ],
)
def test_one_message_says_where_what_was_given_and_what_is_right(text, message):
    assert message in refusal(text)


def test_all_problems_are_listed_in_the_order_of_the_file():
    text = "name: job\nzz: 1\nsteady: maybe\ntables:\n- dim: 0\n  rows: 1\n"
    first, second, third = refusal(text).splitlines()
    assert first.startswith("job.yaml:2: zz: unknown key")
    assert second.startswith("job.yaml:3: steady: ")
    assert third.startswith("job.yaml:5: tables[0].dim: ")


def test_a_problem_on_the_command_line_comes_first_and_names_the_option():
    message = refusal("name: job\nzz: 1", "tables=[{rows: 1, dim: x}]")
    assert message.startswith("--set tables=[{rows: 1, dim: x}]: tables[0].dim: wrong type; given 'x'")


def test_a_part_of_a_document_is_validated_with_the_lines_and_keys_of_the_whole():
    document = parse_yaml("jobs:\n- name: ok\n- name: job\n  steady: 3\nempty:\n", Path("jobs.yaml"))
    assert validate(Job, document, prefix=("jobs", 0)).name == "ok"
    for prefix, message in [
        (("jobs", 1), r"^jobs\.yaml:4: jobs\[1\]\.steady: wrong type"),
        (("jobs", 2), r"^jobs\.yaml:1: jobs\[2\]: the key is missing"),
        (("other", "x"), r"^jobs\.yaml:1: other: the key is missing"),
        (("empty",), r"^jobs\.yaml:5: empty: wrong type; given nothing \(null\); expected a mapping with keys"),
    ]:
        with pytest.raises(InputError, match=message):
            validate(Job, document, prefix=prefix)


def test_messages_never_speak_pydantic():
    foreign = ("pydantic", "Input should", "dictionary", "validation error", "tuple", "instance", "[type=", "function-")
    for text in ("tables: 3", "sharding: 3", "algorithm: {kind: x}", "network: 3", "pair: 3", "seed: []", "grade: 3"):
        message = refusal(text)
        assert not [word for word in foreign if word in message], message


def test_every_error_of_pydantic_has_words():
    """Also of types that no model of ours has now: none may raise or come out as a bare sentence about "Input"."""
    for known in list_all_errors():
        context = dict.fromkeys(("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"), 1)
        context |= {
            "actual_length": 2,
            "expected": "'a' or 'b'",
            "expected_tags": "'a', 'b'",
            "discriminator": "'kind'",
        }
        error = {"type": known["type"], "loc": (), "msg": known["message_template_python"], "input": 1, "ctx": context}
        words = in_words(error)  # type: ignore[arg-type]
        assert words.message
        assert not words.message.startswith("Input should"), known["type"]


def test_unhashable_or_strange_field_names_do_not_disturb_strictness():
    class Odd(Strict):
        type: int = 1
        default: int = 1
        ref: bool = False

    for key in ("type", "default", "ref"):
        with pytest.raises(InputError, match=f"{key}: wrong type"):
            validate(Odd, parse_yaml(f"{key}: 'true'", Path("odd.yaml")))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: [" + "1," * 300_000, id="a list"),
        pytest.param("".join(f"k{i}: {{a: 1}}\n" for i in range(150_000)) + "a: [", id="mappings"),
        pytest.param('{"a": [' + ", ".join('{"rows": 1000, "name": "x"}' for _ in range(100_000)) + "}", id="JSON"),
    ],
)
def test_too_many_values_are_refused_before_all_are_read(text):
    """The mistake at the end of each is not reached."""
    with pytest.raises(InputError, match="more than 250,000 values"):
        parse_yaml(text, Path("large.yaml"))


def test_a_file_full_of_mistakes_is_refused_soon():
    """In a time that grows with the mistakes, not with their square."""

    class Empty(Strict):
        a: int = 1

    def spent_s(mistakes: int) -> float:
        document = parse_yaml("".join(f"key_{i}: {i}\n" for i in range(mistakes)), Path("large.yaml"))
        began_s = time.process_time()
        with pytest.raises(InputError, match="unknown key"):
            validate(Empty, document)
        return time.process_time() - began_s

    few, many = (min(spent_s(mistakes) for _ in range(3)) for mistakes in (20_000, 80_000))
    assert many < 10 * few, "four times as much for four times as many"
