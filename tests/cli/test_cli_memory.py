"""Memory tiers as a user meets them: a job that does not fit, what would fit, and a value that is solved for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlrmsim.cli import main
from inputs.errors import InfeasibleError
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.resolve import load_scenario


def test_a_job_that_does_not_fit_is_told_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the tiers with their numbers, settings that were tried; each of them does fit when given."""
    arguments = ["run", "zionex_a_128", "--check", "--set", "nodes=4", "--set", "workload.global_batch_size=16384"]
    monkeypatch.chdir(tmp_path)
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (3, "")
    lines = err.splitlines()
    assert "zionex_a_128 does not fit" in lines[0]
    assert re.search(r"hbm: .*40\.0 GB usable", lines[1])
    assert re.search(r"ddr: .*188 GB", lines[2])
    remedies = [line.partition("would fit: --set ")[2] for line in lines[3:]]
    assert [remedy.partition("=")[0] for remedy in remedies] == [
        "workload.sharding.compute_kernels",
        "nodes",
        "workload.rows_scaling",
    ]
    assert list(tmp_path.iterdir()) == []
    kernels = remedies[0].partition(" (")[0]
    assert main([*arguments, "--set", kernels]) == 0
    nodes = int(remedies[1].partition(" ")[0].partition("=")[2])
    sized = [[f"nodes={size}", f"workload.global_batch_size={size * 4096}"] for size in (nodes, nodes - 1)]
    assert main(["run", "zionex_a_128", "--check", *(part for s in sized[0] for part in ("--set", s))]) == 0
    with pytest.raises(InfeasibleError):
        plan_of(PlanningJob.of(load_scenario("zionex_a_128", sized[1])), advise=False)


def test_several_settings_are_named_where_one_is_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """fp32 copies of all tables on two GPUs: neither narrower tables nor another planner is enough."""
    sets = ["cluster=dgx_a100_40", "world_size=2", "workload.global_batch_size=4096", "precision.tables=fp32"]
    sets += ["workload.sharding.planner=data_parallel"]
    code = main(["run", "mlperf_dlrm_v1", "--check", *(part for s in sets for part in ("--set", s))])
    assert code == 3
    told = capsys.readouterr().err
    assert "would fit: --set precision.tables=fp16 --set workload.sharding.planner=greedy" in told
    assert "would fit: --set precision.tables=fp16\n" not in told


def test_the_hit_rate_behind_a_throughput_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows without repeats: 1.7 M samples/s need a hit rate; with it the run has that throughput."""
    keys = ["--key", "workload.sharding.cache_hit_rate", "--between", "0,1", "--throughput", "1.7e6"]
    assert main(["solve", "zionex_f_128", *keys, "--set", "workload.indices=uniform", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low"]["throughput_samples_per_s"] < 1.7e6 < found["high"]["throughput_samples_per_s"]
    assert found["found"]["throughput_samples_per_s"] == pytest.approx(1.7e6, rel=1e-3)
    assert 0.5 < found["found"]["value"] < 0.95


@pytest.mark.parametrize("between", ["1,0", "0", "a,b", "0,1,2", "1 GB/s,2 GB", "1 GB/s,2", "2 s,1 s"])
def test_a_range_that_is_none_is_refused(between: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--key", "workload.sharding.cache_hit_rate", "--between", between, "--throughput", "1e6"]
    assert main(["solve", "zionex_f_128", *keys]) == 2
    assert "--between" in capsys.readouterr().err


def test_a_throughput_out_of_reach_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--key", "workload.sharding.cache_hit_rate", "--between", "0,1", "--throughput", "1e9"]
    assert main(["solve", "zionex_f_128", *keys]) == 3
    shown = capsys.readouterr()
    assert "found" not in shown.out
    assert "no workload.sharding.cache_hit_rate from 0 to 1 gives 1,000,000,000 samples/s; 0 gives" in shown.err


def test_model_f_does_not_fit_into_device_memory_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """24 TB of weights, 22.8 TB of them in 24 TB of host memory; without it 16 nodes are not enough."""
    assert main(["run", "zionex_f_128", "--check", "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    weights = [128 * memory[tier]["items"]["weights"]["mean_bytes"] for tier in ("hbm", "ddr")]
    assert sum(weights) == pytest.approx(24e12, rel=1e-3)
    assert 0 < memory["ddr"]["capacity_bytes"] - memory["ddr"]["max_bytes"] < 0.1 * memory["ddr"]["capacity_bytes"]
    assert main(["run", "zionex_f_128", "--check", "--set", "workload.sharding.compute_kernels=[fused]"]) == 3
    assert "would fit: --set workload.sharding.compute_kernels=[fused,fused_uvm_caching]" in capsys.readouterr().err
