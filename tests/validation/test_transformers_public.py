"""The suite of transformers: every row of its source is there, and predictions are within the targets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from validation.suites.coverage import ends_of
from validation.suites.errors import error_pct, statistics
from validation.suites.predict import SuiteJob, inputs_of, predict
from validation.suites.suite import load_suite

SOURCE = Path(__file__).parents[3] / "shared" / "measured" / "transformers.yaml"
SUITE = load_suite("transformers_public")[1]
LARGEST_MEMORY_ERROR_PCT = 17.0


def errors_of_cases() -> dict[str, tuple[str, float]]:
    """Role and error of each case; bounds are not looked for, which takes longer than all else."""
    jobs = {case.id: SuiteJob.of(case.scenario, case.set) for case in SUITE.cases}
    found = predict(list(jobs.values()), lambda work, items: enumerate(map(work, items)))
    result = {}
    for case in SUITE.cases:
        prediction = found[jobs[case.id]]
        value = error_pct(prediction.value(case.metric), case.measured)
        assert value is not None, (case.id, prediction.problem)
        result[case.id] = (SUITE.role(prediction.inputs | case.inputs), value)
    return result


@pytest.mark.skipif(not SOURCE.exists(), reason="the collection of measurements is not beside the project")
def test_every_row_is_a_case_or_excluded():
    cases = {case.id: case for case in SUITE.cases}
    for row in yaml.safe_load(SOURCE.read_text(encoding="utf-8")):
        case = cases[row["id"]]
        assert case.measured == pytest.approx(row["tokens_per_s_per_gpu"] * row["gpus"])
        job = SuiteJob.of(case.scenario, case.set)
        assert inputs_of(job.resolved(), job)["world_size"] == row["gpus"]
        if "memory_gib" in row:
            assert cases[f"{row['id']}_memory"].measured == pytest.approx(row["memory_gib"] * 2**30)


@pytest.mark.slow
def test_predictions_are_within_the_targets():
    """Rows of more than eight GPUs: MAPE at most 10 %, bias within 5 %; peaks of memory; what helps does help."""
    errors = errors_of_cases()
    check_rates(errors)
    check_peaks(errors)


def check_rates(errors: dict[str, tuple[str, float]]) -> None:
    rows = {name: found for name, found in errors.items() if not name.endswith("_memory")}
    predicted = statistics([error for role, error in rows.values() if role == "validation"])
    assert sum(role == "validation" for role, _ in rows.values()) == 9
    assert predicted["mape_pct"] <= 10
    assert abs(predicted["bias_pct"]) <= 5
    measured = {case.id: case.measured for case in SUITE.cases}
    value = {name: measured[name] * (1 + error / 100) for name, (_, error) in rows.items()}
    assert value["tt_405b_512_interleaved"] > value["tt_405b_512_1f1b"]
    assert value["tt_8b_8_fsdp_compile_fp8"] > value["tt_8b_8_fsdp_compile"] > value["tt_8b_8_fsdp"]
    assert value["tt_a100_8b_64_op"] > value["tt_a100_8b_64_layer"]


def check_peaks(errors: dict[str, tuple[str, float]]) -> None:
    peaks = {name: error for name, (_, error) in errors.items() if name.endswith("_memory")}
    assert len(peaks) == 6
    assert max(map(abs, peaks.values())) < LARGEST_MEMORY_ERROR_PCT
    assert sum(abs(error) < 15 for error in peaks.values()) >= 4


def test_throughputs_of_every_unit_have_an_interval():
    assert ends_of("iteration_time_s") == ("iteration_time_p10_s", "iteration_time_p90_s")
    for unit in ("samples", "images", "tokens"):
        assert ends_of(f"throughput_{unit}_per_s") == (f"throughput_p10_{unit}_per_s", f"throughput_p90_{unit}_per_s")
    assert ends_of("memory.hbm.max_bytes") is None
