"""Keys of convolutional networks: defaults by strategy, and what is refused."""

from __future__ import annotations

import pytest

from inputs.errors import InputError
from scenarios.convnet.family import ConvnetFamily, ConvnetResolved
from scenarios.family import FAMILIES
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulate
from tests.toy_family import SQUARES, ToyWorkload
from workloads.convnet.catalog import network

TEXT = """
name: resnet
cluster: dgx_a100_80
nodes: 2
workload:
  kind: convnet
  model: resnet50
"""


class Squares:
    """A generator whose networks are all made of squares."""

    def titles(self):
        return {"resnet50": "residual network of 50 layers", "vgg16": "16 layers with weights"}

    def title(self, name):
        return network(name) and self.titles()[name]

    def layers(self, name):
        return 8

    def partitions(self, workload):
        return {}

    def workload(self, resolved: ConvnetResolved, machine):
        from dataclasses import replace

        return ToyWorkload(replace(resolved, model=SQUARES))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    FAMILIES.names()
    for table in ("_items", "_descriptions"):
        monkeypatch.setattr(FAMILIES, table, dict(getattr(FAMILIES, table)))
    FAMILIES._items.pop("convnet", None)
    FAMILIES.add("convnet", ConvnetFamily(Squares()), "convolutional networks")


@pytest.fixture
def of(tmp_path):
    """A scenario with further lines."""

    def load(more: str = "", *settings: str):
        file = tmp_path / "resnet.yaml"
        file.write_text(TEXT + more, encoding="utf-8")
        return load_scenario(file, settings)

    return load


def test_defaults_follow_the_strategy(of):
    horovod, servers = of().scenario.workload, of("  strategy: grpc_ps_gdr\n").scenario.workload
    assert (horovod.strategy, horovod.fusion_bytes, horovod.cycle_time, horovod.servers) == (
        "horovod_nccl",
        64 * 2**20,
        5e-3,
        None,
    )
    assert (servers.fusion_bytes, servers.cycle_time, servers.servers) == (None, None, 1)
    assert of().global_batch_size == 16 * 64


def test_the_batch_is_given_for_a_rank_or_for_all(of):
    assert of("  images_per_rank: 32\n").global_batch_size == 512
    assert of("  images_per_rank: 32\n", "workload.global_batch_size=1600").global_batch_size == 1600
    assert of("  global_batch_size: 160\n").hash == of("  images_per_rank: 10\n").hash
    with pytest.raises(InputError, match="together with global_batch_size"):
        of("  images_per_rank: 32\n  global_batch_size: 64\n")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("  strategy: horovod\n", "horovod_mpi"),
        ("  fusion_bytes: 0 B\n", "fusion_bytes"),
        ("  servers: 2\n", "servers is a key of grpc_ps strategies"),
        ("  strategy: baidu_ring\n  fusion_bytes: 1 MiB\n", "fusion_bytes is a key of horovod strategies"),
        ("  gradient_buckets: {bytes: 1 MiB}\n", "not in DDP's buckets"),
        ("  gradient_accumulation: 2\n", "one pass"),
        ("  global_batch_size: 100\n", "multiple of 16, e.g. 96 or 112"),
        ("  global_batch_size: 8\n", "fewer images than the 16 ranks"),
        ("  sharding: {planner: greedy}\n", "sharding is a key of dlrm workloads, and this workload is convnet"),
        ("precision: {dense: fp8}\n", "precision.dense"),
        ("precision: {tables: fp16}\n", "tables is a key of dlrm, dlrm_ps and inference workloads"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(of, more, message):
    with pytest.raises(InputError) as caught:
        of(more)
    assert message in str(caught.value)
    assert caught.value.line is not None


def test_an_unknown_network_has_the_nearest_name(of):
    with pytest.raises(InputError, match="resnet50") as caught:
        of("", "workload.model=resnet5")
    assert caught.value.key == "workload.model"


def test_a_resolved_scenario_is_resolved_and_runs_in_images(of):
    resolved = of()
    assert changed(resolved, []).hash == resolved.hash
    summary = simulate(resolved, Silent()).summary
    assert summary["exchange"] == {"strategy": "horovod_nccl"}
    assert summary["throughput_images_per_s"] == pytest.approx(1024 / summary["iteration_time_s"])
