"""Resolving a scenario file to a `ResolvedScenario`: names inlined, defaults filled, hashed.

The resolved scenario is itself a scenario, with the cluster, the model, the framework and the plan written out where
their names stood: saved as YAML and run again it gives the same hash and the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hardware_specs import Cluster, read_cluster
from inputs.errors import InputError
from inputs.keys import KeyPath, key_text, value_at
from inputs.model import Strict
from inputs.quantities import MAX_RANKS
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.library import CATALOG
from scenarios.located import located
from scenarios.schedule import (
    check_framework_algorithms,
    check_schedule,
    with_buckets,
    with_framework_algorithms,
    with_framework_defaults,
    with_framework_hybrid,
)
from scenarios.types import Scenario, Sharding, Workload
from simulator.network.calibration import with_shares
from workloads.dlrm.model.model import DlrmModel, load_model, read_model, with_law
from workloads.dlrm.model.settings import largest_share
from workloads.dlrm.sharding import PlanFile
from workloads.graded import Graded, check_choices, picked
from workloads.graph.framework import Framework, load_framework

DEFAULT_PLANNER = "greedy"
CLUSTER: KeyPath = ("cluster",)
MODEL: KeyPath = ("workload", "model")
FRAMEWORK: KeyPath = ("workload", "framework")
PLAN: KeyPath = ("workload", "sharding", "plan")


@dataclass(frozen=True, slots=True)
class ResolvedScenario:
    """Everything a run depends on.

    Attributes:
        scenario: the scenario with cluster, model, framework and plan inlined and all defaults filled.
        cluster: the machine.
        model: the model, with the alternatives that were asked for.
        framework: the framework profile.
        world_size: number of ranks.
        nodes: number of nodes they are on.
        global_batch_size: samples per iteration over all ranks.
        document: the file, for the line of a later error.
        plan_place: document and key at which its plan stands, if it has one.
        notes: side effects of settings.
    """

    scenario: Scenario
    cluster: Cluster
    model: DlrmModel
    framework: Framework
    world_size: int
    nodes: int
    global_batch_size: int
    document: Document
    plan_place: tuple[Document, KeyPath]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def local_batch_size(self) -> int:
        """Samples per iteration on the rank with most."""
        return largest_share(self.global_batch_size, self.world_size)

    def batch_on(self, world_size: int) -> int:
        """Samples per iteration on another number of ranks with the same samples per rank."""
        return max(round(self.global_batch_size * world_size / self.world_size), world_size)

    def changed(self, settings: Sequence[str]) -> ResolvedScenario:
        """The scenario with ``KEY=VALUE`` settings; raises as `load_scenario`."""
        return _resolved(Document(self.to_dict(), {}, self.document.file), settings)

    def to_dict(self) -> dict[str, Any]:
        """The resolved scenario as plain JSON values; reads back as the same scenario."""
        return self.scenario.to_dict()

    def to_yaml(self) -> str:
        """The resolved scenario as YAML that runs again and gives the same hash."""
        import yaml

        head = "# A resolved scenario: defaults filled, cluster, model and framework written out. It runs as it is.\n"
        return head + yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120)

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `to_dict`, hexadecimal."""
        return self.scenario.hash


def question_of(scenario: str | Path, settings: Sequence[str], resolved: ResolvedScenario) -> str:
    """Text that is the same for two scenarios with the same results, messages with names of files included."""
    return "\n".join([str(scenario), *settings, resolved.hash, *resolved.notes])


def load_document(name_or_path: str | Path, settings: Sequence[str] = ()) -> Document:
    """Read a scenario and apply ``KEY=VALUE`` settings.

    Raises:
        InputError: no such scenario, it is no YAML mapping, or a setting is not of that form.
    """
    return with_settings(load_yaml(CATALOG.find(name_or_path)), settings)


