"""How much cores differ, window by window."""

import numpy as np
import pytest

from benchmarks.paces import WINDOW_S, _between, _law, _windows, rows
from hardware_specs.cpu_kernels import SPREAD_WORK_S, CpuKernels
from tests.host_machines import kernels
from trainer.pin import usable_cores


def test_windows_have_the_mean_of_what_ended_in_them_and_gaps_lie_on_a_line():
    ended_s = WINDOW_S * np.array([0.1, 0.5, 1.2, 4.5])
    taken_s = 1e-3 * np.exp([0.1, -0.1, 0.0, 0.6])
    assert _windows(np.stack([ended_s, taken_s], axis=1)) == pytest.approx(
        np.array([0.0, 0.0, 0.2, 0.4, 0.6]) - np.log(np.median(np.exp([0.1, -0.1, 0.0, 0.6])))
    )


def test_between_windows_in_a_row():
    """Of independent values the spread, of a slow drift next to nothing."""
    random = np.random.default_rng(0)
    assert _between(0.1 * random.standard_normal(20_000)) == pytest.approx(0.1, rel=0.02)
    assert _between(np.linspace(0.0, 1.0, 1001)) == pytest.approx(1e-3 / np.sqrt(2.0))


def test_the_law_is_that_of_the_model():
    known = CpuKernels.model_validate(kernels(waits=(0.0, 0.05)))
    for window_s in (0.005, 0.02, 0.5):
        told = known.spread(window_s) / known.spread(SPREAD_WORK_S)
        assert _law(window_s, 30.0) / _law(SPREAD_WORK_S, 30.0) == pytest.approx(told)


@pytest.mark.skipif(len(usable_cores()) < 2, reason="cores differ from others")
def test_real_cores_are_told_of_window_by_window():
    found = {row.name: row.value for row in rows(1.0)}
    assert {"spread_5_ms", "law_5_ms", "allan_5_ms", "spread_80_ms"} <= set(found)
    assert "spread_320_ms" not in found, "too few windows in a second"
    assert all(0.0 < value < 100.0 for value in found.values())
    assert found["law_5_ms"] == pytest.approx(found["spread_5_ms"])
