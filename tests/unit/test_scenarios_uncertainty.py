"""Intervals: closed forms of made-up bounds, laws, and the quantiles of made-up cases."""

import math
import re
from dataclasses import replace
from typing import get_args

import pytest

import dlrmsim
from hardware_specs.loader import load_cluster, load_gpu
from reports.interval_words import widest_in_words
from reports.numbers import percent
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from scenarios.uncertainty.conformal import FEWEST, Quantiles, Residual, by_group, quantiles
from scenarios.uncertainty.constant import SIGMA, Constant, graded
from scenarios.uncertainty.framework import residual_of
from scenarios.uncertainty.interval import elasticities, interval, sources_of
from scenarios.uncertainty.machine import VERSIONS_LARGE, VERSIONS_SMALL, Weighted, machine_constants
from scenarios.uncertainty.shares import NORMAL_MEDIAN, PER_DOUBLING_INSIDE, measured_by, share_of
from scenarios.uncertainty.usage import CallUse, Usage
from simulator.analysis.bound import Gain
from simulator.collective_calls import CollectiveOp
from simulator.network.calibration import calibrate
from workloads.catalogs import FRAMEWORKS
from workloads.graph.framework import load_framework

NORMAL = Quantiles(-1.28, 1.28, 100)


def constant(key: str, sigma: float, grade="derived") -> Constant:
    return Constant(key, grade, sigma, "made up", "measure it")


def made_up(*more: Weighted):
    """An iteration that is bound by NICs for 60 % and by HBM for 30 %."""
    behind = {"NIC": [Weighted(1.0, constant("nic", 0.1)), *more], "HBM": [Weighted(0.5, constant("hbm", 0.2))]}
    return sources_of({"NIC": 0.6, "HBM": 0.3}, behind, [(1.0, constant("framework", 0.15))])


def test_the_variance_is_the_sum_of_elasticity_times_sigma_squared():
    found = interval(2.0, made_up(), "one node", NORMAL)
    sigma = math.sqrt((0.6 * 0.1) ** 2 + (0.3 * 0.5 * 0.2) ** 2 + 0.15**2)
    assert found.sigma == pytest.approx(sigma, rel=1e-12)
    assert found.p10_s == pytest.approx(2.0 * math.exp(-1.28 * sigma), rel=1e-12)
    assert found.p90_s == pytest.approx(2.0 * math.exp(1.28 * sigma), rel=1e-12)


def test_sources_are_sorted_by_their_part_of_the_variance_and_add_up():
    sources = made_up()
    assert [source.constant.key for source in sources] == ["framework", "nic", "hbm"]
    assert sum(source.share for source in sources) == pytest.approx(1.0)


def test_a_constant_behind_two_classes_adds_its_elasticities():
    share = constant("share", 0.1)
    (source,) = sources_of(
        {"NIC": 0.5, "spine": 0.2}, {"NIC": [Weighted(1.0, share)], "spine": [Weighted(1.0, share)]}, []
    )
    assert source.elasticity == pytest.approx(0.7)


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.5])
def test_a_further_unknown_constant_never_narrows_the_interval(sigma):
    before = interval(2.0, made_up(), "one node", NORMAL)
    after = interval(2.0, made_up(Weighted(0.3, constant("more", sigma))), "one node", NORMAL)
    assert after.p90_s / after.p10_s >= before.p90_s / before.p10_s


def test_the_elasticity_to_the_only_class_of_an_iteration_is_one():
    assert elasticities(1.1, [Gain("NIC", 1.0, 1 - 1 / 1.1)])["NIC"] == pytest.approx(1.0)


def test_gains_within_the_noise_of_a_settled_run_count_as_none():
    assert elasticities(1.0, [Gain("NIC", 0.9995, 0.0005)])["NIC"] == 0.0


def test_quantiles_leave_a_tenth_out_on_each_side_with_the_correction_for_few_cases():
    found = quantiles([Residual(z, str(z)) for z in range(-9, 10)])  # 19 cases: the 18th, ceil(0.9 x 20)
    assert (found.low, found.high) == (-8, 8)


