"""Keys that workloads of all kinds have: the names behind them, defaults by framework, and checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inputs.keys import KeyPath, key_text
from inputs.model import Strict
from inputs.quantities import Bytes
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.located import located
from scenarios.types import NetworkChoice, Scenario, Section
from simulator.network.collectives.algorithm import check_algorithm
from workloads.graded import Graded
from workloads.graph.framework import Framework, load_framework

CLUSTER: KeyPath = ("cluster",)
MODEL: KeyPath = ("workload", "model")
FRAMEWORK: KeyPath = ("workload", "framework")
FRAMEWORK_ALGORITHMS = {
    "all_to_all": "all_to_all",
    "all_to_all_between_nodes": "all_to_all",
    "all_reduce": "all_reduce",
}
"""Operation of each key of a framework that names an algorithm."""


def plain(part: Strict) -> dict[str, Any]:
    """A part as plain JSON values, to stand in place of its name."""
    return part.model_dump(mode="json")


def beside(document: Document, path: KeyPath, given: str) -> Path:
    """The file that a key names: relative to the scenario's folder, or to where the command runs if ``--set`` gave it.

    Args:
        given: value of the key at ``path``.
    """
    _, line = document.where(path)
    folder = document.file.parent if line is not None else Path()
    return folder / Path(given).expanduser()


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
    """The network's choices with the framework's own algorithms filled in."""
    own = framework.algorithms(nodes)
    return network.model_copy(update={"algorithms": {**own, **network.algorithms}}) if own else network


def check_framework_algorithms(document: Document, framework: Framework) -> None:
    """Refuse algorithms of a framework that do not exist, on any number of nodes.

    Raises:
        InputError: no collective has an algorithm of that name.
    """
    for key, op in FRAMEWORK_ALGORITHMS.items():
        chosen = getattr(framework, key)
        if chosen is not None:
            with located(document, FRAMEWORK):
                check_algorithm(op, chosen.value, key)


def check_batch(document: Document, scenario: Scenario, batch: int, world_size: int, unit: str) -> None:
    """Refuse batches that leave a rank without a sample in a pass.

    Args:
        unit: unit of the batch, a plural noun.

    Raises:
        InputError: this one does.
    """
    passes = scenario.workload.gradient_accumulation
    sharing = scenario.workload.training_ranks(world_size)
    ranks = f"{sharing} ranks" if sharing == world_size else f"{sharing} of {world_size} ranks that process {unit}"
    if batch < sharing:
        raise document.error(
            ("workload", "global_batch_size"),
            f"fewer {unit} than the {ranks}",
            given=batch,
            expected=f"{sharing} or more",
        )
    if batch < sharing * passes:
        raise document.error(
            ("workload", "gradient_accumulation"),
            f"a batch of {batch} has fewer {unit} than {passes} passes over {ranks}",
            given=passes,
            expected=f"at most {batch // sharing}",
        )
