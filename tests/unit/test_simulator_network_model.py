"""Choice of algorithms, caps and usable capacity, improvement, and phases on resources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from simulator.lowered import picoseconds
from simulator.network import ALGORITHMS, CollectiveModel, Topology
from simulator.network.calibration import calibrate
from simulator.network.collectives import Call
from tests.network_machines import idle_call


@pytest.fixture(scope="module")
def zionex():
    return load_cluster("zionex")


def model(cluster, ranks, **algorithms):
    return CollectiveModel.of(cluster, Topology.build(cluster, ranks), algorithms)


def oversubscribed(cluster, factor, kind):
    spine = cluster.fabric.spine_oversubscription.model_copy(update={"value": factor})
    fabric = cluster.fabric.model_copy(update={"spine_oversubscription": spine, "kind": kind})
    return cluster.model_copy(update={"fabric": fabric})


def chosen(model, op, size):
    timed = model.time(idle_call(model, op, size))
    return timed.algorithm.name, float(timed.seconds[0, 0])


def test_small_all_reduces_on_many_nodes_take_the_tree_and_large_ones_the_ring(zionex):
    calculated = model(zionex, 4096)
    assert chosen(calculated, "all_reduce", 1024.0)[0] == "tree"
    assert chosen(calculated, "all_reduce", 64e9)[0] == "ring"


def test_pairs_of_a_mesh_take_as_long_beside_others_as_alone():
    """Two links join GPUs 0 and 4 of a DGX-1, one joins 1 and 5: the second pair takes twice as long, always."""
    calculated = model(load_cluster("dgx1_v100_32"), 8)
    pairs = [(0, 4), (1, 5), (2, 6), (3, 7)]
    seconds = {}
    for chosen_pairs in ([pair] for pair in pairs), [pairs]:
        for together in chosen_pairs:
            instance = np.full(8, -1)
            for pair in together:
                instance[list(pair)] = pair[0]
            for block in calculated.blocks(instance):
                timed = calculated.time(Call("all_to_all", block, np.full((len(block.number), 1), 2.0**26)))
                for number, time_s in zip(block.number.tolist(), timed.seconds.max(axis=1), strict=True):
                    seconds.setdefault(number, []).append(float(time_s))
    assert all(alone == beside for alone, beside in seconds.values())
    times = sorted(alone for alone, _ in seconds.values())
    assert times[-1] == pytest.approx(2 * times[0], rel=0.02)


def with_algorithms(cluster, op, names):
    data = cluster.to_dict()
    data["collectives"]["nccl"]["algorithms"][op] = names
    return type(cluster).model_validate(data | {"calibration": [], "fitted": None})


def test_a_library_that_names_an_unknown_algorithm_is_refused(zionex):
    with pytest.raises(InputError, match=r"collectives\.nccl\.algorithms\.all_reduce: .*did you mean 'ring'"):
        model(with_algorithms(zionex, "all_reduce", ["rings"]), 8)


def test_a_library_without_an_algorithm_for_a_call_is_warned_about(zionex):
    """Halving and doubling cannot run on 12 ranks: some other algorithm must."""
    for ranks, warned in ((16, False), (12, True)):
        calculated = model(with_algorithms(zionex, "all_gather", ["halving_doubling"]), ranks)
        call = idle_call(calculated, "all_gather", 1e6)
        timed = calculated.time(call)
        assert (timed.algorithm.name != "halving_doubling") == warned
        assert any("the fastest one known" in note for note in calculated.outside_range(call, timed)) == warned


def test_the_fastest_option_is_chosen(zionex):
    calculated = model(zionex, 128)
    for op in ("all_reduce", "all_gather", "all_to_all"):
        for size in (1e2, 1e5, 1e8):
            call = idle_call(calculated, op, size)
            best = min(float(option.seconds.max()) for option in calculated.options(call))
            assert float(calculated.time(call).seconds.max()) == best


def test_a_forced_algorithm_is_taken_even_when_slower(zionex):
    name, forced_s = chosen(model(zionex, 128, all_reduce="ring"), "all_reduce", 1e5)
    assert name == "ring"
    assert forced_s > chosen(model(zionex, 128), "all_reduce", 1e5)[1]


def test_hierarchical_all_to_all_runs_only_where_the_scenario_names_it(zionex):
    """Grouped sends are what the library does; with 4096 ranks and small messages the hierarchy would be faster."""
    assert chosen(model(zionex, 4096), "all_to_all", 1024.0)[0] == "grouped"
    name, seconds = chosen(model(zionex, 4096, all_to_all="hierarchical"), "all_to_all", 1024.0)
    assert name == "hierarchical"
    assert seconds < 0.2 * chosen(model(zionex, 4096), "all_to_all", 1024.0)[1]


def test_a_forced_algorithm_that_cannot_run_on_a_communicator_leaves_it_to_the_library(zionex):
    """A hierarchy needs several nodes; on one node the library chooses."""
    assert chosen(model(zionex, 8, all_reduce="hierarchical"), "all_reduce", 1e8)[0] in ("ring", "tree")


@pytest.mark.parametrize("algorithms", [{"all_reduce": "rings"}, {"allreduce": "ring"}, {"all_to_all": "ring"}])
def test_unknown_algorithms_and_operations_are_refused(zionex, algorithms):
    with pytest.raises(InputError, match=r"network\.algorithms"):
        model(zionex, 8, **algorithms)


def test_every_algorithm_is_registered_by_operation_with_a_description():
    assert {"all_reduce/ring", "all_reduce/hierarchical", "all_reduce/tree"} <= set(ALGORITHMS.names())
    assert {"all_to_all/grouped", "all_to_all/hierarchical"} <= set(ALGORITHMS.names())
    assert all(ALGORITHMS.description(name) for name in ALGORITHMS.names())


def test_what_a_cap_leaves_is_there_for_others(zionex):
    """ZionEX: all_to_all reaches 27 % of a NIC, all_reduce 73 %: alone an all_to_all uses 37 % of what exists."""
    calculated = model(zionex, 128)
    reached = {f.point.op: f.value for f in calibrate(zionex).fractions if f.link == "nic"}
    for op, expected in [("all_to_all", reached["all_to_all"] / reached["all_reduce"]), ("all_reduce", 1.0)]:
        call = idle_call(calculated, op, 64e9)
        phase = calculated.phases(call, calculated.time(call))[0][0]
        first = calculated.topology.first("nic_tx")
        on_nics = (phase.resources >= first) & (phase.resources < first + 128)
        assert phase.usage[on_nics] == pytest.approx(expected, rel=1e-9)
        assert on_nics.sum() == 128


@pytest.mark.parametrize("name", ["zionex", "dgx_a100_80", "dgx_h100", "dgx1_v100", "dgx2_v100"])
def test_usage_lies_in_0_to_1_and_resources_are_distinct(name):
    cluster = load_cluster(name)
    calculated = model(cluster, 4 * cluster.node.gpus.value)
    for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "barrier"):
        for size in (0.0, 1.0, 1e4, 1e9):
            call = idle_call(calculated, op, size)
            for option in calculated.options(call):
                for phase in calculated.phases(call, option)[0]:
                    assert np.all((phase.usage > 0) & (phase.usage <= 1))
                    assert len(np.unique(phase.resources)) == len(phase.resources) == len(phase.usage)
                    assert phase.resources.max(initial=0) < calculated.topology.resource_count


def test_uneven_members_load_their_own_ports(zionex):
    """Only rank 0 sends: its NIC is full on the way out, the receivers' are not, nobody else's way out is used."""
    calculated = model(zionex, 16)
    block = calculated.blocks(np.zeros(16, dtype=np.int64))[0]
    sent = np.zeros((1, 16))
    sent[0, 0] = 1e8
    call = Call("all_to_all", block, np.full((1, 1), 1e8 / 16), sent, np.full((1, 16), 1 / 16))
    timed = calculated.time(call)
    (phase,) = calculated.phases(call, timed)[0]
    usage = dict(zip(phase.resources.tolist(), phase.usage.tolist(), strict=True))
    out, into = calculated.topology.first("nic_tx"), calculated.topology.first("nic_rx")
    assert [r - out for r in usage if out <= r < out + 16] == [0]
    assert sorted(r - into for r in usage if into <= r < into + 16) == list(range(8, 16))
    assert usage[into + 8] == pytest.approx(usage[out] / 8)
    assert float(timed.seconds[0, 0]) > 0.5 * 1e8 / 25e9


def test_instances_share_the_numbers_of_their_block(zionex):
    """One group per node: the same times on each node's own ports."""
    calculated = model(zionex, 32)
    (block,) = calculated.blocks(np.arange(32) // 8)
    call = Call("all_gather", block, np.full((1, 1), 1e8))
    phases = [instance[0] for instance in calculated.phases(call, calculated.time(call))]
    assert len({(p.latency_ps, p.work_ps) for p in phases}) == 1
    ports = np.concatenate([p.resources for p in phases])
    assert len(np.unique(ports)) == len(ports) == 32 * 2


def test_one_member_has_nothing_to_do(zionex):
    calculated = model(zionex, 1)
    call = idle_call(calculated, "all_reduce", 1e9)
    timed = calculated.time(call)
    assert float(timed.seconds[0, 0]) == 0.0
    assert calculated.phases(call, timed) == [()]


def test_an_oversubscribed_spine_limits_a_fat_tree_and_off_rail_traffic(zionex):
    """4:1: what crosses takes four times as long. On rails a ring never crosses, all_to_all only without PXN."""
    flat = model(zionex, 128)
    tree = model(oversubscribed(zionex, 4.0, "fat_tree"), 128)
    rails = model(oversubscribed(zionex, 4.0, "rail_optimised"), 128)
    direct = replace(rails, algorithms={"all_to_all": "grouped"})
    work = {}
    for name, fabric in (("flat", flat), ("tree", tree), ("rails", rails), ("no PXN", direct)):
        # The fractions of the flat fabric: the points were measured there.
        calculated = replace(fabric, calibration=flat.calibration)
        for op in ("all_reduce", "all_to_all"):
            timed = calculated.time(idle_call(calculated, op, 1e10))
            work[name, op] = float(timed.stages[0].work.seconds[0, 0])
    assert work["tree", "all_reduce"] > 3 * work["flat", "all_reduce"]
    assert work["rails", "all_reduce"] == work["flat", "all_reduce"]
    assert work["no PXN", "all_to_all"] == pytest.approx(4 * 7 / 8 * work["flat", "all_to_all"])
    assert work["rails", "all_to_all"] == work["flat", "all_to_all"]


def test_improving_a_link_speeds_up_its_bytes_only(zionex):
    """Hops are fixed; posting a message is work of the host's CPU."""
    calculated = model(zionex, 128)

    def seconds(better, size):
        (stage,) = better.time(idle_call(better, "all_to_all", size)).stages
        return stage.latency_s, float(stage.work.seconds[0, 0])

    latency_s, work_s = seconds(calculated, 1e9)
    assert seconds(calculated.improved({"nic": 1.1}), 1e9) == (latency_s, pytest.approx(work_s / 1.1))
    assert seconds(calculated.improved({"nvlink": 1.1, "pcie": 1.1}), 1e9) == (latency_s, work_s)


def test_faster_messages_divide_all_of_a_small_collective(zionex):
    """1 kB over 128 ranks is starts, hops and posts."""
    calculated = model(zionex, 128)
    better = calculated.improved({}, message_speed=1.1)
    before, after = (float(m.time(idle_call(m, "all_to_all", 1e3)).seconds[0, 0]) for m in (calculated, better))
    assert after == pytest.approx(before / 1.1, rel=1e-3)


def test_an_impossible_calibration_point_is_refused(zionex):
    """1 KiB over 128 ranks in a nanosecond: no latency fits."""
    fast = zionex.calibration[0].model_copy(update={"bytes": 1024.0, "algbw_bytes_per_s": 1e12, "share": None})
    with pytest.raises(InputError, match="as fast as"):
        calibrate(zionex.model_copy(update={"calibration": (fast,)}))


def notes_of(calculated, op, size):
    call = idle_call(calculated, op, size)
    return " ".join(calculated.outside_range(call, calculated.time(call)))


def test_calls_outside_the_calibration_are_noted(zionex):
    inside, larger = model(zionex, 128), model(zionex, 4096)
    assert notes_of(inside, "all_reduce", 1e6) == ""
    assert "derived at 16" in notes_of(larger, "all_reduce", 1e6)
    assert "at most 16" in notes_of(larger, "all_reduce", 1e6)
    assert "all_reduce" in notes_of(inside, "all_gather", 1e6)


def test_small_messages_that_nobody_measured_are_noted(zionex):
    """An all_to_all of 1 KB over 16 nodes is nothing but NCCL's own cost of posting 120 messages."""
    assert "cost of messages" in notes_of(model(zionex, 128), "all_to_all", 1e3)
    assert "cost of messages" not in notes_of(model(zionex, 128), "all_to_all", 1e8)
    assert "cost of messages" not in notes_of(model(zionex, 8), "all_to_all", 1e3)


def test_seconds_are_rounded_half_up_to_picoseconds():
    assert [picoseconds(x * 1e-12) for x in (0.4, 0.5, 1.5, 2.4)] == [0, 1, 2, 2]
