"""Libraries of collectives: of the cluster, of the workload, and of the scenario."""

from __future__ import annotations

import json

import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from scenarios.machine import machine_of
from scenarios.resolve import changed, load_scenario

STRATEGIES = {
    "horovod_nccl": "nccl_2_30", "horovod_mpi": "cray_mpich", "horovod_mpi_opt": "cray_mpich",
    "baidu_ring": "cray_mpich", "grpc_ps_mpi": "cray_mpich", "grpc_ps": "nccl_2_30", "grpc_ps_verbs": "nccl_2_30",
}  # fmt: skip


@pytest.mark.parametrize(("strategy", "library"), STRATEGIES.items())
def test_a_strategy_exchanges_by_the_library_it_is_named_by(strategy, library):
    resolved = load_scenario("tf_resnet50", [f"workload.strategy={strategy}", "nodes=2"])
    assert resolved.cluster.collectives.name == library
    assert resolved.notes == ()
    assert machine_of(resolved).collectives.calibration is not None


def test_a_strategy_changed_later_finds_its_library_again():
    first = load_scenario("tf_resnet50", ["nodes=2"])
    there = changed(first, ["workload.strategy=horovod_mpi"])
    assert there.cluster.collectives.name == "cray_mpich"
    assert there.cluster.fitted is not None
    back = changed(there, ["workload.strategy=horovod_nccl"])
    assert back.cluster == first.cluster
    assert back.hash == first.hash


def test_measurements_go_with_their_library():
    cluster = load_cluster("piz_daint")
    other = cluster.by_backend("mpi")
    assert other is not None
    assert (cluster.calibration != (), cluster.fitted) == (True, None)
    assert (other.calibration, other.fitted) == ((), load_cluster("piz_daint_mpi").fitted)
    assert cluster.by_backend("nccl") is cluster
    assert load_cluster("dgx1_p100").by_backend("mpi") is None


def test_a_library_that_the_cluster_does_not_name_is_said():
    resolved = load_scenario("tf_resnet50", ["cluster=dgx1_p100", "workload.strategy=horovod_mpi"])
    assert resolved.cluster.collectives.name == "open_mpi"
    assert any("names no library of backend mpi" in note for note in resolved.notes)
    dlrm = load_scenario("mlperf_dlrm_v1", ["network.backend=mpi"])
    assert dlrm.cluster.collectives.name == "open_mpi"


@pytest.mark.parametrize(
    ("scenario", "settings", "key", "expected"),
    [
        ("tf_resnet50", ["network.backend=mpi"], "network.backend", "nccl, or no such key"),
        ("tf_resnet50", ["cluster=xeon_8280_opa"], "workload.strategy", "horovod_mpi, baidu_ring, hypar_mpi"),
        ("hyparflow_resnet1001", ["network.backend=ccl"], "network.backend", "mpi, or no such key"),
        ("mlperf_dlrm_v1", ["network.backend=nccll"], "network.backend", "one of nccl, mpi"),
        ("mlperf_dlrm_v1", ["network.communication_cores=2"], "network.communication_cores", "no cores"),
    ],
)
def test_wrong_backends_are_refused(scenario, settings, key, expected):
    with pytest.raises(InputError) as caught:
        load_scenario(scenario, settings)
    assert caught.value.key == key
    assert expected in str(caught.value)


def test_two_libraries_of_one_backend_are_refused(tmp_path):
    data = load_cluster("owens").to_dict()
    data["other_libraries"] = [*data["other_libraries"], *data["other_libraries"]]
    file = tmp_path / "owens.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError, match="two libraries of one backend"):
        load_cluster(file)