def with_settings(document: Document, settings: Sequence[str]) -> Document:
    """A scenario with ``KEY=VALUE`` settings applied; raises as `load_document`."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InputError("not a setting", file="--set", given=setting, expected="KEY=VALUE, e.g. nodes=32")
        document = _with_part_in_place(document, key.strip()).set(key.strip(), value)
    return _one_of_each(document)


def _with_part_in_place(document: Document, dotted_key: str) -> Document:
    """The document with the named part that a setting reaches into written in place of its name.

    A cluster gets the shares of its calibration points first, computed for the measured machine.

    Raises:
        InputError: there is no such part, or its file is wrong.
    """
    for path in (CLUSTER, MODEL, FRAMEWORK):
        if not dotted_key.startswith((f"{key_text(path)}.", f"{key_text(path)}[")):
            continue
        given = value_at(document.data, path)
        if path == CLUSTER and given is not None:
            return document.replaced(path, with_shares(read_cluster(document, path)).to_dict())
        if path == FRAMEWORK and given is None:
            given = str(Workload.model_fields["framework"].default)
        if path == FRAMEWORK and isinstance(given, str):
            return document.replaced(path, _plain(load_framework(given, origin=document, key=key_text(path))))
        if isinstance(given, str):
            return document.replaced(path, _plain(load_model(given, origin=document, key=key_text(path))))
    return document


def resolve(document: Document) -> ResolvedScenario:
    """Check a scenario and inline its names.

    Raises:
        InputError: anything in it, or in a file it names, is wrong.
    """
    scenario = validate(Scenario, document)
    cluster = with_shares(read_cluster(document, CLUSTER))
    model, framework = _with_alternatives(
        document, scenario, _read_model(document, scenario), _read_framework(document, scenario)
    )
    check_framework_algorithms(document, framework)
    model, framework = _with_laws(document, scenario, model), with_buckets(framework, scenario.workload)
    world_size = _world_size(document, scenario, cluster)
    batch = scenario.workload.global_batch_size or int(model.local_batch_size.value) * world_size
    check_schedule(document, scenario, batch, world_size)
    _check_precision(document, scenario, cluster)
    _check_ranks(document, scenario, world_size)
    gpus = cluster.node.ranks
    sharding, plan_place = _read_sharding(document, scenario, framework)
    workload = with_framework_hybrid(scenario.workload, framework, model, world_size)
    workload = with_framework_defaults(workload, framework).model_copy(
        update={
            "model": _plain(model),
            "framework": _plain(framework),
            "global_batch_size": batch,
            "sharding": sharding,
            "indices": None,
            "pooling_spread": None,
            "gradient_buckets": None,
        }
    )
    whole_nodes = world_size % gpus == 0
    size = {"nodes": world_size // gpus if whole_nodes else None, "world_size": None if whole_nodes else world_size}
    network = with_framework_algorithms(scenario.network, framework, -(-world_size // gpus))
    parts = {"cluster": cluster.to_dict(), "workload": workload, "network": network}
    full = scenario.model_copy(update={**parts, **size})
    return ResolvedScenario(
        scenario=full,
        cluster=cluster,
        model=model,
        framework=framework,
        world_size=world_size,
        nodes=-(-world_size // gpus),
        global_batch_size=batch,
        document=document,
        plan_place=plan_place,
    )


def load_scenario(name_or_path: str | Path, settings: Sequence[str] = ()) -> ResolvedScenario:
    """Read, change by ``KEY=VALUE`` settings, check and resolve a scenario; raises as `resolve`."""
    return _resolved(load_yaml(CATALOG.find(name_or_path)), settings)


def _resolved(file: Document, settings: Sequence[str]) -> ResolvedScenario:
    """The scenario of a file with settings, and notes on side effects of the settings."""
    document = with_settings(file, settings)
    resolved = resolve(document)
    return replace(resolved, notes=_size_notes(file, document, resolved))


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


_EXCLUSIVE: tuple[tuple[KeyPath, KeyPath], ...] = ((("world_size",), ("nodes",)), (PLAN, (*PLAN[:-1], "planner")))
"""Keys of which a scenario has one."""


def _one_of_each(document: Document) -> Document:
    """Let ``--set world_size`` take the place of the file's ``nodes``, a plan that of a planner, and the other way."""
    for pair in _EXCLUSIVE:
        for mine, other in (pair, pair[::-1]):
            if mine in document.overrides and other not in document.overrides:
                document = replace(document, data=_without(document.data, other))
    return document


