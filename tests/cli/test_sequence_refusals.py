"""Contextual features that are no single position, sequences that nothing reads, targets and evaluations: refused."""

from __future__ import annotations

import pytest

from tests.cli.test_sequence_input import LAW, MODEL, Edit, both, check, refused, to, without
from tests.planning_jobs import made_up
from tests.sequence_jobs import graded, scenario_data

CONTEXT = f"{MODEL}.sequences.context"
ONE_POSITION = "a contextual feature has one position in every sample"
ALONE = "max_length: 1, lengths: {distribution: fixed}, and no targets"
SAMPLES = {"samples": 1000, "evaluation_samples": 100}

WRONG: dict[str, tuple[Edit, str, tuple[str, ...]]] = {
    "a context of fifty positions": (
        to(f"{CONTEXT}.max_length.value", 50),
        "context:",
        ("sequences.context", ONE_POSITION, ALONE),
    ),
    "a context of drawn lengths": (
        to(f"{CONTEXT}.lengths.value", {"distribution": "uniform", "low": 0, "high": 1}),
        "context:",
        (ONE_POSITION, ALONE),
    ),
    "an empty context": (
        to(f"{CONTEXT}.lengths.value", {"distribution": "histogram", "lengths": [0], "weights": [1]}),
        "context:",
        (ONE_POSITION, ALONE),
    ),
    "a history that is its own context": (
        to(f"{MODEL}.hstu.context", "history"),
        "history:",
        (ONE_POSITION, ALONE),
    ),
    "a context with candidates": (
        to(f"{CONTEXT}.targets", made_up(3)),
        "context:",
        ("a contextual feature has no candidates", ALONE),
    ),
    "a scenario's lengths of a context": (
        to("workload.sequence_lengths", {"context": {"distribution": "uniform", "low": 0, "high": 1}}),
        "context:",
        ("workload.sequence_lengths.context", ONE_POSITION, "given 'uniform'", "fixed, or no such key"),
    ),
    "a context that no table has": (
        to(f"{MODEL}.tables.value.2.sequence", "history"),
        "",
        ("no table looks up the positions of a sequence", "given 'context'", "sequence: context of a table"),
    ),
    "a sequence that no table has": (
        to(f"{MODEL}.sequences.extra", graded(max_length=5, lengths={"distribution": "fixed"})),
        "",
        ("no table looks up the positions of a sequence", "given 'extra'", "or no such sequence"),
    ),
    "a sequence that no layer reads": (
        both(
            to(f"{MODEL}.sequences.extra", graded(max_length=5, lengths={"distribution": "fixed"})),
            to(f"{MODEL}.tables.value.1.sequence", "extra"),
        ),
        "",
        ("workload.model.tables", "a table of neither the history nor its context", "given 'artist'"),
    ),
    "a history without tables": (
        to(f"{MODEL}.hstu.sequence", "context"),
        "",
        ("a table of neither the history nor its context",),
    ),
    "a target of an evaluation": (
        both(to("workload.mode", "eval"), to("workload.time_to_target", SAMPLES)),
        "mode: eval",
        ("workload.mode", "an evaluation has no target to train for", "expected train"),
    ),
    "evaluations without samples": (
        to("workload.time_to_target", {"samples": 1000, "evaluate_every": 10}),
        "evaluate_every: 10",
        ("workload.time_to_target.evaluate_every", "evaluations without samples", "evaluation_samples"),
    ),
    "an iteration as one graph": (
        to("workload.cuda_graph", "iteration"),
        "cuda_graph: iteration",
        ("a job with sequences has none of it", "none or network", "differ from batch to batch"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_features_and_targets_are_refused(case, tmp_path, monkeypatch, capsys):
    edit, place, words = WRONG[case]
    shown, lines = refused(scenario_data(), edit, tmp_path, monkeypatch, capsys)
    check(shown, lines, place, words)


BEYOND = {
    "fixed": {"distribution": "fixed", "mean": 65},
    "uniform": {"distribution": "uniform", "low": 1, "high": 65},
    "histogram": {"distribution": "histogram", "lengths": [3, 65], "weights": [1, 1]},
    "file": {"distribution": "file", "file": "lengths.csv"},
}


@pytest.mark.parametrize("cut", [None, False])
@pytest.mark.parametrize("law", BEYOND)
@pytest.mark.parametrize("at", ["model", "scenario"])
def test_longer_histories_are_refused_unless_they_are_cut(at, law, cut, tmp_path, monkeypatch, capsys):
    """The message says how to cut them (`tests/unit/test_sequence_lengths.py` does)."""
    (tmp_path / "lengths.csv").write_text("length,count\n3,1\n65,1\n", encoding="utf-8")
    given = BEYOND[law] if cut is None else {**BEYOND[law], "cut": cut}
    edit = to(LAW, given) if at == "model" else to("workload.sequence_lengths", {"history": given})
    shown, _ = refused(scenario_data(), edit, tmp_path, monkeypatch, capsys)
    words = ("a length beyond the maximum of the sequence", "given 65", "expected at most max_length, 64, or cut: true")
    check(shown, [], "", (*words, "lengths.csv:3") if law == "file" else words)


@pytest.mark.parametrize("at", ["model", "scenario"])
@pytest.mark.parametrize("cut", [None, True])
def test_a_length_in_part_of_a_file_is_refused_with_its_line(cut, at, tmp_path, monkeypatch, capsys):
    (tmp_path / "lengths.csv").write_text("length,count\n3,1\n4.5,2\n", encoding="utf-8")
    law = {"distribution": "file", "file": "lengths.csv", **({} if cut is None else {"cut": cut})}
    edit = to(LAW, law) if at == "model" else to("workload.sequence_lengths", {"history": law})
    shown, _ = refused(scenario_data(), edit, tmp_path, monkeypatch, capsys)
    check(shown, [], "", ("lengths.csv:3", "a length is a whole number", "given 4.5"))


def test_a_context_without_layers_that_read_it_is_refused(tmp_path, monkeypatch, capsys):
    """Contextual tables are there, the layers have no context."""
    shown, lines = refused(scenario_data(), without(f"{MODEL}.hstu.context"), tmp_path, monkeypatch, capsys)
    check(shown, lines, "", ("a table of neither the history nor its context", "given 'user'", "sequence: history"))
