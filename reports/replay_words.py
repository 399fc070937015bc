"""Replays in words, for pages and the terminal."""

from __future__ import annotations

from reports.numbers import seconds
from traces.replay.record import ReplayRecord


def change_in_words(change: float | None) -> str:
    """A relative change with its sign; empty if there is none."""
    return "" if change is None else f"{100 * change:+.1f} %"


def times_in_words(record: ReplayRecord) -> str:
    """Length of the mean step in the replay beside the measured one."""
    step = record.step
    now = "-" if step.replayed_s is None else f"{seconds(step.replayed_s)} per step"
    if step.measured_s is None:
        return now
    return f"{now}; measured {seconds(step.measured_s)} ({change_in_words(step.change)})"
