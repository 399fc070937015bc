"""Fitting a GPU's kernels: constants are found again, and the shipped ones are what the shipped rows give."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dlrmsim.cli import main
from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import load_gpu
from inputs.yaml_lines import load_yaml
from validation.fits.kernel_fit import fit_kernels, predicted_s
from validation.suites.errors import statistics
from validation.suites.kernel_rows import MeasuredKernel, kernel_rows

A100_RULE = "kind == gemm or bytes >= 4e7 or bytes <= 1e6"
FITTED = [("a100_sxm4_40", A100_RULE), ("h100_sxm5_80", None), ("v100_sxm2_16", None)]


def gemm(m, n, k, precision="bf16"):
    inputs = {"kind": "gemm", "source": "made", "precision": precision, "m": m, "n": n, "k": k, "count": 1.0}
    return {**inputs, "transposed": 0.0}


def made_on(gpu, inputs):
    """Rows whose times are the model's own."""
    rows = [MeasuredKernel(one["kind"], one, 1.0) for one in inputs]
    return [MeasuredKernel(r.kind, r.inputs, s) for r, s in zip(rows, predicted_s(gpu, rows).tolist(), strict=True)]


def test_a_fit_finds_the_constants_that_made_the_times():
    """On an A100 whose constants are far from where the search starts."""
    gpu = load_gpu("a100_sxm4_40")
    sizes = (96.0, 352.0, 1024.0, 3072.0, 8192.0)
    shapes = [gemm(m, n, k) for m in sizes for n in sizes for k in (64.0, 1024.0, 4096.0, 1001.0)]
    streams = [{"kind": "elementwise", "source": "made", "bytes": float(size)} for size in np.logspace(3, 9, 13)]
    found = fit_kernels(gpu, made_on(gpu, shapes + streams), "made up")
    assert found.fitted == (
        "stream_fraction", "kernel_floor_s", "gemm_fraction", "gemm_balanced_tile", "gemm_memory_fraction",
        "gemm_start_s", "gemm_unaligned_fraction",
    )  # fmt: skip
    for name in found.fitted:
        made, again = getattr(gpu.achieved, name), getattr(found.gpu.achieved, name)
        assert again.value == pytest.approx(made.value, rel=0.03), name
        assert again.source == "made up"
    assert found.gpu.achieved.embedding_fraction == gpu.achieved.embedding_fraction, "no row tells of it"


@pytest.mark.parametrize(("name", "rule"), FITTED)
def test_the_shipped_constants_are_what_the_command_gives(tmp_path, capsys, name, rule):
    """Printed with three digits, so to 1 %; the source of each names this command."""
    out = tmp_path / "again.yaml"
    arguments = ["calibrate", "kernels", name, "--gpu", name, *(["--rule", rule] if rule else [])]
    assert main([*arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    docs = (Path(__file__).parents[2] / "docs" / "reference" / "compute.md").read_text(encoding="utf-8")
    groups = re.findall(
        r"^(?:calibration|validation) .* (\d+\.\d %) +([+-]\d+\.\d %) +([+-]\d+\.\d %)", printed, re.MULTILINE
    )
    assert groups
    for group in groups:
        assert all(value in docs for value in group), group
    again, shipped = load_gpu(out).achieved, load_gpu(name).achieved
    fitted = load_yaml(CATALOGS["gpu"].find(name)).data["achieved"]
    told = [key for key, entry in fitted.items() if entry["source"].startswith(f"dlrmsim calibrate kernels {name}")]
    assert {"gemm_fraction", "gemm_balanced_tile", "gemm_memory_fraction", "gemm_start_s"} <= set(told)
    for key in told:
        assert key in printed
        assert getattr(again, key).value == pytest.approx(getattr(shipped, key).value, rel=0.01), key
        assert getattr(again, key).source == getattr(shipped, key).source


@pytest.mark.parametrize(("name", "kind", "median", "mean"), [
    ("a100_sxm4_40", "gemm", 10, 15), ("h100_sxm5_80", "gemm", 3, 3), ("v100_sxm2_16", "gemm", 10, 13),
    ("v100_sxm2_16", "elementwise", 6, 11),
])  # fmt: skip
def test_shipped_constants_are_near_the_shipped_rows(name, kind, median, mean):
    """Per cent; what the docs print is inside."""
    rows = [row for row in kernel_rows(name) if row.kind == kind]
    errors = 100 * (predicted_s(load_gpu(name), rows) / [row.time_s for row in rows] - 1)
    found = statistics(errors.tolist())
    assert found["median_pct"] < median
    assert found["mape_pct"] < mean
    assert abs(found["bias_pct"]) < 5


def test_times_of_kernels_not_fitted_on_are_predicted():
    """Constants fitted on half of the A100's GEMMs predict the other half nearly as well."""
    gpu, rows = load_gpu("a100_sxm4_40"), [row for row in kernel_rows("a100_sxm4_40") if row.kind == "gemm"]
    fit = fit_kernels(gpu, rows[::2], "half")
    assert statistics(fit.error_pct(rows[1::2]))["median_pct"] < 12


HEADER = "kind,precision,m,n,k,bytes,time_us\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (HEADER + "gem,bf16,1,1,1,,2\n", [], ":2: kind: unknown name; given 'gem'; expected one of gemm"),
        (HEADER + "gemm,bf61,1,1,1,,2\n", [], "did you mean 'bf16'"),
        (HEADER + "gemm,bf16,1,-1,1,,2\n", [], ":2: n: impossible value"),
        (HEADER + "elementwise,,,,,many,2\n", [], ":2: bytes: not a number"),
        (HEADER + "elementwise,,,,,8,nan\n", [], ":2: time_us: impossible value"),
        (HEADER, [], "no kernel was found"),
        (HEADER + "gemm,fp8,8,8,8,,2\n", [], "does not compute in this precision"),
        (HEADER + "gemm,bf16,8,8,8,,2\n", ["--rule", "m is 8"], "not a rule"),
        (HEADER + "gemm,bf16,8,8,8,,2\n", ["--rule", "m > 8"], "leaves no row"),
    ],
)
def test_wrong_input_gets_one_message_and_writes_nothing(tmp_path, capsys, text, arguments, message):
    rows, out = tmp_path / "rows.csv", tmp_path / "gpu.yaml"
    rows.write_text(text, encoding="utf-8")
    assert main(["calibrate", "kernels", str(rows), "--gpu", "a100_sxm4_40", "--out", str(out), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_an_unknown_table_gets_the_nearest_name(tmp_path, capsys):
    arguments = ["calibrate", "kernels", "a100_sxm4", "--gpu", "a100_sxm4_40", "--out", str(tmp_path / "gpu.yaml")]
    assert main(arguments) == 2
    assert "did you mean 'a100_sxm4_40'" in capsys.readouterr().err


def test_every_row_ships_with_its_source():
    tables = sorted(Path(__file__).parents[2].joinpath("validation", "kernels").glob("*.csv"))
    assert [table.stem for table in tables] == sorted(name for name, _ in FITTED)
    for table in tables:
        assert all(row.inputs["source"] not in ("", table.stem) for row in kernel_rows(table.stem))
