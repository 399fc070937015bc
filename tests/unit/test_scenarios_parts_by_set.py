"""``--set`` reaches into the parts that a scenario names, and says that the user gave the value."""

from __future__ import annotations

import pytest

from inputs.errors import InputError
from scenarios.resolve import changed, load_scenario

CASES = [
    ("cluster.node.nics.count=16", ("cluster", "node", "nics", "count"), 16),
    ("cluster.node.pcie_bytes_per_s='100 Gb/s'", ("cluster", "node", "pcie_bytes_per_s"), "12500000000 B/s"),
    ("cluster.max_nodes.value=3", ("cluster", "max_nodes"), 3),
    ("workload.model.local_batch_size=64", ("workload", "model", "local_batch_size"), 64),
    ("workload.framework.launch_s='2 us'", ("workload", "framework", "launch_s"), "2e-06 s"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "path", "value"), CASES)
def test_a_key_of_a_named_part_is_set_and_given(setting, path, value):
    resolved = load_scenario("zionex_a_128", [setting])
    part = resolved.to_dict()
    for key in path:
        part = part[key]

    assert (part["value"], part["grade"]) == (value, "given")
    assert part["source"] == "given by the user"
    assert load_scenario("zionex_a_128").hash != resolved.hash
    assert changed(resolved, []).hash == resolved.hash, "a resolved scenario is resolved"


def test_the_part_set_before_is_the_one_reached():
    resolved = load_scenario("zionex_a_128", ["cluster=dgx_h100", "cluster.node.nics.count=4"])

    assert resolved.cluster.name == "dgx_h100"
    assert resolved.cluster.node.nics.count.value == 4


def test_points_keep_the_share_of_the_machine_as_it_was():
    before = load_scenario("zionex_a_128").cluster.calibration
    after = load_scenario("zionex_a_128", ["cluster.node.nics.nic.bytes_per_s='2.5 GB/s'"]).cluster.calibration

    assert [p.share for p in after] == [p.share for p in before]
    assert None not in [p.share for p in before]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("cluster.node.nics.nonsense=3", "unknown key"),
        ("workload.framework.lunch_s='2 us'", "did you mean 'launch_s'"),
        ("cluster.node.nics.count=3", "cannot share these NICs evenly"),
        ("cluster.node.nics.nic.bytes_per_s=2.5", "the unit is missing"),
    ],
)
def test_a_mistake_names_the_setting(setting, words):
    with pytest.raises(InputError, match=words) as caught:
        load_scenario("zionex_a_128", [setting])
    assert str(caught.value).startswith(f"--set {setting}")