def _without(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """A copy of ``data`` in which the key at ``path`` is missing."""
    head, rest = str(path[0]), path[1:]
    if head not in data or (rest and not isinstance(data[head], dict)):
        return data
    kept = {key: value for key, value in data.items() if key != head}
    return {**kept, head: _without(data[head], rest)} if rest else kept


def _world_size(document: Document, scenario: Scenario, cluster: Cluster) -> int:
    gpus = cluster.node.ranks
    if scenario.nodes is not None and scenario.world_size is not None:
        raise document.error(("world_size",), "stands beside nodes", expected="one of nodes and world_size")
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
    gpu = cluster.node.gpu
    if gpu is None:
        if not cluster.node.cpu.kernels:
            raise document.error(
                ("cluster",),
                "nobody measured kernels on the CPUs of this cluster, and it has no GPUs",
                given=cluster.name,
                expected="a cluster with GPUs, or one that `dlrmsim calibrate host` wrote; on others collectives can "
                "be timed (`dlrmsim collective`)",
            )
        return
    try:
        gpu.peak_flops_per_s(scenario.precision.dense)
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


def _read_model(document: Document, scenario: Scenario) -> DlrmModel:
    given = scenario.workload.model
    if isinstance(given, str):
        return load_model(given, origin=document, key=key_text(MODEL))
    return read_model(document, prefix=MODEL)


def _read_framework(document: Document, scenario: Scenario) -> Framework:
    given = scenario.workload.framework
    if isinstance(given, str):
        return load_framework(given, origin=document, key=key_text(FRAMEWORK))
    return validate(Framework, document, prefix=FRAMEWORK)


def _with_alternatives(
    document: Document, scenario: Scenario, model: DlrmModel, framework: Framework
) -> tuple[DlrmModel, Framework]:
    """Model and framework with the alternatives that the scenario asks for; no quantity is in both."""
    choices = scenario.workload.alternatives
    with located(document, ("workload",)):
        check_choices([model, framework], choices)
    return picked(model, choices), picked(framework, choices)


def _with_laws(document: Document, scenario: Scenario, model: DlrmModel) -> DlrmModel:
    """The model with the laws of indices and bag lengths that the scenario asks for."""
    workload, assumed = scenario.workload, {"source": "the scenario", "grade": "assumed"}
    if workload.indices is not None:
        model = with_law(model, Graded(value=workload.indices, **assumed), document, ("workload", "indices"))
    if workload.pooling_spread is not None:
        model = model.model_copy(update={"pooling_spread": Graded(value=workload.pooling_spread, **assumed)})
    return model


def _read_sharding(
    document: Document, scenario: Scenario, framework: Framework
) -> tuple[Sharding, tuple[Document, KeyPath]]:
    """The sharding with its plan file read, or with the default planner; and where the plan stands."""
    sharding = scenario.workload.sharding
    if sharding.planner is not None and sharding.plan is not None:
        raise document.error(PLAN, "stands beside planner", expected="one of planner and plan")
    if sharding.plan is None:
        own = framework.planner.value if framework.planner is not None else DEFAULT_PLANNER
        return sharding.model_copy(update={"planner": sharding.planner or own}), (document, PLAN)
    place: tuple[Document, KeyPath] = (document, PLAN)
    if isinstance(sharding.plan, str):
        place = (load_yaml(_plan_file(document, sharding.plan)), ())
    return sharding.model_copy(update={"plan": _plain(validate(PlanFile, place[0], prefix=place[1]))}), place


def _plan_file(document: Document, given: str) -> Path:
    """Relative paths start at the scenario's folder, or where the command runs when ``--set`` gave them."""
    _, line = document.where(PLAN)
    folder = document.file.parent if line is not None else Path()
    return folder / Path(given).expanduser()


def _plain(part: Strict) -> dict[str, Any]:
    return part.model_dump(mode="json")
