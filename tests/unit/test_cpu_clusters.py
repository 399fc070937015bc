"""DLRMs on CPU sockets: what fits, what is refused, where collectives run, which calls an exchange makes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from inputs.errors import InfeasibleError, InputError
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulation_of
from simulator.collective_calls import CollectiveCall
from simulator.operators import EmbeddingUpdate, Gemm

FITTING = [
    ("cpu_dlrm_small", 1, True),
    ("cpu_dlrm_mlperf", 1, True),
    ("cpu_dlrm_large", 4, True),
    ("cpu_dlrm_large", 3, False),
]
REFUSED = [
    ("cpu_dlrm_small", "network.communication_cores=28", "network.communication_cores", 28, "1 to 27"),
    ("cpu_dlrm_small", "network.backend=nccl", "network.backend", "nccl", "one of ccl, mpi"),
    ("zionex_a_128", "workload.embedding_update=race_free", "workload.embedding_update", "race_free", "CPU sockets"),
    ("criteo_small", "workload.embedding_update=atomic", "workload.embedding_update", "atomic", "CPU sockets"),
    ("zionex_a_128", "network.backend=ccl", "network.backend", "ccl", "one of nccl, mpi"),
    ("zionex_a_128", "network.communication_cores=2", "network.communication_cores", 2, "no cores"),
    ("criteo_small", "network.backend=ccl", "network.backend", "ccl", "measured with gloo"),
    ("cpu_dlrm_small", "precision.dense=bf16", "precision.dense", "bf16", "one of fp32"),
]


def prepared(scenario: str, *settings: str) -> Prepared:
    return prepare(load_scenario(scenario, settings), Silent())


def calls_of(found: Prepared) -> dict[str, str]:
    """Stream of every collective, by name, in the order of the program."""
    program = found.graph.programs[0]
    tasks = zip(program.names, program.work, program.stream_of.tolist(), strict=True)
    return {name: program.streams[on].name for name, work, on in tasks if isinstance(work, CollectiveCall)}


@pytest.mark.parametrize(("scenario", "sockets", "fits"), FITTING)
def test_the_sockets_that_a_configuration_needs(scenario: str, sockets: int, fits: bool) -> None:
    """The fewest sockets of 96 GiB that the paper runs each configuration on: 1, 1 and 4."""
    settings = (f"world_size={sockets}", f"workload.global_batch_size={sockets * 512}")
    if fits:
        assert prepared(scenario, *settings).memory.fits
    else:
        with pytest.raises(InfeasibleError, match="does not fit"):
            prepared(scenario, *settings)


@pytest.mark.parametrize(("scenario", "setting", "key", "given", "expected"), REFUSED)
def test_what_sockets_and_gpus_lack_is_refused(
    scenario: str, setting: str, key: str, given: object, expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(scenario, [setting])
    assert (caught.value.key, caught.value.given) == (key, given)
    assert expected in str(caught.value.expected)


def test_mpi_has_no_workers_to_give_cores_to() -> None:
    with pytest.raises(InputError, match="intel_mpi has no workers"):
        load_scenario("cpu_dlrm_small", ["network.backend=mpi", "network.communication_cores=4"])


def test_a_resolved_scenario_keeps_its_backend_and_cores() -> None:
    first = load_scenario("cpu_dlrm_small", ["network.communication_cores=2"])
    again = load_scenario("cpu_dlrm_small", ["network.communication_cores=2", "network.backend=ccl"])
    assert first.cluster.collectives.workers == again.cluster.collectives.workers == 2
    assert load_scenario("cpu_dlrm_small", ["network.backend=mpi"]).cluster.collectives.progress == "in_calls"


def test_collectives_of_ccl_are_beside_the_host_and_those_of_mpi_on_it() -> None:
    assert set(calls_of(prepared("cpu_dlrm_small")).values()) == {"comm"}
    assert set(calls_of(prepared("cpu_dlrm_small", "network.backend=mpi")).values()) == {"host"}


def test_mpi_completes_collectives_in_the_order_of_their_issue() -> None:
    """All_reduces of the top MLP were issued before the exchange of gradients, which the update waits for."""
    beside, inside = calls_of(prepared("cpu_dlrm_small")), calls_of(prepared("cpu_dlrm_small", "network.backend=mpi"))
    assert list(inside) == list(beside)
    program = prepared("cpu_dlrm_small", "network.backend=mpi").graph.programs[0]
    place = {name: number for number, name in enumerate(program.names)}
    order = ["top_0_weight_gradient", "gradient_all_reduce_0", "column_output_dist_backward", "column_update"]
    assert all(place[one] < place[other] for one, other in pairwise(order))
    assert place["column_output_dist_backward"] > place["bottom_0_weight_gradient"]  # nothing advances before the wait
    assert place["column_output_dist_forward"] > place["bottom_1_forward"]


def test_communication_is_exposed_with_mpi_and_hidden_with_ccl() -> None:
    scenarios = (load_scenario("cpu_dlrm_small", [f"network.backend={name}"]) for name in ("ccl", "mpi"))
    of_ccl, of_mpi = (simulation_of(scenario, Silent()).analysis.breakdown for scenario in scenarios)
    assert of_mpi.exposed_comm_ps.min() > of_ccl.exposed_comm_ps.max()
    assert np.all(of_mpi.exposed_comm_ps == of_mpi.comm_ps)  # the host does nothing else meanwhile


@pytest.mark.parametrize(("exchange", "calls"), [("all_to_all", 1), ("scatter", 4), ("scatter_list", 8)])
def test_calls_of_an_exchange(exchange: str, calls: int) -> None:
    """4 ranks with 2 of the 8 tables each: one call, one for each rank, or one for each table, both ways."""
    found = prepared("cpu_dlrm_small", "world_size=4", f"workload.exchange={exchange}")
    for direction in ("forward", "backward"):
        assert len([name for name in calls_of(found) if f"output_dist_{direction}" in name]) == calls


def test_updates_by_variant() -> None:
    """Uniform indices of 1,000,000 rows hardly meet; the ways differ in time as published."""
    seconds = {}
    for variant in ("race_free", "atomic", "reference"):
        found = prepared("cpu_dlrm_small", "world_size=1", f"workload.embedding_update={variant}")
        [work] = [w for w in found.graph.programs[0].work if isinstance(w, EmbeddingUpdate)]
        assert work.variant == variant
        assert work.collisions == pytest.approx(1e-6 if variant == "atomic" else 0.0)
        seconds[variant] = float(np.max(found.machine.compute.duration_s(work)))
    assert seconds["race_free"] < seconds["atomic"] < 1.001 * seconds["race_free"]
    assert seconds["reference"] > 100 * seconds["race_free"]


def test_split_sgd_stores_the_lower_halves_of_bf16_weights() -> None:
    """2 + 2 bytes per weight of a table, which an update reads and writes; a bf16 table with plain SGD has 2."""
    bf16 = [f"precision.{key}=bf16" for key in ("dense", "tables", "forward_all_to_all", "backward_all_to_all")]
    asked = ("cluster=xeon_8380h_upi4", "world_size=4", "precision.all_reduce=bf16", *bf16)
    split = prepared("cpu_dlrm_small", *asked, "workload.optimizer={dense: split_sgd, tables: split_sgd}")
    plain = prepared("cpu_dlrm_small", *asked)
    weights = 8 * 1_000_000 * 64 / 4
    assert split.memory.items("hbm")["optimizer state"].max() == 2 * weights
    assert plain.memory.items("hbm")["optimizer state"].max() == 0
    [one], [other] = (
        [w for w in found.graph.programs[0].work if isinstance(w, EmbeddingUpdate)] for found in (split, plain)
    )
    assert np.allclose(one.state_bytes, one.weight_bytes)
    assert np.allclose(one.weight_bytes, other.weight_bytes)
    assert not np.any(other.state_bytes)


def test_cores_for_communication_are_taken_from_gemms() -> None:
    """20 of 28 cores compute instead of 24: a GEMM takes 24 / 20 of its time beyond its start."""
    gemm = Gemm(m=4096, n=4096, k=4096, precision="fp32")
    found = [prepared("cpu_dlrm_small", f"network.communication_cores={cores}") for cores in (8, 4)]
    few, many = (one.machine.compute.without_starts().duration_s(gemm) for one in found)
    assert few / many == pytest.approx(24 / 20)
