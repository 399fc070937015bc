"""Host overheads out of Kineto traces: what a simulated host spends comes back, and what is left out is said."""

from __future__ import annotations

import json

import pytest
import yaml

import dlrmsim
from dlrmsim.cli import main
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulation_of
from simulator.operators import HostWork
from tests.trace_files import BACKWARD, HOST, KinetoRank, public
from validation.fits.overheads_fit import without_outliers
from workloads.catalogs import FRAMEWORKS
from workloads.graph.framework import load_framework
from workloads.graph.overheads import PARTS

KNOWN = {"t1": 8.0, "t2": 31.0, "t3": 6.0, "t5": 4.0}
T4 = 5.0
"""Overheads of all operators of the simulated host, us."""


def profile(folder) -> str:
    """A profile in which all operators have the known overheads."""

    def us(value: float) -> dict[str, object]:
        return {"value": f"{value} us", "source": "a test", "grade": "assumed"}

    data = yaml.safe_load(FRAMEWORKS.find("pytorch_2021").read_text(encoding="utf-8"))
    data["overheads"] = {"t4": {"*": us(T4)}, "operators": {"*": {part: us(value) for part, value in KNOWN.items()}}}
    data |= {"name": "known", "overhead_factor": us(1.0) | {"value": 1.0}}
    file = folder / "known.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(file)


def end_and_launches(busy: float) -> tuple[float, int] | None:
    """T3 of the operator before, if it is in a host task that takes so long, and its launches; None: several operators.

    The parts are such that no time has two readings.
    """
    for ended in (0.0, KNOWN["t3"]):
        launches = (busy - ended - KNOWN["t1"] - KNOWN["t2"] + KNOWN["t5"]) / (T4 + KNOWN["t5"])
        if launches > 0.5 and round(launches) == pytest.approx(launches, abs=1e-3):
            return ended, round(launches)
    return None


def simulated_trace(folder) -> str:
    """The host of a simulated iteration as Kineto writes it: operators around the launches that the engine timed."""
    done = simulation_of(load_scenario("dlrm_default", [f"workload.framework={profile(folder)}"]), Silent())
    program, times = done.graph.programs[0], done.result.records[0].groups[0]
    trace = KinetoRank()
    for task, (name, work) in enumerate(zip(program.names, program.work, strict=True)):
        begin, end = (float(ps[task, 0]) / 1e6 for ps in (times.start_ps, times.end_ps))
        read = end_and_launches(end - begin) if isinstance(work, HostWork) else None
        if read is None:
            continue
        ended, launches = read
        start = begin + ended + KNOWN["t1"]
        trace.op(name, start, end - start + KNOWN["t3"])
        for number in range(launches):
            call = trace.call("cudaLaunchKernel", start + KNOWN["t2"] + number * (T4 + KNOWN["t5"]), T4)
            trace.x("kernel", name, end + 1.0, 1.0, tid=7, pid=0, stream=7, device=0, correlation=call)
    file = folder / "simulated.json"
    file.write_text(json.dumps(trace.head | {"traceEvents": trace.events}), encoding="utf-8")
    return str(file)


def test_the_trace_of_a_simulated_host_gives_its_overheads_back(tmp_path):
    out = tmp_path / "taken.yaml"
    found = dlrmsim.calibrate_overheads(simulated_trace(tmp_path), out=out)
    shared = {row.part: 1e6 * row.seconds for row in found.rows if row.name == "*"}
    assert shared == pytest.approx(KNOWN | {"t4": T4}, abs=0.01)
    taken = load_framework(out)
    assert taken.overheads is not None
    assert (taken.name, taken.fit, taken.factor("overhead_factor")) == ("taken", None, 1.0)
    for part in PARTS:
        assert 1e6 * taken.overheads.seconds("any", part) == pytest.approx(KNOWN[part], abs=0.01)
    assert 1e6 * taken.overheads.call_s("any") == pytest.approx(T4, abs=0.01)
    assert found.operators > 30