def test_cases_of_one_configuration_weigh_as_one():
    repeated = [Residual(5.0, "same")] * 50 + [Residual(float(z), str(z)) for z in range(-9, 10)]
    assert quantiles(repeated).high == 8.0


def test_the_prediction_is_inside_even_where_all_measurements_are_slower():
    assert quantiles([Residual(1.0 + z, str(z)) for z in range(20)]).low == 0.0


def test_a_group_of_few_cases_takes_the_quantiles_of_all():
    many = [Residual(float(z), str(z)) for z in range(-9, 10)]
    found = by_group({"many": many, "few": [Residual(0.1, "a")] * (FEWEST - 1)})
    assert (found["few"].low, found["few"].high) == (quantiles([*many, Residual(0.1, "a")]).low, 8.0)


def test_shares_are_less_sure_on_more_nodes_and_for_other_algorithms():
    cluster = load_cluster("dgx_h100")
    calibration = calibrate(cluster)

    def sigma(algorithm, nodes):
        call = CallUse("all_reduce", 8 * nodes, nodes, 1e9, 1.0, algorithm)
        return share_of(cluster, calibration, call, "nic").sigma

    fitted = cluster.fitted.network_fraction
    assert "ring" in fitted
    assert "tree" not in fitted
    assert sigma("ring", 10) == pytest.approx(cluster.fitted.rows.median_error_pct / 100.0 / NORMAL_MEDIAN)
    assert sigma("ring", 10) < sigma("ring", 20) < sigma("ring", 80)
    assert sigma("tree", 10) > sigma("ring", 10)


def test_a_fitted_share_is_less_sure_on_more_members_of_a_node_than_were_fitted():
    """B200 is fitted on 2 and 4 GPUs: eight are one doubling more."""
    cluster = load_cluster("dgx_b200")
    four, eight = (
        share_of(cluster, calibrate(cluster), CallUse("all_reduce", n, 1, 1e9, 1.0, "ring"), "near").sigma
        for n in (4, 8)
    )
    assert four == pytest.approx(cluster.fitted.rows.median_error_pct / 100.0 / NORMAL_MEDIAN)
    assert eight == pytest.approx(math.hypot(four, PER_DOUBLING_INSIDE))


def test_an_assumed_constant_is_less_sure_than_any_other_and_says_why():
    gpu = load_cluster("dgx_b200").node.gpu
    found = graded("key", gpu.achieved.gemm_fraction, "measure it")
    assert found.sigma == max(SIGMA.values())
    assert found.reason.startswith("assumed: ")


@pytest.fixture(scope="module")
def one_node():
    return simulate(load_scenario("mlperf_dlrm_v1", ["nodes=1"]), Silent())


def test_a_run_has_its_prediction_inside_its_interval(one_node):
    summary = one_node.summary
    assert summary["iteration_time_p10_s"] <= summary["iteration_time_s"] <= summary["iteration_time_p90_s"]
    rates = [summary[f"throughput_{end}samples_per_s"] for end in ("p10_", "", "p90_")]
    assert rates == sorted(rates)
    assert summary["uncertainty"]["group"] == "one node"
    assert len(summary["uncertainty"]["widest"]) == 2
    assert all(source["measure"] for source in summary["uncertainty"]["sources"][:1])


def test_values_of_the_user_are_listed_and_counted_as_exact():
    settings = ["nodes=1", "cluster.node.gpu.memory_bytes_per_s=2000 GB/s"]
    given = simulate(load_scenario("mlperf_dlrm_v1", settings), Silent())
    assert given.interval.given == ("cluster.node.gpu.memory_bytes_per_s",)
    assert "cluster.node.gpu.memory_bytes_per_s" not in [s.constant.key for s in given.interval.sources]


