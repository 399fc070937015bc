"""Intervals on GPUs on which nobody measured: wider, with the cause in words."""

from __future__ import annotations

import math
from functools import cache

import pytest

from hardware_specs import load_cluster, load_gpu
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from scenarios.uncertainty.constant import SIGMA, Constant
from scenarios.uncertainty.machine import machine_constants
from scenarios.uncertainty.usage import Usage
from scenarios.uncertainty.vendors import OTHER_VENDOR, carried_over
from simulator.compute.attention import GEMMS_OF_AMPERE
from simulator.compute.gpu import GpuModel
from simulator.network.calibration import calibrate
from simulator.operators import Attention, Gemm

NEW = ("mi300x", "mi325x", "mi350x", "dgx_b300", "gb300_nvl72")


@cache
def outcome(cluster, nodes=1):
    """The shipped scenario `criteo_small` on another machine."""
    return simulate(load_scenario("criteo_small", (f"cluster={cluster}", f"nodes={nodes}")), Silent())


def width(cluster):
    """Width of the interval: p90 over p10."""
    interval = outcome(cluster).interval
    return interval.p90_s / interval.p10_s


@pytest.mark.parametrize("cluster", NEW)
def test_an_interval_is_wider_where_nobody_measured_and_says_so(cluster):
    gpu = load_cluster(cluster).node.gpu.name
    assert width(cluster) > 1.2 * width("dgx_h100")
    assert any("nobody measured" in warning and gpu in warning for warning in outcome(cluster).warnings)
    assert not any("nobody measured" in warning for warning in outcome("dgx_h100").warnings)


def test_the_constants_of_amd_name_the_cause():
    """The residual of the framework and each assumed rate of a kernel; a rate of a data sheet has no part in it."""
    sources = {source.constant.key: source.constant for source in outcome("mi350x").interval.sources}
    assert "nobody measured an iteration on mi350x_288" in sources["workload.framework.fit"].reason

    cluster = load_cluster("mi350x")
    usage = Usage([], {"Gemm": 1.0, "EmbeddingLookup": 1.0, "Elementwise": 1.0}, precision="bf16")
    found = machine_constants(cluster, calibrate(cluster), usage)
    behind = [constant for name in ("GEMM", "HBM") for _, constant in found[name]]
    assert {c.grade for c in behind if ".achieved." not in c.key} == {"read", "derived", "assumed"}  # assumed: the L2
    kernels = [c for c in behind if ".achieved." in c.key]
    assert len(kernels) == 4
    assert all("nobody measured kernels of mi350x_288" in c.reason and c.sigma > SIGMA["assumed"] for c in kernels)


def test_a_carried_over_constant_has_both_uncertainties():
    assumed, read = (Constant("x", grade, SIGMA[grade], "made up") for grade in ("assumed", "read"))
    amd, nvidia = load_gpu("mi300x_192"), load_gpu("b200_sxm_180")
    assert carried_over(amd, assumed).sigma == pytest.approx(math.hypot(SIGMA["assumed"], OTHER_VENDOR))
    assert carried_over(amd, read) == read
    assert carried_over(nvidia, assumed) == assumed


def test_four_nodes_of_mi350x_run():
    """The largest machine of the benchmark: 32 GPUs."""
    assert outcome("mi350x", 4).analysis.iteration.seconds > 0.0


def test_tf32_is_there_on_cdna3_only():
    """CDNA 4 dropped it: such GEMMs compute in fp32, with a warning."""
    old, new = load_gpu("mi300x_192"), load_gpu("mi350x_288")
    assert old.computes_in("tf32") == "tf32"
    assert new.computes_in("tf32") == "fp32"
    model = GpuModel(new, load_cluster("mi350x").node, launch_s=0.0)
    assert "has no tf32" in model.outside_range(Gemm(8, 8, 8, precision="tf32"))


def test_the_gemms_of_a100_are_those_of_its_specification():
    """The constant that rates of attention on AMD are scaled by follows a new fit of the A100."""
    assert load_gpu("a100_sxm4_40").achieved.gemm_fraction.value == GEMMS_OF_AMPERE


def test_attention_on_amd_is_as_far_below_its_gemms_as_on_a100():
    """And never above them: 0.73 / 0.852 of the rate of GEMMs at most."""
    for name in ("mi300x_192", "mi350x_288"):
        gpu = load_gpu(name)
        model = GpuModel(gpu, load_cluster("mi350x").node, launch_s=0.0)
        operator = Attention(flops=1e15, bytes=1.0, precision="bf16", kernel="flash2", head_dim=128, sequence=1e6)
        rate = 1e15 / model.duration_s(operator)
        assert rate / model.flops_per_s("bf16") == pytest.approx(0.73 / 0.852, rel=0.06)
