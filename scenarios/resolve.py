"""Resolving a scenario file to a `ResolvedScenario`: names inlined, defaults filled, hashed.

The resolved scenario is itself a scenario, with the cluster, the model, the framework and other names of the family
written out where their names stood: saved as YAML and run again it gives the same hash and the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardware_specs import Cluster, read_cluster
from inputs.errors import InputError, listed
from inputs.keys import KeyPath, key_text
from inputs.quantities import MAX_RANKS
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.backend import backend_notes, with_backend
from scenarios.changes import with_settings
from scenarios.family import FAMILIES, Asked, Family, family_of_document
from scenarios.foreign_keys import refuse_foreign_keys
from scenarios.library import CATALOG
from scenarios.located import located
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import read_steps, written
from scenarios.shared_keys import (
    CLUSTER,
    MODEL,
    check_batch,
    check_framework_algorithms,
    plain,
    read_framework,
    with_buckets,
    with_framework_algorithms,
)
from scenarios.site_order import check_searched, check_site_order
from scenarios.types import Scenario
from simulator.network.calibration import with_shares
from workloads.family import Model
from workloads.graded import check_choices, picked
from workloads.graph.framework import Framework

__all__ = ["ResolvedScenario", "asked_again", "changed", "load_scenario", "question_of", "resolve"]


def question_of(scenario: str | Path, settings: Sequence[str], resolved: ResolvedScenario) -> str:
    """Text that is the same for two scenarios with the same results, messages with names of files included."""
    return "\n".join([str(scenario), *settings, resolved.hash, *resolved.notes])


def resolve(document: Document) -> ResolvedScenario:
    """Check a scenario and inline its names.

    Raises:
        InputError: anything in it, or in a file it names, is wrong.
    """
    family = family_of_document(document)
    refuse_foreign_keys(document, family)
    scenario = validate(family.scenario, document)
    named = read_cluster(document, CLUSTER)
    cluster = with_shares(with_backend(document, scenario, named, family.backend(scenario)))
    model, framework = _with_alternatives(
        document, scenario, _read_model(document, scenario, family), read_framework(document, scenario)
    )
    check_framework_algorithms(document, framework)
    steps = read_steps(document, scenario.transform)
    framework, world_size = with_buckets(framework, scenario.workload), _world_size(document, scenario, cluster)
    _check_precision(document, scenario, cluster)
    _check_ranks(document, scenario, world_size)
    check_site_order(document, scenario, cluster, world_size)
    filled = family.fill(Asked(document, scenario, model, framework, world_size, cluster))
    check_searched(document, scenario, cluster, filled.site_order)
    check_batch(document, scenario, filled.global_batch_size, world_size, family.unit)
    ranks = cluster.node.ranks
    nodes, whole_nodes = -(-world_size // ranks), world_size % ranks == 0
    parts = {
        "cluster": cluster.to_dict(),
        "workload": filled.section.model_copy(
            update={
                "model": plain(filled.model),
                "framework": plain(framework),
                "global_batch_size": filled.global_batch_size,
                "gradient_buckets": None,
            }
        ),
        "network": with_framework_algorithms(scenario.network, framework, nodes),
        "transform": written(steps),
        "nodes": nodes if whole_nodes else None,
        "world_size": None if whole_nodes else world_size,
        "site_order": filled.site_order or scenario.site_order,
    }
    return ResolvedScenario(
        scenario=scenario.model_copy(update=parts),
        cluster=cluster,
        model=filled.model,
        framework=framework,
        world_size=world_size,
        nodes=nodes,
        global_batch_size=filled.global_batch_size,
        document=document,
        places=filled.places,
        notes=backend_notes(named, cluster),
    )


def load_scenario(name_or_path: str | Path, settings: Sequence[str] = ()) -> ResolvedScenario:
    """Read, change by ``KEY=VALUE`` settings, check and resolve a scenario; raises as `resolve`."""
    return _resolved(load_yaml(CATALOG.find(name_or_path)), settings)


def changed(resolved: ResolvedScenario, settings: Sequence[str]) -> ResolvedScenario:
    """A resolved scenario with ``KEY=VALUE`` settings; raises as `load_scenario`."""
    return _resolved(Document(resolved.to_dict(), {}, resolved.document.file), settings)


def asked_again(resolved: ResolvedScenario, settings: Sequence[str]) -> ResolvedScenario:
    """The scenario of the same file with further ``KEY=VALUE`` settings; raises as `load_scenario`.

    Defaults that depend on a changed key follow it, which `changed` does not do.
    """
    return _resolved(resolved.document, settings)


def _resolved(file: Document, settings: Sequence[str]) -> ResolvedScenario:
    """The scenario of a file with settings, and notes on side effects of the settings."""
    document = with_settings(file, settings)
    resolved = resolve(document)
    return replace(resolved, notes=(*_size_notes(file, document, resolved), *resolved.notes))


def _size_notes(file: Document, document: Document, resolved: ResolvedScenario) -> tuple[str, ...]:
    """A note if another cluster with the same number of nodes has another number of ranks."""
    moved = any(path[0] == "cluster" for path in document.overrides)
    nodes = document.data.get("nodes")
    if not moved or not isinstance(nodes, int) or ("nodes",) in document.overrides:
        return ()
    try:
        before = read_cluster(file, ("cluster",))
    except InputError:  # the file's own cluster is wrong, and another takes its place
        return ()
    was, now = before.node.ranks, resolved.cluster.node.ranks
    if was == now:
        return ()
    note = (
        f"nodes={nodes} are {nodes * now:,} ranks on {resolved.cluster.name} ({now} per node) instead of "
        f"{nodes * was:,} on {before.name} ({was} per node); --set world_size={nodes * was} keeps their number"
    )
    return (note,)


def _world_size(document: Document, scenario: Scenario, cluster: Cluster) -> int:
    gpus = cluster.node.ranks
    if scenario.nodes is not None and scenario.world_size is not None:
        raise document.error(("world_size",), "given together with nodes", expected="one of nodes and world_size")
    if scenario.nodes is not None:
        if scenario.nodes * gpus > MAX_RANKS:
            raise document.error(
                ("nodes",), "too many ranks", given=scenario.nodes, expected=f"at most {MAX_RANKS // gpus} nodes"
            )
        return scenario.nodes * gpus
    if scenario.world_size is not None:
        return scenario.world_size
    raise document.error((), "the size is missing", expected="nodes or world_size")


def _check_precision(document: Document, scenario: Scenario, cluster: Cluster) -> None:
    gpu, cpu = cluster.node.gpu, cluster.node.cpu
    if gpu is None:
        if not cpu.computes:
            raise document.error(
                ("cluster",),
                "nobody measured kernels on the CPUs of this cluster, and it has no GPUs",
                given=cluster.name,
                expected="a cluster with GPUs, or one that `dlrmsim calibrate host` wrote; on others collectives can "
                "be timed (`dlrmsim collective`)",
            )
        if cpu.kernels:
            return
    computing = cpu.rates if gpu is None else gpu
    if computing is None:
        return
    try:
        computing.peak_flops_per_s(scenario.precision.dense)
    except InputError as error:
        raise document.error(
            ("precision", "dense"), error.message, given=error.given, expected=error.expected
        ) from None


def _check_ranks(document: Document, scenario: Scenario, world_size: int) -> None:
    recorded = scenario.output.record.ranks
    named: dict[KeyPath, tuple[int, ...]] = {
        ("variation", "straggler_ranks"): scenario.variation.straggler_ranks,
        ("output", "record", "ranks"): () if recorded == "all" else recorded,
    }
    for path, ranks in named.items():
        missing = [rank for rank in ranks if rank >= world_size]
        if missing:
            raise document.error(path, "no such rank", given=missing[0], expected=f"0 to {world_size - 1}")


def _read_model(document: Document, scenario: Scenario, family: Family[Any, Any]) -> Model:
    given = scenario.workload.model
    found: Model
    if isinstance(given, str):
        try:
            found = family.load_model(given, origin=document, key=key_text(MODEL))
        except InputError as error:
            raise _of_another_kind(document, error, given, family) from None
    else:
        found = family.read_model(document, prefix=MODEL)
    return found


def _of_another_kind(document: Document, error: InputError, given: str, family: Family[Any, Any]) -> InputError:
    """The error of a model that a kind of workload does not know, with the kinds that do."""
    kinds = []
    for kind, other in FAMILIES.items():
        with suppress(InputError):
            other.load_model(given, origin=document, key=key_text(MODEL))
            kinds.append(kind)
    if kinds and family.kind not in kinds:
        error.message += f"; {given} is a model of workload.kind {listed(kinds)}"
        error.nearest = None
    return error


def _with_alternatives(
    document: Document, scenario: Scenario, model: Model, framework: Framework
) -> tuple[Model, Framework]:
    """Model and framework with the alternatives that the scenario asks for; no quantity is in both."""
    choices = scenario.workload.alternatives
    with located(document, ("workload",)):
        check_choices([model, framework], choices)
    return picked(model, choices), picked(framework, choices)
