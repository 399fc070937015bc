"""Host memory over PCIe: what ranks take from each other on a switch, memory channels and SSDs, in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hardware_specs import Cluster, load_cluster
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowering import build_machine, lower
from simulator.operators import CacheFill, Copy, EmbeddingLookup, FloatArray, HostTraffic
from simulator.program import ProgramBuilder, TaskGraph
from simulator.work import Operator
from tests.network_machines import changed, pcie_box, sourced

GPUS, GB = 8, 1e9


@pytest.fixture(scope="module")
def zionex() -> Cluster:
    return load_cluster("zionex")


def lookup_of(traffic: HostTraffic) -> EmbeddingLookup:
    """A lookup that does nothing in device memory."""
    return EmbeddingLookup(0.0, 0.0, 0.0, 0.0, 1.0, host=traffic)


def ends_s(cluster: Cluster, *works: Operator) -> FloatArray:
    """When each rank of a node has ended all work, one stream per task ``[P]``; engine and oracle agree."""
    builder = ProgramBuilder("all", np.arange(GPUS), [f"s{i}" for i in range(len(works))])
    for i, work in enumerate(works):
        builder.task(f"t{i}", f"s{i}", work)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(GPUS, dtype=np.int64)})
    program = lower(graph, build_machine(cluster, GPUS, launch_s=0.0)).program
    engine, oracle = (how(program, RunOptions(1, keep_last=1)) for how in (run, run_oracle))
    assert np.array_equal(engine.iteration_end_ps, oracle.iteration_end_ps)
    return np.asarray(engine.rank_end_ps[0] / 1e12)


def by_rank(values: Sequence[float]) -> FloatArray:
    return np.array([*values, *[0.0] * (GPUS - len(values))])


@pytest.mark.parametrize(
    ("read", "shares"),
    [
        ((1, 0), (1, 0)),  # a switch for itself
        ((1, 1), (2, 2)),  # half of it each
        ((1, 2), (2, 3)),  # half each until the shorter one ends, then all of it
        ((1, 0, 1), (1, 0, 1)),  # on two switches
    ],
)
def test_two_gpus_on_one_switch_share_its_uplink(
    zionex: Cluster, read: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    """The up-link has the rate of one GPU's link: r GB/s, so that 1 GB alone takes 1 / r."""
    box = pcie_box(zionex)
    rate = box.node.gpu_link_bytes_per_s
    ends = ends_s(box, lookup_of(HostTraffic(by_rank(read) * GB)))
    assert ends[: len(shares)] == pytest.approx(np.array(shares) * GB / rate, rel=1e-9)


def test_reading_and_writing_take_different_directions(zionex: Cluster) -> None:
    """GPU 0 reads and its neighbour writes: as fast as alone; a kernel that does both lasts as long as the longer."""
    box = pcie_box(zionex)
    alone_s = GB / box.node.gpu_link_bytes_per_s
    apart = ends_s(box, lookup_of(HostTraffic(by_rank([GB]), by_rank([0.0, GB]))))
    assert apart[:2] == pytest.approx([alone_s] * 2)
    both = ends_s(box, lookup_of(HostTraffic(by_rank([GB]), by_rank([GB / 2]))))
    assert both[0] == pytest.approx(alone_s)


def test_a_kernel_and_an_input_copy_share_the_link_of_their_gpu(zionex: Cluster) -> None:
    """No switch here: half the link each, so both end after 2 GB, but for the microseconds in which a copy starts."""
    rate = zionex.node.gpu_link_bytes_per_s
    meeting, passing = (ends_s(zionex, lookup_of(HostTraffic(GB)), Copy(GB, way)) for way in ("h2d", "d2h"))
    assert meeting == pytest.approx([2 * GB / rate] * GPUS, abs=1e-5)
    assert passing == pytest.approx([GB / rate] * GPUS, abs=1e-5)


def test_all_gpus_of_a_socket_share_its_memory_channels(zionex: Cluster) -> None:
    """40 GB/s on 4 sockets with 2 GPUs each: 5 GB/s a GPU where each could take 13."""
    slow = changed(zionex, {"ddr_bytes_per_s": sourced("40 GB/s")})
    assert ends_s(slow, lookup_of(HostTraffic(GB))) == pytest.approx([GB / 5e9] * GPUS)
    assert ends_s(slow, lookup_of(HostTraffic(by_rank([GB, 0, GB]))))[:3] == pytest.approx([GB / 10e9, 0, GB / 10e9])


def test_rows_of_ssds_come_from_the_node_and_then_over_pcie(zionex: Cluster) -> None:
    """8 ranks read 0.1 GB each: over their links at once, then 8 x 0.1 GB of the node's 4 GB/s; likewise writes."""
    ssd = {"bytes": sourced("1 TB"), "read_bytes_per_s": sourced("4 GB/s"), "write_bytes_per_s": sourced("2 GB/s")}
    node = changed(zionex, {"ssd": ssd})
    fill = CacheFill(0.0, 0.0, 0.0, HostTraffic(0.1 * GB, 0.1 * GB, 0.1 * GB, 0.1 * GB))
    link_s = 0.1 * GB / zionex.node.gpu_link_bytes_per_s
    assert ends_s(node, fill) == pytest.approx([link_s + 8 * (0.1 / 4 + 0.1 / 2)] * GPUS)
