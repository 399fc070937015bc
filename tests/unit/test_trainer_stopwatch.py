"""The clock of collectives: time on the wall, and what the thread had of a core in it."""

import time

import pytest

from trainer.stopwatch import Stopwatch

SLEPT_S = WORKED_S = 0.02


def work():
    """Use a core for `WORKED_S`."""
    begin = time.thread_time()
    while time.thread_time() - begin < WORKED_S:
        pass


def test_a_thread_that_sleeps_has_no_core():
    clock = Stopwatch()
    work()
    for _ in range(2):
        with clock:
            time.sleep(SLEPT_S)
            work()
        work()
    assert clock.total_s >= 2 * (SLEPT_S + WORKED_S)
    assert clock.cpu_s == pytest.approx(2 * WORKED_S, rel=0.25)
    assert clock.cpu_s <= clock.total_s - 2 * SLEPT_S


def test_a_block_that_fails_counts():
    clock = Stopwatch()

    def fail():
        with clock:
            work()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert clock.cpu_s >= WORKED_S
