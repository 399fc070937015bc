"""Every remedy of a refusal is a plan that was made: the printed options fit, with the printed memory."""

from __future__ import annotations

import json
import re
import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlrmsim.cli import main
from scenarios.dlrm import plans
from scenarios.dlrm.remedies import FIRST_PLAN, Found
from scenarios.dlrm.typed import DlrmResolved


def model(tables: list[dict[str, Any]], local_batch: int = 256) -> dict[str, Any]:
    mlp = {"dense_features": 13, "bottom": [64, 32], "top": [64, 1]}
    return {
        "name": "mine",
        "title": "tables of a test",
        "tables": tables,
        "mlp": mlp,
        "interaction": "cat",
        "index_reuse": "uniform",
        "local_batch_size": local_batch,
    }


def written(folder: Path, tables: list[dict[str, Any]], **scenario: Any) -> str:
    workload = {"model": model(tables), "framework": "pytorch", **scenario.pop("workload", {})}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({"name": "job", **scenario, "workload": workload}))
    return str(path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, list[list[str]], list[str]]:
    """First line of a refusal, options of each remedy, and what stands in brackets."""
    assert main(["run", *arguments, "--check"]) == 3
    first, *lines = capsys.readouterr().err.splitlines()
    remedies = [line.partition("would fit: ")[2] for line in lines if "would fit: " in line]
    options = [shlex.split(remedy.partition(" (")[0]) for remedy in remedies]
    return first, options, [remedy.partition(" (")[2].rstrip(")") for remedy in remedies]


def check_all(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[list[str]], list[str]]:
    """Run every remedy; the fullest rank has the bytes that were printed."""
    _, options, notes = refused(capsys, *arguments)
    assert options
    for chosen, note in zip(options, notes, strict=True):
        assert main(["run", *arguments, "--check", "--json", *chosen]) == 0, chosen
        memory = json.loads(capsys.readouterr().out)["memory"]
        number, unit = re.search(r"hbm ([\d.]+) (\w+) of", note).groups()  # type: ignore[union-attr]
        factor = {"GB": 1e9, "MB": 1e6}[unit]
        assert memory["hbm"]["max_bytes"] <= memory["hbm"]["capacity_bytes"]
        if FIRST_PLAN not in note:
            assert memory["hbm"]["max_bytes"] == pytest.approx(float(number) * factor, rel=0.01)
    return options, notes


BIG = {"rows": 200_000_000, "dim": 64, "pooling_factor": 2}
"""51 GB in fp32."""


@pytest.mark.parametrize(
    ("planner", "nodes"),
    [("search", 1), *product(("greedy", "table_wise", "data_parallel", "zigzag"), (1, 2))],
)
def test_every_remedy_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str], planner: str, nodes: int) -> None:
    """1.2 TB on 8 or 16 GPUs of 80 GB, all planners."""
    path = written(
        tmp_path,
        [BIG | {"count": 23}, {"rows": 1_500_000_000, "dim": 16, "pooling_factor": 1}],
        cluster="dgx_a100_80",
        nodes=nodes,
        workload={"sharding": {"planner": planner}},
        precision={"tables": "fp32"},
    )
    check_all(capsys, path)


def test_gpus_of_the_same_node_come_before_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One GPU of eight, copies of all tables (a public thread on 16 GB): more GPUs, with the batch and a planner."""
    path = written(
        tmp_path,
        [{"rows": 99_884_406, "dim": 64, "pooling_factor": 1}],
        cluster="dgx1_v100",
        world_size=1,
        workload={"sharding": {"planner": "data_parallel"}},
        precision={"dense": "fp32", "tables": "fp32"},
    )
    options, _ = check_all(capsys, path)
    more = next(chosen for chosen in options if any(part.startswith("world_size=") for part in chosen))
    ranks = int(next(part for part in more if part.startswith("world_size=")).partition("=")[2])
    assert 1 < ranks <= 8
    assert f"workload.global_batch_size={256 * ranks}" in more
    assert not any(part.startswith("nodes=") for chosen in options for part in chosen)
    fewer = [part.replace(f"={ranks}", f"={ranks - 1}") for part in more if part.startswith("world_size")]
    fewer += [f"workload.global_batch_size={256 * (ranks - 1)}"]
    for planner in ("greedy", "column_wise", "row_wise"):
        sets = [part for s in (*fewer, f"workload.sharding.planner={planner}") for part in ("--set", s)]
        assert main(["run", path, "--check", *sets]) == 3
        capsys.readouterr()


def test_the_factor_on_the_rows_is_the_one_that_was_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One table of 274 M x 192 in fp32 with Adam (a public thread on 32 A100), whole on one rank: an eighth fits."""
    path = written(
        tmp_path,
        [{"rows": 274_352_000, "dim": 192, "pooling_factor": 1}],
        cluster="dgx_a100_80",
        nodes=4,
        workload={"sharding": {"planner": "table_wise"}, "optimizer": {"dense": "adam", "tables": "adam"}},
        precision={"tables": "fp32"},
    )
    options, notes = check_all(capsys, path)
    rows = notes[options.index(["--set", "workload.rows_scaling=fit"])]
    assert 11.5 < float(rows.partition(" %")[0]) < 12.8
    planners = next(
        f"{chosen[1]} {note}" for chosen, note in zip(options, notes, strict=True) if "planner" in chosen[1]
    )
    assert {"row_wise", "column_wise"} <= set(re.findall(r"\w+", planners))


