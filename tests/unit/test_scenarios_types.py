"""What a scenario may say: defaults are filled, nothing unknown or impossible passes."""

import pytest
from pydantic import ValidationError

from scenarios.dlrm.section import DlrmScenario as Scenario

SMALLEST = {"name": "a", "cluster": "zionex", "nodes": 1, "workload": {"model": "zionex_a"}}


def test_the_smallest_scenario_gets_the_published_defaults():
    scenario = Scenario.model_validate(SMALLEST)
    assert scenario.schema_version == 1
    assert scenario.placement == "block"
    assert scenario.precision.forward_all_to_all == "fp16"
    assert scenario.run.iterations == "auto"
    assert scenario.output.record.iterations == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", 2),
        ("name", "../escape"),
        ("name", ""),
        ("nodes", 0),
        ("nodes", "16"),
        ("placement", "spiral"),
        ("extra", 1),
        ("precision", {"tables": "int3"}),
        ("run", {"iterations": 0}),
        ("network", {"background": {"nic": 1.0}}),
        ("network", {"background": {"wire": 0.1}}),
        ("network", {"background": {"nic": {"share": 1.0, "on": "1 ms", "off": "1 ms"}}}),
        ("network", {"background": {"nic": {"share": 0.5, "on": "0 ms", "off": "1 ms"}}}),
        ("network", {"background": {"nic": {"share": 0.5, "on": "1 ms"}}}),
        ("network", {"background": {"nic": {"share": 0.5, "on": 1, "off": "1 ms"}}}),
        ("run", {"iterations": 10**8}),
        ("run", {"max_iterations": 10**8}),
        ("nodes", 10**11),
        ("world_size", 2 * 10**6),
        ("output", {"record": {"iterations": 1}}),
        ("variation", {"straggler_slowdown": 0.5}),
    ],
)
def test_an_impossible_value_is_refused(key, value):
    with pytest.raises(ValidationError):
        Scenario.model_validate({**SMALLEST, key: value})


def test_a_dump_by_alias_reads_back_as_the_same_scenario():
    scenario = Scenario.model_validate(SMALLEST)
    assert Scenario.model_validate(scenario.model_dump(by_alias=True, mode="json")) == scenario
