"""Which launches of a configuration count, and what is told of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import accuracy, accuracy_table
from benchmarks.accuracy import Study, undisturbed_first
from hardware_specs.cpu_kernels import CpuKernels
from inputs.errors import InputError
from scenarios.resolve import load_scenario
from tests.host_machines import kernels
from validation.measured import Measured, Times
from validation.measured_prediction import as_then
from validation.together import Together


def launched(number, stolen):
    nothing = Times(1.0, {}, None, {}, [])
    return Measured(Path(str(number)), {"stolen_share": stolen}, nothing, {})


def test_parts_of_an_iteration_are_as_then_and_so_is_their_sum():
    """Lookups took 1.2 times as long, all else the root of 1.2 x 1.8."""
    classes_s = {"embedding_forward": 0.3, "gemm": 0.6, "collectives": 0.1}
    times = Times(1.0, classes_s, 0.9, {"all_reduce": 0.2}, [], {"product": 1.2, "step": 1.8})
    then = replace(times, yardstick_s={"product": 1.0, "step": 1.0})
    told, slower = as_then(times, then), (1.2 * 1.8) ** 0.5
    assert told.classes_s == pytest.approx(
        {"embedding_forward": 0.3 / 1.2, "gemm": 0.6 / slower, "collectives": 0.1 / slower}
    )
    assert told.iteration_s == pytest.approx(sum(told.classes_s.values()))
    assert told.thread_s == pytest.approx(0.6 / slower + 0.3 / 1.2), "lookups are part of it"
    assert told.collectives_s["all_reduce"] == pytest.approx(0.2 / slower)
    assert as_then(told, then) == told, "of then"
    assert as_then(Times(1.0, {}, None, {}, [], {"product": 2.0}), then).iteration_s == 0.5, "of GPUs"


def test_lookups_beside_others_go_with_how_far_cores_are():
    """Half of what they do is done beside others'; near caches make that 1.4 times as long, then half of that."""
    known = {**kernels(), "lookups_together": 1.4, "passing_s": ["400 ns", "800 ns"]}
    together = Together(0.5, CpuKernels.model_validate(known))
    predicted = Times(1.0, {}, None, {}, [], {"product": 1.0, "passing": 600e-9}, together)
    times = Times(1.0, {"embedding_forward": 0.5, "rest": 0.5}, None, {}, [], {"product": 1.1, "passing": 400e-9})
    told = as_then(times, predicted)
    assert told.classes_s == pytest.approx({"embedding_forward": 0.5 / 1.1 / 1.2 * 1.1, "rest": 0.5 / 1.1})


def test_launches_that_nothing_disturbed_count_first_in_their_order():
    stolen = [0.2, 0.01, 0.0, 0.1, 0.03, 0.05]
    found = undisturbed_first([launched(number, share) for number, share in enumerate(stolen)])
    assert [int(launch.folder.name) for launch in found] == [1, 2, 4, 5, 3, 0]


def test_of_gpus_iterations_alone_are_told(tmp_path):
    """No piece of the yardstick is known of them, and no class."""
    study = Study(1, 0, "dgx_h100", 3, tmp_path / "rows.csv", False, 1.0, "cuda")
    scenario = load_scenario("criteo_small", ["cluster=dgx_h100", "world_size=1"])
    launches = [
        Measured(Path(str(number)), {"stolen_share": 0.0, "warnings": []}, Times(seconds, {}, None, {}, []), {})
        for number, seconds in enumerate([0.9, 1.0, 1.3])
    ]
    predicted = Times(1.2, {"gemm": 0.5}, 0.4, {}, [])
    row = accuracy._row(study, 0, scenario, launches, predicted)
    assert float(row["iteration_error_pct"]) == pytest.approx(20.0)
    assert row["gemm_error_pct"] == row["own thread_error_pct"] == row["product_slower"] == ""
    told = {told.name: told.value for told in accuracy_table._statistics([row])}
    assert told["iteration_mape"] == pytest.approx(20.0)
    assert not [name for name in told if not name.startswith("iteration")]


def test_a_file_of_an_earlier_version_is_refused_before_anything_is_measured(tmp_path):
    """They lack the small step, or how far cores were; one that has all columns is gone on with."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    new.write_text("config,passing_s,step_slower,stolen_launched\n", encoding="utf-8")
    for columns in ("config,passing_s,stolen_launched", "config,step_slower,stolen_launched"):
        old.write_text(f"{columns}\n", encoding="utf-8")
        with pytest.raises(InputError, match="another version"):
            accuracy._check_columns(old)
    accuracy._check_columns(new)
    accuracy._check_columns(tmp_path / "none.csv")
