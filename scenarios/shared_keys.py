"""Keys that workloads of all kinds have: the names behind them, defaults by framework, and checks."""

from __future__ import annotations

from typing import Any

from inputs.keys import KeyPath, key_text
from inputs.model import Strict
from inputs.quantities import Bytes
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.types import NetworkChoice, Scenario, Section
from workloads.graded import Graded
from workloads.graph.framework import Framework, load_framework

CLUSTER: KeyPath = ("cluster",)
MODEL: KeyPath = ("workload", "model")
FRAMEWORK: KeyPath = ("workload", "framework")


def plain(part: Strict) -> dict[str, Any]:
    """A part as it is written in the place of its name."""
    return part.model_dump(mode="json")


def read_framework(document: Document, scenario: Scenario) -> Framework:
    """The framework profile.

    Raises:
        InputError: there is no such profile, or it is wrong.
    """
    given = scenario.workload.framework
    if isinstance(given, str):
        return load_framework(given, origin=document, key=key_text(FRAMEWORK))
    return validate(Framework, document, prefix=FRAMEWORK)


def with_buckets(framework: Framework, workload: Section) -> Framework:
    """The framework with the sizes of gradient buckets that the scenario asks for."""
    chosen = workload.gradient_buckets
    if chosen is None:
        return framework
    sizes = {"first_bucket_bytes": chosen.first_bytes, "bucket_bytes": chosen.bytes}
    asked = {
        key: Graded[Bytes](value=size, source="the scenario", grade="assumed")
        for key, size in sizes.items()
        if size is not None
    }
    return framework.model_copy(update=asked)


def with_framework_algorithms(network: NetworkChoice, framework: Framework, nodes: int) -> NetworkChoice:
    """The network's choices with the framework's defaults filled in: its all_to_all between nodes."""
    own = framework.all_to_all_between_nodes
    if own is None or nodes == 1 or "all_to_all" in network.algorithms:
        return network
    return network.model_copy(update={"algorithms": {**network.algorithms, "all_to_all": own.value}})


def check_batch(document: Document, scenario: Scenario, batch: int, world_size: int, unit: str) -> None:
    """Refuse batches that leave a rank without a sample in a pass.

    Args:
        unit: unit of the batch, a plural noun.

    Raises:
        InputError: this one does.
    """
    passes = scenario.workload.gradient_accumulation
    if batch < world_size:
        raise document.error(
            ("workload", "global_batch_size"),
            f"fewer {unit} than the {world_size} ranks",
            given=batch,
            expected=f"{world_size} or more",
        )
    if batch < world_size * passes:
        raise document.error(
            ("workload", "gradient_accumulation"),
            f"a batch of {batch} has fewer {unit} than {passes} passes over {world_size} ranks",
            given=passes,
            expected=f"at most {batch // world_size}",
        )
