"""Messages between two ranks: as long as a gather of two, named as what they are, and kept by each export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dlrmsim
from dlrmsim.verbs.export import WRITERS
from hardware_specs.loader import load_cluster
from reports.operator_words import KIND_NAMES, kind_of
from simulator.collective_calls import CollectiveCall
from simulator.network.collectives import Call
from simulator.network.model import CollectiveModel
from simulator.network.topology import Topology
from simulator.program import TaskGraph
from traces.formats import import_traces

TINY = "{name: tiny, title: two layers, layers: 2, hidden: 768, heads: 12, ffn: 2048, vocabulary: 1000, sequence: 128}"
RECORDED = 2
PIPELINE = (
    "world_size=2", f"workload.model={TINY}", "workload.parallel={pipeline: 2}", "workload.micro_batch_size=1",
    "workload.sequences=2", f"output.record.iterations={RECORDED}",
)  # fmt: skip
SIZE = 3e6


@pytest.mark.parametrize("name", ["dgx_h100", "stampede2_skx"])
@pytest.mark.parametrize("other", [1, -1])
@pytest.mark.parametrize("root", [0, 1])
def test_a_message_takes_as_long_as_a_gather_of_two_whose_root_has_a_part_of_its_own(name, other, root):
    cluster = load_cluster(name)
    topology = Topology.build(cluster, 2 * cluster.node.ranks)
    pair = np.full(topology.world_size, -1)
    pair[[0, other]] = 0
    model = CollectiveModel.of(cluster, topology)
    [block] = model.blocks(pair)
    message, gather = (
        model.time(Call(op, block, np.full((1, 1), size), root=root))
        for op, size in (("send", SIZE), ("gather", 2 * SIZE))
    )
    assert message.seconds.tolist() == gather.seconds.tolist()
    assert float(message.seconds.max()) > 0.0


def sends(graph: TaskGraph) -> list[tuple[str, float]]:
    calls = [work for program in graph.programs for work in program.work if isinstance(work, CollectiveCall)]
    return [(call.communicator.split(" ")[0], float(call.bytes)) for call in calls if call.op == "send"]


def test_stages_of_a_pipeline_send_and_exports_keep_it(tmp_path: Path) -> None:
    done = dlrmsim.run("gpt2_8", settings=PIPELINE, out=tmp_path / "run", levers=False)
    rows = [row for row in done.summary["collectives"] if row["communicator"].startswith(("forward", "backward"))]
    assert {row["op"] for row in rows} == {"send"}
    assert {row["bytes"] for row in rows} == {128 * 768 * 2.0}
    assert not {"gather", "sends"} & set(done.summary["critical_path"]["by_operator_s"])
    assert KIND_NAMES[kind_of(CollectiveCall("send", "forward_0", 1.0))] == "send"
    imported = import_traces([tmp_path / "run" / "timeline.parquet"])
    expected = sends(imported.graph)
    assert len(rows) == 8
    assert len(expected) == RECORDED * len(rows)
    for form, write in WRITERS.items():
        (tmp_path / form).mkdir()
        write(imported, tmp_path / form)
        assert sends(import_traces(sorted((tmp_path / form).iterdir())).graph) == expected, form