def test_an_operator_of_each_thread_is_taken_apart_and_waits_are_no_overhead(tmp_path):
    trace = KinetoRank()

    def launch(ts: float, name: str = "cudaLaunchKernel", *, tid: int = HOST) -> None:
        call = trace.call(name, ts, 5.0, tid=tid)
        trace.x("kernel", "k", ts + 6.0, 1.0, tid=7, pid=0, stream=7, device=0, correlation=call)

    trace.op("aten::linear", 0.0, 60.0)
    trace.op("aten::addmm", 5.0, 50.0)  # inner operators are part of the outer one
    launch(20.0)
    launch(35.0)
    trace.op("aten::to", 70.0, 40.0)
    launch(80.0)
    trace.call("cudaStreamSynchronize", 85.0, 20.0)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 200.0, 30.0, tid=BACKWARD)
    launch(210.0, tid=BACKWARD)
    trace.x("user_annotation", "Optimizer.step#SGD.step", 300.0, 50.0)
    trace.op("aten::add_", 310.0, 20.0)
    launch(320.0)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace.head | {"traceEvents": trace.events}), encoding="utf-8")
    rows = dlrmsim.calibrate_overheads(file, out=tmp_path / "p.yaml").rows
    found = {(row.name, row.part): round(1e6 * row.seconds, 3) for row in rows if row.name != "*"}
    linear = {("aten::linear", "t2"): 20.0, ("aten::linear", "t3"): 20.0, ("aten::linear", "t5"): 10.0}
    copied = {("aten::to", "t1"): 10.0, ("aten::to", "t2"): 10.0, ("aten::to", "t3"): 5.0}
    others = {
        ("AddmmBackward", "t2"): 10.0, ("AddmmBackward", "t3"): 15.0, ("cudaLaunchKernel", "t4"): 5.0,
        ("Optimizer.step", "t2"): 20.0, ("Optimizer.step", "t3"): 25.0,
    }  # fmt: skip
    assert found == linear | copied | others  # no T1 over the work of the other thread


def test_outliers_beyond_one_and_a_half_interquartile_ranges_are_left_out():
    times = [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 8.01, 100.0]
    assert without_outliers(times) == times[:-1]
    assert without_outliers([3.0]) == [3.0]


def test_overheads_of_a_trace_of_v100_are_near_those_that_others_published_of_v100(tmp_path):
    """T4 and T1 of owensgroup/ml_perf_model: 10.4 us with an older profiler, and 6.3 to 14.5 us by workload."""
    found = dlrmsim.calibrate_overheads(
        public("dlrm_8xV100_torchrec", "dlrm_kineto", "*.json.gz"), out=tmp_path / "v100.yaml"
    )
    shared = {row.part: 1e6 * row.seconds for row in found.rows if row.name == "*"}
    assert 3.0 < shared["t4"] < 11.0
    assert 6.0 < shared["t1"] < 15.0
    own = {(row.name, row.part): 1e6 * row.seconds for row in found.rows}
    published = load_framework("pytorch_2021").overheads
    for name in ("aten::linear", "AddmmBackward", "BmmBackward", "ReluBackward", "Optimizer.step"):
        assert 0.3 < own[name, "t2"] / (1e6 * published.seconds(name, "t2")) < 1.5
    assert all(row.kept > 0 and row.left_out <= row.kept for row in found.rows)


BAD = {
    "not_kineto.json": ("no trace", "is not JSON"),
    "no_gpu.json": (KinetoRank, "no work of a device"),
    "no_operators.json": (KinetoRank, "no operators"),
    "no_launches.json": (KinetoRank, "no operator launches work of the device"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_trace_without_what_is_needed_is_refused_and_nothing_written(tmp_path, capsys, name):
    text, words = BAD[name]
    if not isinstance(text, str):
        trace = KinetoRank()
        if name != "no_operators.json":
            trace.op("aten::mm", 0.0, 20.0)
        if name != "no_gpu.json":
            trace.x("kernel", "k", 30.0, 1.0, tid=7, pid=0, stream=7, device=0, correlation=99)
        text = json.dumps(trace.head | {"traceEvents": trace.events})
    file, out = tmp_path / name, tmp_path / "out.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["calibrate", "overheads", str(file), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert name in said
    assert not out.exists()


def test_an_unknown_base_profile_is_refused_with_the_nearest_name(tmp_path, capsys):
    out = tmp_path / "out.yaml"
    code = main(["calibrate", "overheads", "trace.json", "--framework", "pytorch_2022", "--out", str(out)])
    assert (code, out.exists()) == (2, False)
    assert "pytorch_2021" in capsys.readouterr().err
