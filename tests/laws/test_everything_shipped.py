"""Every shipped part runs: clusters, hosts, nodes, GPUs, NICs, libraries, models, frameworks and scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import read_cluster
from inputs.errors import InputError
from inputs.yaml_lines import Document
from scenarios.library import CATALOG as SCENARIOS
from scenarios.resolve import changed, load_scenario
from simulator.network import CollectiveModel, Topology
from tests.law_runs import iteration_s
from tests.network_machines import idle_call
from workloads.catalogs import FRAMEWORKS, MODELS

PARTS = {"gpu": "cluster.node.gpu", "nic": "cluster.node.nics.nic", "cluster": "cluster"}
"""Key of the scenario at which a part of each kind stands."""
SMALL = ("world_size=2", "workload.rows_scaling=fit", "precision.dense=fp32")
NODES = {name: load_cluster(name).node for name in CATALOGS["cluster"].names()}
UNTIMED = [name for name, node in NODES.items() if node.gpu is None and not node.cpu.computes]
CASES = [
    *((f"{key}={name}",) for kind, key in PARTS.items() for name in CATALOGS[kind].names() if name not in UNTIMED),
    *((f"workload.model={name}", "workload.global_batch_size=256") for name in MODELS.names()),
    *((f"workload.framework={name}",) for name in FRAMEWORKS.names()),
]


@pytest.mark.parametrize("settings", CASES, ids=lambda settings: settings[0].removeprefix("cluster.").replace("=", "-"))
def test_a_job_on_two_ranks_runs_with_each_shipped_part(settings):
    assert iteration_s(load_scenario("synthetic_tiny", [*settings, *SMALL])) > 0.0


@pytest.mark.parametrize("name", UNTIMED)
def test_machines_without_timed_kernels_say_why_no_job_runs(name):
    with pytest.raises(InputError, match="nobody measured kernels on the CPUs"):
        load_scenario("synthetic_tiny", [f"cluster={name}", *SMALL])


@pytest.mark.parametrize("name", SCENARIOS.names())
def test_each_shipped_scenario_resolves_as_it_is(name):
    resolved = load_scenario(name)

    assert changed(resolved, []).hash == resolved.hash


@pytest.mark.parametrize("kind", ["cluster", "host"])
def test_collectives_run_on_each_machine_with_its_library(kind):
    used = set()
    for name in CATALOGS[kind].names():
        cluster = load_cluster(name)
        model = CollectiveModel.of(cluster, Topology.build(cluster, 2 * cluster.node.ranks))
        used.add(cluster.collectives.name)
        for op in ("all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "barrier"):
            assert float(model.time(idle_call(model, op, 2.0**20)).seconds.max()) > 0.0, (name, op)


@pytest.mark.parametrize("name", CATALOGS["library"].names())
def test_each_library_runs_an_all_reduce(name):
    cluster = load_cluster("zionex" if name.startswith("nccl") else "piz_daint_mpi")
    data = {"cluster": cluster.to_dict() | {"collectives": name}}
    machine = read_cluster(Document(data, {}, Path(__file__)), ("cluster",))
    model = CollectiveModel.of(machine, Topology.build(machine, 8))

    assert float(model.time(idle_call(model, "all_reduce", 2.0**20)).seconds.max()) > 0.0
