"""Which iterations the profiler records, in real sessions of it."""

import json

import pytest

torch = pytest.importorskip("torch")

from trainer.batches import PREPARED_LOOKUPS, prepared_count  # noqa: E402
from trainer.process.record import Sessions  # noqa: E402
from trainer.process.runs import SESSION, SESSION_STARTS, Run  # noqa: E402


def test_sessions_record_two_iterations_behind_one_that_they_do_not(tmp_path):
    """The first session, in which the profiler starts, is not written."""
    run = Run(tmp_path, iterations=0, timed=5)
    sessions = Sessions(lambda number: tmp_path / f"{number}.json", cuda=False)
    with torch.no_grad():
        for iteration in range(run.total):
            torch.ones(iteration + 1).add_(1.0)
            sessions.step()
        sessions.end()
    told = [json.loads(file.read_text(encoding="utf-8"))["traceEvents"] for file in sessions.files]
    steps = [[event["name"] for event in events if event.get("name", "").startswith("ProfilerStep")] for events in told]
    assert steps == [[f"ProfilerStep#{n}" for n in (first, first + 1)] for first in (3, 6, 9)]
    assert (SESSION, SESSION_STARTS) == (2, 2)
    adds = [sum(event.get("name") == "aten::add_" for event in events) for events in told]
    assert adds == [2, 2, 2]


@pytest.mark.parametrize(
    ("least", "iterations", "lookups", "expected"),
    [
        (8, 50, 100.0, 50),  # a batch for each iteration
        (8, 50, PREPARED_LOOKUPS / 20, 20),  # as many as have enough lookups
        (8, 50, PREPARED_LOOKUPS, 8),  # at least so many
        (8, 3, 100.0, 8),
        (3, 10, 0.0, 10),  # of a model without tables
    ],
)
def test_small_batches_do_not_come_again(least, iterations, lookups, expected):
    assert prepared_count(least, iterations, lookups) == expected
