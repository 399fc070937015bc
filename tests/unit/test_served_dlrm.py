"""Served DLRMs: rows by tier against a simulated cache, closed forms of a batch, memory, laws of latency."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from inputs.errors import InfeasibleError
from reports.comparison import differences
from scenarios.engine_run import iteration_s
from scenarios.inference.serving import LOADS, MOST_CURVE_REQUESTS, Servers
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import asked_again, changed, load_scenario
from scenarios.runner import simulation_of
from scenarios.summary import summary_of
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowering import lower
from simulator.operators import HostWork
from simulator.queueing.batching import ServiceTimes
from workloads.dlrm.laws.index_laws import Indices, make_law
from workloads.inference.settings import HOST_ROW_S, SSD_READ_S, SSD_ROW_S
from workloads.inference.tiers import BatchRows, rows_of_batch, tiers_of

NAME = "hps_mlperf_dlrm_dcnv2"
PARTS = ("compute_s", "exposed_comm_s", "exposed_copy_s", "idle_s")
ZIPF = make_law(Indices(distribution="zipf", exponent=0.9))
SMALL = (
    "world_size=1", "workload.model=cpu_dlrm_small", "workload.global_batch_size=64", "workload.requests_per_s=1000",
    "workload.simulated_time=2s",
)  # fmt: skip


def served(*settings: str):
    return load_scenario(NAME, settings)


def placed(*settings: str):
    return prepare(served(*settings), Silent())


def summary(*settings: str):
    done = simulation_of(served(*settings), Silent())
    return summary_of(done.prepared, done.analysis, None, None, None, done.warnings)


def run_s(lowering, task):
    """Duration of a task of the first server in its second batch, seconds."""
    result = run(lowering.program, RunOptions(max_iterations=2, keep_last=1))
    times = result.records[-1].groups[0]
    return float(times.end_ps[task, 0] - times.start_ps[task, 0]) / 1e12


class Lru:
    """A cache of the rows used last."""

    def __init__(self, rows: int) -> None:
        self.rows, self.held = rows, OrderedDict[int, None]()

    def lacks(self, row: int) -> bool:
        missing = row not in self.held
        self.held[row] = None
        self.held.move_to_end(row)
        if len(self.held) > self.rows:
            self.held.popitem(last=False)
        return missing


@pytest.mark.parametrize(("cached", "in_host"), [(0.05, 0.3), (0.2, 0.5), (0.2, 0.2), (0.0, 0.4)])
def test_rows_by_tier_are_those_of_two_caches_behind_each_other(cached, in_host):
    """Single lookups into a table of 2,000 rows, drawn by the law, through one LRU cache and then another."""
    rows, draws = 2_000, 60_000
    law = ZIPF.popularity(rows, 1.0, 1)
    drawn = law.ranks(np.random.default_rng(0).random(draws)).tolist()
    device, host, counted = Lru(int(cached * rows)), Lru(int(in_host * rows)), np.zeros(2)
    for number, row in enumerate(drawn):
        if not device.rows or device.lacks(row):
            counted += np.array([1.0, float(host.lacks(row))]) * (number >= draws // 3)
    misses, on_ssd = counted / (draws - draws // 3)
    _, from_host, from_ssd, *_ = tiers_of(ZIPF, rows, 1.0, 1, cached, in_host).rows(1.0)

    assert from_host + from_ssd == pytest.approx(misses, rel=0.03)
    assert from_ssd == pytest.approx(on_ssd, rel=0.03)


def test_tiers_are_all_rows_and_grow_with_their_share():
    found = {
        (cached, in_host): tiers_of(ZIPF, 10_000, 100.0, 10, cached, in_host).rows(100.0)
        for cached in (0.0, 0.1, 0.5, 1.0)
        for in_host in (0.0, 0.2, 1.0)
    }
    distinct = found[0.0, 0.0][0]
    missing = {key: rows[1] + rows[2] for key, rows in found.items()}

    assert all(rows[0] == distinct and rows.min() >= 0.0 for rows in found.values())
    assert [missing[share, 0.2] for share in (0.0, 1.0)] == pytest.approx([distinct, 0.0])
    assert missing[0.0, 0.2] > missing[0.1, 0.2] > missing[0.5, 0.2]
    assert [found[0.1, share][2] for share in (0.0, 1.0)] == pytest.approx([missing[0.1, 0.0], 0.0])
    assert [missing[0.1, share] for share in (0.0, 1.0)] == pytest.approx([missing[0.1, 0.2]] * 2)


def test_a_batch_of_uniform_rows_has_the_binomial_spread():
    """N rows of which a part c is cached: n lookups touch N (1 - (1 - 1/N)^n), and a part 1 - c of them is missing."""
    rows, lookups, cached = 1_000, 300.0, 0.25
    touched, host, ssd, variance, _, held = tiers_of(make_law("uniform"), rows, lookups, 1, cached, 1.0).rows(lookups)
    p = (1.0 - (1.0 - 1.0 / rows) ** lookups) * (1.0 - cached)

    assert touched == pytest.approx(rows * (1.0 - (1.0 - 1.0 / rows) ** lookups))
    assert (host, ssd) == (pytest.approx(rows * p, rel=1e-3), 0.0)
    assert variance == pytest.approx(rows * p * (1.0 - p), rel=1e-3)
    assert held == pytest.approx(lookups * cached, rel=1e-3)


def test_lookups_by_tier_are_those_of_batches_in_front_of_a_cache():
    """Batches of 500 lookups: found as the batch comes, the first of a missing row, or another one of it."""
    rows, size, batches = 2_000, 500, 120
    drawn = ZIPF.popularity(rows, 500.0, 1).ranks(np.random.default_rng(0).random((batches, size))).tolist()
    device, counted = Lru(rows // 5), {"held": 0, "missing": 0, "all": 0}
    for batch in drawn[:20]:
        for row in batch:
            device.lacks(row)
    for batch in drawn[20:]:
        before = set(device.held)
        found = [row in before for row in batch]
        counted["held"] += sum(found)
        counted["missing"] += len(set(batch) - before)
        counted["all"] += size
        for row in batch:
            device.lacks(row)
    table = tiers_of(ZIPF, rows, 500.0, 1, 0.2, 0.5).rows(500.0)
    shares = BatchRows(np.array([500.0]), *table[:, np.newaxis]).shares()

    assert shares["gpu_cache"] == pytest.approx(counted["held"] / counted["all"], rel=0.02)
    assert shares["host_memory"] + shares["ssd"] == pytest.approx(counted["missing"] / counted["all"], rel=0.02)
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("cached", "in_host"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
def test_without_a_cache_no_lookup_finds_its_row_there(cached, in_host):
    table = tiers_of(ZIPF, 10_000, 1_000.0, 1, cached, in_host).rows(1_000.0)
    shares = BatchRows(np.array([1_000.0]), *table[:, np.newaxis]).shares()

    assert shares["gpu_cache"] == pytest.approx(cached)
    assert shares["host_memory"] + shares["ssd"] == pytest.approx((1.0 - cached) * table[0] / 1_000.0)


def test_the_hosts_threads_take_their_time_for_each_missing_row():
    prepared = placed("workload.host_threads=4")
    workload = prepared.workload
    rows = rows_of_batch(workload.tables, workload.settings, workload.settings.batch)
    host, ssd = float(rows.host.sum()), float(rows.ssd.sum())
    (program,) = prepared.graph.programs
    found = program.work[program.names.index("find_rows")]

    assert isinstance(found, HostWork)
    assert found.seconds == pytest.approx((HOST_ROW_S * host + SSD_ROW_S * ssd) / 4 + SSD_READ_S, rel=1e-6)


def test_a_server_takes_a_batch_when_the_last_one_is_answered():
    """The engine equals the oracle, and iterations follow each other without overlap."""
    prepared = placed(*SMALL)
    lowering = lower(prepared.graph, prepared.machine)
    options = RunOptions(max_iterations=3, keep_last=3)
    ends = run(lowering.program, options).iteration_end_ps

    assert np.array_equal(ends, run_oracle(lowering.program, options).iteration_end_ps)
    assert np.all(np.diff(ends) == ends[0])


@pytest.mark.parametrize(
    ("better", "part"),
    [
        ("workload.gpu_cache=0.4", 1.0),
        ("workload.host_memory=1", 0.7),
        ("workload.host_threads=64", 1.0),
        ("workload.host_row_time=1ns", 1.0),
        ("workload.ssd_row_time=1us", 1.0),
        ("world_size=1", 0.8),
    ],
)
def test_more_of_a_tier_and_faster_threads_shorten_a_batch(better, part):
    """A server alone has the SSDs of its node for itself."""
    batch = ("workload.max_batch=1024", "workload.requests_per_s=1000")
    slow, fast = placed(*batch), placed(better, *batch)

    assert iteration_s(fast.resolved, fast.workload, fast.machine) < part * iteration_s(
        slow.resolved, slow.workload, slow.machine
    )


def test_reads_from_ssds_are_copies_and_no_computation():
    """Slower SSDs lengthen a batch by copies alone."""
    tiers = (*SMALL, "workload.gpu_cache=0.1", "workload.host_memory=0.2")
    usual, slow = summary(*tiers), summary(*tiers, "cluster.node.ssd.read_bytes_per_s=1 GB/s")
    longer_s = slow["iteration_time_s"] - usual["iteration_time_s"]
    more_s = {part: slow["breakdown"][part]["mean"] - usual["breakdown"][part]["mean"] for part in PARTS}

    assert longer_s > usual["breakdown"]["compute_s"]["mean"]
    assert more_s == pytest.approx(dict.fromkeys(PARTS, 0.0) | {"exposed_copy_s": longer_s}, abs=1e-9)


def test_faster_kernels_leave_reads_from_ssds_as_they_are():
    """Their class is that of SSDs alone."""
    prepared = placed("workload.max_batch=1024", "workload.requests_per_s=1000")
    [task] = [number for number, name in enumerate(prepared.graph.programs[0].names) if name == "read_ssd"]
    usual_s, kernels_s, ssds_s = (
        run_s(lower(prepared.graph, prepared.machine, improve=improve), task)
        for improve in ({}, {"compute": 2.0}, {"SSD": 2.0})
    )

    assert usual_s > 0.0
    assert kernels_s == usual_s
    assert ssds_s == pytest.approx(usual_s / 2.0)


def test_memory_is_each_tiers_share_of_the_tables():
    prepared = placed()
    tables, use = prepared.workload.tables, prepared.memory.use.tiers
    whole = float(tables.weight_bytes.sum())
    slots = np.floor(0.2 * tables.rows)

    assert use["ssd"]["weights"].tolist() == pytest.approx([whole / 8] * 8)
    assert use["ddr"]["weights"].tolist() == pytest.approx([0.5 * whole / 8] * 8)
    assert use["hbm"]["caches"][0] == pytest.approx(float(slots @ (tables.dim * tables.element_bytes + 24.0)))


@pytest.mark.parametrize(("servers", "last"), [(8, 8), (9, 1), (11, 3), (16, 8)])
def test_nodes_hold_their_rows_once_for_the_servers_that_they_have(servers, last):
    workload = placed("workload.requests_per_s=1000").workload
    of = replace(workload, settings=replace(workload.settings, servers=servers)).memory().tiers
    whole = float(workload.tables.weight_bytes.sum())

    for tier, share in (("ddr", 0.5), ("ssd", 1.0)):
        rows = of[tier]["weights"]
        assert rows[-1] == pytest.approx(share * whole / last)
        assert rows.sum() == pytest.approx(share * whole * -(-servers // 8)), tier


def test_a_full_batch_is_of_whole_requests(monkeypatch):
    """64 samples have room for one request of 40: the refusal and the queue agree on the capacity."""
    monkeypatch.setattr("scenarios.inference.serving.LOADS", (0.5,))
    big = (*SMALL, "workload.samples_per_request=40")
    job = placed(*big).job
    serving = job.timed_sections(1.0, 1.0, 1.0)["serving"]
    capacity = serving["capacity_requests_per_s"]

    assert serving["sizes"][-1]["samples"] == 40
    assert capacity == pytest.approx(1.0 / serving["sizes"][-1]["time_s"])
    assert placed(*big, f"workload.requests_per_s={0.999 * capacity}")
    with pytest.raises(InfeasibleError, match=r"1 request a batch"):
        placed(*big, f"workload.requests_per_s={1.001 * capacity}")


@pytest.mark.parametrize(
    "given",
    [
        ("workload.max_batch=null", "workload.global_batch_size=8192"),
        ("workload.max_batch=512",),
        ("world_size=8",),
    ],
)
def test_the_remedy_of_an_overload_keeps_to_the_given_keys(given):
    with pytest.raises(InfeasibleError) as refused:
        placed(*given, "workload.requests_per_s=9000000")
    (remedy,) = refused.value.remedies
    before = served(*given, "workload.requests_per_s=9000000", "workload.simulated_time=1s")
    for again in (changed(before, remedy), asked_again(before, remedy)):
        assert again.local_batch_size == before.local_batch_size
        assert again.world_size > before.world_size
    assert prepare(asked_again(before, remedy), Silent())
    assert " with ".join(remedy) in str(refused.value)


def servers_of(count: int, most: int) -> Servers:
    """Servers whose batches take 1 ms when full, and a fifth of it for one request."""
    times = 1e-3 * (0.2 + 0.8 * np.arange(1, most + 1) / most)
    section = served("workload.max_wait=0s").scenario.workload
    return Servers(section, count, ServiceTimes(times, np.zeros(most)), 0)


def test_the_curve_has_many_batches_at_every_load():
    servers = servers_of(4, 8192)
    rows = list(servers.curve())

    assert [row["load"] for row in rows] == list(LOADS)
    for row in rows:
        batch_s = float(servers.service.mean_s[int(row["mean_batch"]) - 1])
        assert 0.9 * row["simulated_s"] > 45 * batch_s, row["load"]


def test_points_of_the_curve_that_need_too_many_requests_are_left_out():
    servers = servers_of(64, 65_536)
    fits = [servers.curve_requests(load) <= MOST_CURVE_REQUESTS for load in LOADS]

    assert fits == sorted(fits, reverse=True)
    assert fits[0]
    assert not fits[-1]


def test_a_rate_that_servers_cannot_answer_is_refused_with_one_that_they_can():
    with pytest.raises(InfeasibleError, match=r"12\d % of what 8 servers can answer") as refused:
        placed("workload.requests_per_s=3000000")
    assert "workload.requests_per_s" in str(refused.value)
    proposed = re.search(r"e\.g\. (\S+) for 80 %", str(refused.value))
    for remedy in (*refused.value.remedies, [f"workload.requests_per_s={proposed[1].replace(',', '')}"]):
        assert prepare(changed(served(), remedy), Silent()).job.workload.headline.unit == "samples"


def test_the_section_of_requests_adds_up():
    serving = summary(*SMALL)["serving"]
    curve = serving["load"]

    assert serving["utilisation"] == pytest.approx(serving["requests_per_s"] / serving["capacity_requests_per_s"])
    assert serving["capacity_requests_per_s"] == pytest.approx(64 / serving["sizes"][-1]["time_s"])
    assert [row["samples"] for row in serving["sizes"]] == [1, 2, 4, 8, 16, 32, 64]
    for row in serving["sizes"]:
        assert sum(row["lookups_found"].values()) == pytest.approx(1.0)
    for key in ("p99_s", "busy", "mean_batch"):
        rising = [row[key] for row in curve]
        assert all(after > 0.98 * before for before, after in pairwise(rising)), key
    assert serving["work"]["answered_per_s"] == pytest.approx(1000.0, rel=0.1)
    assert serving["latency"] == serving["latency_p10"] == serving["latency_p90"], "there is no interval"


def test_two_runs_are_compared_by_latency():
    slow, fast = ({"iteration_time_s": 1.0, "serving": {"latency": {"p50_s": p50_s, "p99_s": 2 * p50_s}}}
                  for p50_s in (3e-3, 2e-3))  # fmt: skip
    changes = {row.name: row.change_s for row in differences(slow, fast)}
    trained = [row.name for row in differences({"iteration_time_s": 1.0}, {"iteration_time_s": 1.0, "serving": None})]

    assert [changes["latency, p50"], changes["latency, p99"]] == pytest.approx([-1e-3, -2e-3])
    assert not any(name.startswith("latency") for name in trained)


def test_slower_batches_answer_later_and_too_slow_ones_without_bound():
    job = placed(*SMALL).job
    found = job.timed_sections(1.0, 0.8, 1.5)["serving"]
    ends = [found[name]["p99_s"] for name in ("latency_p10", "latency", "latency_p90")]

    assert ends == sorted(ends)
    assert ends[0] < ends[2]
    assert job.timed_sections(1.0, 1.0, 1.0 / found["utilisation"])["serving"]["latency_p90"] is None


def test_a_whole_cache_needs_no_host_and_no_ssd():
    names = placed(*SMALL, "workload.gpu_cache=1").graph.programs[0].names

    assert not {"cache_query", "find_rows", "read_ssd", "rows_to_device"} & set(names)


def test_cpus_have_all_rows_in_memory():
    prepared = prepare(load_scenario("hps_cpu_dlrm_dcnv2"), Silent())
    weights = float(prepared.workload.tables.weight_bytes.sum())

    assert prepared.memory.use.tiers["hbm"]["weights"][0] == pytest.approx(weights + prepared.workload.dense.bytes)
    assert not prepared.memory.use.tiers["ddr"]
    assert prepared.job.estimate_sections() == {}


def test_rows_do_not_depend_on_how_often_a_law_is_asked():
    """The popularity of rows is that of the largest batch; small batches look up fewer of the same rows."""
    workload = placed("workload.indices=dlrm_datasets_2021", "workload.requests_per_s=100000").workload
    shares = [workload.of_batch(size).rows() for size in (1, 1024)]
    few, many = (rows.missing / float(rows.lookups.sum()) for rows in shares)

    assert many < few < 1.0
    assert replace(workload.of_batch(1).settings, batch=1024) == workload.settings