ASSUMED = {
    "dgx_b200": ["cluster.node.gpu.achieved.", "HBM"],
    "gb200_nvl72": ["cluster.node.gpu.achieved.", "HBM"],
    "l40s": ["cluster.node.pcie_fraction", "PCIe/DDR"],
    "a40": ["cluster.node.pcie_tree.far_peer_bytes_per_s", "PCIe/DDR"],
    "a30": ["cluster.node.pcie_tree.far_peer_bytes_per_s", "PCIe/DDR"],
    "h100_pcie": ["cluster.node.pcie_tree.far_peer_bytes_per_s", "PCIe/DDR"],
    "aws_p5": ["cluster.node.gpu.achieved.", "HBM"],
}
"""A constant and a class of the warning, by cluster."""


@pytest.mark.parametrize("cluster", ASSUMED)
def test_a_bound_that_rests_on_assumed_constants_is_a_warning_with_its_share(cluster):
    settings = [f"cluster={cluster}", "nodes=1", "workload.rows_scaling=fit"]
    found = simulate(load_scenario("mlperf_dlrm_dcnv2", settings), Silent())
    warnings = [w for w in found.warnings if "rests on assumed constants" in w]
    assert found.summary["warnings"] == list(found.warnings)
    constant, of_class = ASSUMED[cluster]
    (warning,) = [w for w in warnings if w.startswith(f"{of_class} bounds ")]
    assert constant in warning
    share = float(warning.removeprefix(f"{of_class} bounds ").split(" %")[0])
    assert 10 <= share <= 100


@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("name", ["dgx_h100", "dgx_b200", "l40s", "aws_p4d", "polaris", "v100_public", "zionex"])
def test_no_interval_of_a_collective_is_narrower_than_versions_of_nccl_differ(name, op):
    ranks = load_cluster(name).node.ranks
    found = dlrmsim.collective(name, op=op, ranks=[ranks, 2 * ranks], sizes="1KiB,64KiB,1MiB,64MiB,1GiB")
    shown = [pair for i in range(2) for pair in zip(found.tables[i].rows, found.intervals[i], strict=True)]
    for row, of in shown:
        least = math.exp(2 * (VERSIONS_LARGE if row.bytes >= 2**20 else VERSIONS_SMALL))
        assert of.p10_s <= row.time_s <= of.p90_s
        assert of.p90_s / of.p10_s >= least * (1 - 1e-12)


def test_a_source_is_plain_json(one_node):
    source = one_node.interval.sources[0]
    assert replace(source, share=0.5).to_dict()["share"] == 0.5


@pytest.mark.parametrize("name", ["dgx_b200", "l40s"])
def test_latencies_between_nodes_of_a_fit_inside_a_node_are_assumed(name):
    (interval_,) = dlrmsim.collective(name, op="all_reduce", ranks=16, sizes="1KiB").intervals[0]
    (messages,) = [s.constant for s in interval_.sources if s.constant.key.endswith("network_post")]
    assert messages.grade == "assumed"


def test_collectives_of_mpi_are_not_measured_by_nccl_tests():
    (interval_,) = dlrmsim.collective("piz_daint_mpi", op="all_to_all", ranks=64, sizes="1KiB").intervals[0]
    measures = " ".join(source.constant.measure for source in interval_.sources)
    assert "osu_alltoall" in measures
    assert "nccl" not in measures
    assert "_perf" not in measures


@pytest.mark.parametrize("op", get_args(CollectiveOp))
@pytest.mark.parametrize("cluster", ["dgx_h100", "piz_daint_mpi", "cpu_servers_25gbe", "xeon_8280_opa"])
@pytest.mark.parametrize("straight", [False, True])
def test_a_benchmark_of_a_call_exists_and_is_one_of_the_library_that_carries_it(op, cluster, straight):
    """nccl-tests time NCCL alone and have no barrier; OSU benchmarks time MPI; messages of a server are neither's."""
    machine = load_cluster(cluster)
    words = measured_by(machine, CallUse(op, 64, 8, 1e6, 1e-3, straight=straight), 64, 8, ("8", "1M"))
    assert "barrier_perf" not in words
    assert ("_perf " in words) is (cluster == "dgx_h100" and not straight)
    assert ("osu_" in words) is (cluster == "piz_daint_mpi")
    assert f"dlrmsim calibrate collectives {'LOG' if '_perf ' in words else 'FILE.csv'} --cluster {cluster}" in words


