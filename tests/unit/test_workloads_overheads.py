"""Host overheads by operator: their closed form, profiles without them, bad profiles."""

from __future__ import annotations

import pytest
import yaml

from dlrmsim.cli import main
from inputs.errors import InputError
from simulator.operators import Gemm, HostWork
from workloads.catalogs import FRAMEWORKS
from workloads.graph.framework import load_framework
from workloads.graph.operator_names import operator_key, operator_of
from workloads.graph.overheads import HostCosts, Overheads

T1, T2, T3, T4, T5 = 7.0, 40.0, 9.0, 5.0, 3.0
"""Overheads of an operator, us."""


def overheads(**operators: dict[str, object]) -> Overheads:
    def us(value: float) -> dict[str, object]:
        return {"value": f"{value} us", "source": "a test", "grade": "assumed"}

    named = {name: {k: us(v) for k, v in parts.items()} for name, parts in operators.items()}
    shared = {"t1": us(T1), "t2": us(T2), "t3": us(T3), "t5": us(T5)}
    calls = {"*": us(T4), "cudaMemcpyAsync": us(2 * T4)}
    return Overheads.model_validate({"t4": calls, "operators": {"*": shared, **named}})


@pytest.mark.parametrize("launches", [1, 2, 11])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_an_operator_with_k_launches_takes_what_its_parts_add_up_to(launches, factor):
    costs = HostCosts(0.0, overheads(), factor)
    first = costs.launch(["aten::linear"], launches)
    spent = first.seconds + costs.end_s()
    assert spent == pytest.approx(factor * 1e-6 * (T1 + T2 + launches * T4 + (launches - 1) * T5 + T3))
    assert (first.launches, costs.end_s()) == (0, 0.0)


def test_further_kernels_of_an_operator_cost_launches_and_the_gaps_before_them():
    costs = HostCosts(0.0, overheads())
    seconds = [costs.launch(["*"], 1).seconds, costs.launch(["*"], 2, continues=True).seconds, costs.end_s()]
    assert sum(seconds) == pytest.approx(1e-6 * (T1 + T2 + 3 * T4 + 2 * T5 + T3))
    assert seconds[1] == pytest.approx(1e-6 * 2 * (T4 + T5))


def test_the_end_of_an_operator_delays_the_next_launch_and_not_its_own_kernels():
    costs = HostCosts(0.0, overheads())
    one, two = (costs.launch(["*"], 1).seconds for _ in range(2))
    assert two - one == pytest.approx(T3 * 1e-6)


def test_operators_have_own_parts_and_calls_own_times():
    costs = HostCosts(0.0, overheads(own={"t2": 100.0}))
    assert costs.launch(["own"], 1).seconds == pytest.approx(1e-6 * (T1 + 100.0 + T4))
    costs.end_s()
    assert costs.launch(["other"], 1, call="cudaMemcpyAsync").seconds == pytest.approx(1e-6 * (T1 + T2 + 2 * T4))


def test_several_operators_of_one_task_share_its_launches():
    costs = HostCosts(0.0, overheads())
    both = costs.launch(["a", "b"], 2).seconds + costs.end_s()
    assert both == pytest.approx(1e-6 * 2 * (T1 + T2 + T4 + T3))


def test_profiles_without_overheads_cost_launches_and_one_time_per_operator():
    costs = HostCosts(20e-6)
    assert [costs.launch(["aten::mm"], 3), costs.end_s()] == [HostWork(3, 20e-6), 0.0]
    with_them = [name for name in FRAMEWORKS.names() if load_framework(name).overheads is not None]
    assert with_them == ["pytorch_2021"]


def test_names_of_traces_of_any_release_find_the_key_that_the_generator_asks_for():
    gemm = Gemm(8, 8, 8, "fp32")
    assert operator_of(gemm, "top_mlp_backward") == operator_key("autograd::engine::evaluate_function: AddmmBackward0")
    assert operator_of(gemm, "top_mlp_forward") == operator_key("aten::linear")
    assert operator_key("torch::autograd::AccumulateGrad") == "AccumulateGrad"
    assert operator_key("Optimizer.step#SGD.step") == "Optimizer.step"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t4": {}}, "no shared time of a call"),
        ({"operators": {}}, "the shared overheads lack t1, t2, t3, t5"),
        ({"t6": {}}, "overheads.t6: unknown key"),
    ],
)
def test_a_profile_with_bad_overheads_is_refused_with_its_key(tmp_path, capsys, changes, words):
    data = yaml.safe_load(FRAMEWORKS.find("pytorch_2021").read_text(encoding="utf-8"))
    data["overheads"] |= changes
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(data | {"name": "mine"}), encoding="utf-8")
    with pytest.raises(InputError, match="overheads"):
        load_framework(file)
    out = tmp_path / "run"
    code = main(["run", "dlrm_default", "--set", f"workload.framework={file}", "--out", str(out)])
    assert (code, out.exists()) == (2, False)
    assert words in capsys.readouterr().err