def test_where_samples_fill_a_rank_fewer_of_them_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(
        tmp_path,
        [{"rows": 1000, "dim": 64, "pooling_factor": 1, "count": 200}],
        cluster="dgx_a100_80",
        nodes=1,
        workload={"global_batch_size": 8 * 4_000_000},
    )
    options, notes = check_all(capsys, path)
    assert options[0][1].startswith("workload.global_batch_size=")
    assert "samples each" in notes[0]


A, HSTU = "zionex_a_128", "mlperf_dlrm_v4_hstu"
REFUSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (A, ("nodes=4",)),
    (A, ("world_size=32", "workload.global_batch_size=65536")),
    (A, ("workload.global_batch_size=8388608",)),
    ("mlperf_dlrm_dcnv2", ("world_size=1", "workload.global_batch_size=2048")),
    ("tf_resnet50", ("workload.global_batch_size=8192",)),
    ("tf_nasnet_large", ("workload.images_per_rank=512",)),
    ("karma_resnet50", ("workload.out_of_core=null",)),
    ("llama3_8b_fsdp_128", ("workload.recompute=none",)),
    (HSTU, ("cluster=hgx_h200",)),
    (HSTU, ("cluster=dgx_h100",)),
    (HSTU, ("workload.batching=sorted",)),
    ("slapo_bert_8", ("workload.sequences=4096", "workload.micro_batch_size=512")),
)
"""Jobs of all kinds that do not fit: tables, activations, samples, weights; sizes that stand on the command line."""


@pytest.mark.parametrize(("name", "settings"), REFUSED)
def test_remedies_fit_behind_the_command_that_was_refused(
    capsys: pytest.CaptureFixture[str], name: str, settings: tuple[str, ...]
) -> None:
    """Printed options, appended to the command line as they are, make the job fit."""
    command = [name, *(part for setting in settings for part in ("--set", setting))]
    _, options, _ = refused(capsys, *command)
    assert options
    for chosen in options:
        assert main(["run", *command, "--check", *chosen]) == 0, (chosen, capsys.readouterr().err)
        capsys.readouterr()


def test_what_is_too_much_decides_on_what_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """Buffers and inputs of whole tables fill a rank: another placement or fewer samples fit, rows do not matter."""
    sets = ["--set", "nodes=512", "--set", "workload.global_batch_size=67108864"]
    first, options, _ = refused(capsys, "zionex_f_128", *sets)
    assert "a rank needs more memory than it has" in first
    keys = {part.partition("=")[0] for chosen in options for part in chosen if part != "--set"}
    assert keys
    assert keys <= {"workload.sharding.planner", "workload.global_batch_size"}


def settings_of(options: list[list[str]]) -> list[set[str]]:
    return [{part for part in chosen if part != "--set"} for chosen in options]


def test_more_passes_keep_the_batch_of_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """8 H200 with 1,024 histories each: half of the activations leaves room for the tables, even batches do not."""
    _, options, _ = refused(capsys, HSTU, "--set", "cluster=hgx_h200")
    found = settings_of(options)
    assert {"workload.gradient_accumulation=2"} in found
    assert {"workload.batching=balanced"} not in found


def test_where_activations_alone_fill_a_rank_passes_join_another_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """8 H100 of 80 GB: neither narrower tables nor eight passes are enough, fp16 with four passes is."""
    first, options, _ = refused(capsys, HSTU, "--set", "cluster=dgx_h100")
    assert "memory beside tables fills a rank" in first
    assert {"precision.tables=fp16", "workload.gradient_accumulation=4"} in settings_of(options)
    assert all(len(chosen) == 2 for chosen in settings_of(options))


def test_an_equal_share_of_work_is_a_remedy_of_sorted_batches(capsys: pytest.CaptureFixture[str]) -> None:
    _, options, _ = refused(capsys, HSTU, "--set", "workload.batching=sorted")
    assert {"workload.batching=balanced"} in settings_of(options)


def test_a_hot_rank_is_mended_by_asking_for_each_row_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The owner of the most popular track of 4,096 ranks gets 279 GB of gradients, of distinct rows a tenth."""
    sets = ["cluster=dgx_h100", "nodes=512", f"workload.global_batch_size={256 * 4096}"]
    command = [HSTU, *(part for s in sets for part in ("--set", s))]
    _, options, _ = refused(capsys, *command)
    assert options[0] == ["--set", "workload.sharding.index_dedup=true"]
    assert {"workload.gradient_accumulation=4"} in settings_of(options)
    assert main(["run", *command, "--check", *options[0]]) == 0


def test_what_cannot_help_is_not_tried(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs in flight fill ranks of 4,096: more nodes and fewer rows, which cannot help, are not tried."""
    tried: list[tuple[int, str]] = []
    real = plans._attempt

    def attempt(resolved: DlrmResolved, *, hasty: bool) -> Found | None:
        tried.append((resolved.nodes, resolved.scenario.workload.rows_scaling))
        return real(resolved, hasty=hasty)

    monkeypatch.setattr(plans, "_attempt", attempt)
    refused(capsys, A, "--set", "nodes=512", "--set", "workload.global_batch_size=33554432")
    assert 0 < len(tried) <= 12
    assert set(tried) == {(512, "none")}


@pytest.mark.slow
def test_another_planner_is_a_remedy_on_four_thousand_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """Copies of 793 billion parameters on 4,096 GPUs."""
    sets = ["nodes=512", f"workload.global_batch_size={512 * 4096}", "workload.sharding.planner=data_parallel"]
    _, options, _ = refused(capsys, "zionex_a_128", *(part for s in sets for part in ("--set", s)))
    assert any("workload.sharding.planner=" in part for chosen in options for part in chosen)