def test_the_sentence_on_the_widest_constants_has_their_parts_and_no_more():
    """A part of the model that nobody can measure may be most of it."""
    (interval_,) = dlrmsim.collective("dgx_h100", op="all_reduce", ranks=8, sizes="1MiB").intervals[0]
    first, second = interval_.widest
    assert first.share + second.share < 0.5
    words = widest_in_words(interval_.to_dict(), "at 1 MiB")
    assert words.startswith(f"Of the spread at 1 MiB, {percent(first.share)} comes from {first.constant.key} ")
    assert f" and {percent(second.share)} from {second.constant.key} " in words


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS.names() if load_framework(name).fit is not None])
def test_a_fit_that_meets_its_cases_exactly_claims_no_error(name):
    """As many constants as cases, or residuals of 0 %, say nothing of the error of other cases."""
    fit = load_framework(name).fit
    median, cases = re.findall(r"median error ([\d.]+) %.* of (\d+) cases", fit.residuals)[0]
    exact = float(median) == 0.0 or int(cases) <= len(fit.constants)
    reason = residual_of(load_framework(name), None, 1).reason
    assert ("no error of its own" in reason) == exact
    assert ("median error" in reason) != exact


def test_a_serial_update_of_rows_bounds_by_computation_and_widens_the_interval():
    outcome = simulate(
        load_scenario("cpu_dlrm_small", ["world_size=2", "workload.embedding_update=reference"]), Silent()
    )
    assert outcome.bound.bounding.resource_class == "compute"
    widest = outcome.interval.sources[0].constant
    assert "serial_row_s" in {source.constant.key.rpartition(".")[2] for source in outcome.interval.sources}
    assert "launch_s" not in widest.key


def behind_gemms(gpu: str, precision: str, **kernels_s: float) -> dict[str, Constant]:
    """Constants behind the time of GEMMs on a GPU, by key."""
    known = load_cluster("dgx_h100")
    cluster = known.model_copy(update={"node": known.node.model_copy(update={"gpu": load_gpu(gpu)})})
    usage = Usage((), {"Gemm": 1.0, **kernels_s}, precision)
    found = machine_constants(cluster, calibrate(cluster), usage)["GEMM"]
    return {weighted.constant.key: weighted.constant for weighted in found if weighted.part > 0.0}


def test_gemms_in_fp8_rest_on_their_own_rate_and_are_less_sure_without_one():
    rate, other = "cluster.node.gpu.achieved.gemm_fp8_fraction", "cluster.node.gpu.achieved.gemm_fraction"
    measured, unmeasured = (behind_gemms(gpu, "fp8") for gpu in ("h100_sxm5_80", "h100_pcie_80"))
    assert measured[rate].sigma < unmeasured[rate].sigma
    assert other not in measured
    assert rate not in behind_gemms("h100_sxm5_80", "bf16")


@pytest.mark.parametrize("gpu", ["h100_sxm5_80", "a100_sxm4_80", "v100_sxm2_32"])
def test_attention_and_the_clock_of_training_widen_transformers_alone(gpu):
    own = set(behind_gemms(gpu, "fp16"))
    more = set(behind_gemms(gpu, "fp16", Attention=0.5)) - own
    assert more == {"cluster.node.gpu.architecture", "cluster.node.gpu.achieved.sustained_fraction"}


def test_attention_is_surest_where_it_was_timed():
    key = "cluster.node.gpu.architecture"
    hopper, ampere = (behind_gemms(gpu, "bf16", Attention=0.5)[key] for gpu in ("h100_sxm5_80", "a100_sxm4_80"))
    assert hopper.sigma < ampere.sigma
    assert (hopper.grade, ampere.grade) == ("derived", "assumed")
