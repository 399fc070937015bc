"""Every option of every command: it counts in every mode of the command, or the mode refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from dlrmsim.cli import application, main
from tests.trace_files import two_ranks, write_ranks

REFUSED: dict[tuple[str, str], list[list[str]]] = {
    ("run", "--out"): [["zionex_a_128", "--check", "--out", "made"]],
    ("run", "--ranks"): [["zionex_a_128", "--check", "--ranks", "0"]],
    ("run", "--report"): [["zionex_a_128", "--check", "--no-report"], ["zionex_a_128", "--check", "--report"]],
    ("run", "--levers"): [["zionex_a_128", "--check", "--no-levers"]],
    ("init", "--model"): [["--model"]],
    ("import", "--op"): [["TRACES", "--op", "all_reduce"]],
    ("sweep", "--workers"): [
        ["zionex_a_128", "--over", "nodes=16", "--executor", "dask://127.0.0.1:1", "--workers", "2"]
    ],
    ("sweep", "--scaling"): [
        ["mlperf_dlrm_v1", "--over", "precision.dense=fp16,fp32", "--scaling", "weak"],
        ["tf_resnet50", "--over", "nodes=1,2", "--over", "workload.images_per_rank=32,64", "--scaling", "strong"],
    ],
    ("sweep", "--remedies"): [["zionex_a_128", "--over", "nodes=16", "--json", "--remedies"]],
    ("advise", "--over"): [["pacml_five_networks", "--arrivals", "--over", "nodes=1,2"]],
    ("advise", "--objective"): [["pacml_vgg16", "--objective", "cost"]],
    ("advise", "--target"): [
        ["pacml_vgg16", "--target", "1e6"],
        ["pacml_vgg16", "--over", "nodes=1,2", "--objective", "cost", "--target", "1e6"],
    ],
    ("advise", "--scaling"): [["pacml_five_networks", "--arrivals", "--scaling", "strong"]],
    ("advise", "--out"): [["pacml_vgg16", "--out", "made"]],
    ("advise", "--workers"): [["pacml_vgg16", "--workers", "2"]],
    ("advise", "--fresh"): [["pacml_vgg16", "--fresh"]],
    ("plan", "--fresh"): [["zionex_a_128", "--fresh"]],
    ("collective", "--seed"): [
        ["dgx_h100", "--op", "all_reduce", "--ranks", "8", "--seed", "3"],
        ["dgx_h100", "--op", "all_reduce", "--ranks", "8", "--seed", "0", "--placement", "round_robin"],
    ],
    ("validate", "SUITES"): [["zionex", "--measured", "runs/x"]],
    ("validate", "--workers"): [["--measured", "runs/x", "--workers", "2"]],
    ("validate", "--fresh"): [["--measured", "runs/x", "--fresh"]],
    ("validate", "--cluster"): [["v100_nccl", "--cluster", "dgx_h100"]],
    ("validate", "--framework"): [["v100_nccl", "--framework", "pytorch"]],
    ("import", "--report"): [["TRACES", "--no-report"], ["TRACES", "--report"]],
    ("replay", "--from-gpu"): [["TRACES", "--from-gpu", "a100_sxm4_40"]],
    ("replay", "--absent"): [
        ["TRACES", "--absent", word, "--world-size", "8", "--cluster", "dgx_h100"] for word in ("none", "late")
    ],
    ("replay", "--world-size"): [["TRACES", "--world-size", "8"]],
    ("compare", "--rows"): [["TRACES", "--json", "--rows", "3"]],
    ("calibrate collectives", "--op"): [["TABLE", "--cluster", "dgx_h100", "--op", "all_reduce", "--out", "made"]],
    ("calibrate host", "--fresh"): [["--record", "zen5_2_cores", "--fresh", "--out", "made"]],
    ("calibrate host", "--minutes"): [["--record", "zen5_2_cores", "--minutes", "1", "--out", "made"]],
    ("calibrate host", "--seed"): [["--record", "zen5_2_cores", "--seed", "0", "--out", "made"]],
    ("calibrate host", "--device"): [["--record", "zen5_2_cores", "--device", "cpu", "--out", "made"]],
    ("calibrate host", "--cluster"): [["--record", "zen5_2_cores", "--cluster", "dgx_h100", "--out", "made"]],
}
"""Command and option: command lines in whose mode it would have no effect."""

ALWAYS: dict[str, set[str]] = {
    "run": {"SCENARIO", "--set", "--cluster", "--nodes", "--check", "--json"},
    "sweep": {"SCENARIO", "--over", "--set", "--out", "--json", "--executor", "--fresh"},
    "solve": {"SCENARIO", "--key", "--between", "--throughput", "--set", "--json"},
    "what-if": {"SCENARIO", "--change", "--own-plan", "--set", "--json"},
    "advise": {"WHAT", "--arrivals", "--set", "--json"},
    "plan": {"SCENARIO", "--planner", "--search", "--set", "--compare", "--out", "--json"},
    "collective": {
        "CLUSTER", "--op", "--ranks", "--bytes", "--ranks-per-node", "--placement", "--algorithm", "--json", "--plot",
    },
    "capture": {
        "STEP", "--world-size", "--ranks", "--samples", "--indices", "--fuse", "--cluster", "--out", "--json",
    },
    "measure": {"SCENARIO", "--ranks", "--iterations", "--out", "--set", "--data", "--device", "--json"},
    "validate": {"--measured", "--report", "--json", "--fail-above"},
    "import": {"TRACES", "--out", "--ranks", "--whole", "--json"},
    "replay": {
        "TRACES", "--cluster", "--gpu", "--local-batch", "--overlap", "--delay", "--collective-precision", "--ranks",
        "--whole", "--host-speed", "--launches", "--cuda-graphs", "--out", "--json",
    },
    "export": {"SOURCES", "--format", "--out", "--ranks"},
    "compare": {"FIRST", "SECOND", "--json"},
    "fetch-traces": {"--out", "--from"},
    "list": {"KIND", "--json"},
    "show": {"NAME"},
    "schema": {"KIND"},
    "init": {"FILE", "--kind"},
    "calibrate clock": {"SUITES", "--gpu", "--out", "--fresh"},
    "calibrate collectives": {"LOGS", "--cluster", "--out", "--rule"},
    "calibrate framework": {"NAME", "--out", "--suite", "--constant", "--fresh"},
    "calibrate kernels": {"ROWS", "--gpu", "--out", "--rule"},
    "calibrate overheads": {"TRACES", "--out", "--framework"},
    "calibrate host": {"--out", "--record"},
}  # fmt: skip
"""Options that count in every mode of their command."""


def options() -> Iterator[tuple[str, str]]:
    """Every command with each of its options (the first name) and arguments (in capitals)."""

    def below(path: list[str], command: object) -> Iterator[tuple[str, str]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from below([*path, name], child)
        if not hasattr(command, "commands"):
            for parameter in command.params:  # type: ignore[attr-defined]
                is_option = parameter.param_type_name == "option"
                yield " ".join(path), parameter.opts[0] if is_option else parameter.name.upper()

    return below([], typer.main.get_command(application()))


def test_every_option_is_known_to_count_in_all_modes_or_to_be_refused_in_some() -> None:
    """An option that is new stands in neither list: say in which modes it has no effect, and refuse it there."""
    there = {pair for pair in options() if pair[1] != "--help"}
    listed = set(REFUSED) | {(command, option) for command, names in ALWAYS.items() for option in names}
    assert there - listed == set()
    assert listed - there == set()


@pytest.mark.parametrize(
    ("command", "option", "line"),
    [pytest.param(*pair, line, id=" ".join([pair[0], *line])) for pair, lines in REFUSED.items() for line in lines],
)
def test_a_mode_refuses_options_that_it_would_drop(
    command: str,
    option: str,
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One message that names the option, exit code 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    traces = [str(file) for file in write_ranks(tmp_path, two_ranks())]
    (tmp_path / "table.csv").write_text("op,nodes,ranks_per_node,bytes,time_us\nall_reduce,1,8,1048576,50\n")
    known = {"TRACES": traces, "TABLE": ["table.csv"]}
    before = sorted(tmp_path.iterdir())
    assert main([*command.split(), *(word for part in line for word in known.get(part, [part]))]) == 2
    told = capsys.readouterr()
    assert f"dlrmsim: {option}" in told.err
    assert told.out == ""
    assert sorted(tmp_path.iterdir()) == before
