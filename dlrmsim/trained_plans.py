"""``to_torchrec``: plans as TorchRec's ``ShardingPlan``, so that the plan that was found is trained.

``torchrec_constraints``: the constraints of a scenario as TorchRec's own, so that its planner plans under them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from dlrmsim.output.results import RESOLVED_FILE
from dlrmsim.verbs.from_torchrec import FromTorchrecResult
from dlrmsim.verbs.plan import PLAN_FILE, PlanResult
from dlrmsim.verbs.run import RunResult
from dlrmsim.verbs.what import Name, scenario_of
from inputs.errors import InputError, MissingExtraError
from inputs.yaml_lines import load_yaml
from scenarios.dlrm.constraint_fields import constraint_fields
from scenarios.dlrm.typed import dlrm_of
from scenarios.dlrm.written import with_plan
from scenarios.located import located
from scenarios.progress import Silent
from scenarios.resolved import ResolvedScenario
from trainer.torchrec.constraints import Constraints
from trainer.torchrec.interfaces import TorchModule, TorchrecConstraints, TorchrecShardingPlan
from trainer.torchrec.listed_shards import paths_of_tables, with_shards
from workloads.dlrm.sharding.plan_file import PlanFile, read_plan

Planned: TypeAlias = Name | Mapping[str, object] | PlanResult | RunResult | FromTorchrecResult | ResolvedScenario
"""A plan: its file or content, the folder of a plan or a run, a result, or a scenario, which is planned."""


Constrained: TypeAlias = Name | RunResult | FromTorchrecResult | ResolvedScenario
"""A scenario: its file or name, or a result that has one."""


def to_torchrec(
    what: Planned,
    module: TorchModule | None = None,
    *,
    module_path: str | None = None,
    constraints: Constraints | None = None,
    device: str | None = None,
) -> TorchrecShardingPlan:
    """TorchRec's ``ShardingPlan`` for a plan; ``DistributedModelParallel`` takes it.

    Args:
        module: module that will be sharded: its paths take the place of those of the plan, and shards that the plan
            does not list follow from the sizes of its tables.
        module_path: path of the module of all tables instead, empty for an EmbeddingBagCollection itself.
        constraints: TorchRec's ``ParameterConstraints`` by table; settings of kernels that the plan lacks are theirs.
        device: kind of device of all shards, such as ``cpu``; None: the plan's own.

    Raises:
        MissingExtraError: TorchRec is not installed.
        InputError: there is no such plan, its tables are not those of the module or have scaled rows, or it does not
            list its shards.
    """
    _require_torchrec("to_torchrec")
    if module is not None and module_path is not None:
        raise InputError("given together with module", key="module_path", given=module_path, expected="one of the two")
    from trainer.torchrec.sharding_plan import sharding_plan

    file = _plan_of(what)
    paths: Mapping[str, str] | str | None = module_path
    if module is not None:
        paths, file = paths_of_tables(module), with_shards(file, module)
    return sharding_plan(file, paths=paths, constraints=constraints, device=device)


def torchrec_constraints(what: Constrained) -> dict[str, TorchrecConstraints]:
    """TorchRec's ``ParameterConstraints`` of every table of a scenario; ``EmbeddingShardingPlanner`` takes them.

    They have its sharding types, kernels, ``min_partition``, the load factor of its cache and its pooling factors. A
    warning names the tables whose ``device_group`` or ``together`` has no form in them.

    Raises:
        MissingExtraError: TorchRec is not installed.
        InputError: there is no such scenario, it trains no DLRM, or a constraint names no table.
    """
    _require_torchrec("torchrec_constraints")
    from trainer.torchrec.sharding_plan import parameter_constraints

    found = dlrm_of(scenario_of(what) if isinstance(what, str | Path) else _resolved(what), "torchrec_constraints")
    with located(found.document):
        fields, lost = constraint_fields(found)
    if lost:
        warnings.warn(f"TorchRec has no such constraints: {'; '.join(lost)}", stacklevel=2)
    return parameter_constraints(fields)


def _require_torchrec(name: str) -> None:
    """Raise an error where TorchRec is not installed.

    Raises:
        MissingExtraError: it is not.
    """
    if find_spec("torchrec") is None:
        raise MissingExtraError(f"{name} needs TorchRec: pip install 'dlrmsim[torchrec]'")


def _plan_of(what: Planned) -> PlanFile:
    """The plan as its file has it.

    Raises:
        InputError: there is none.
    """
    if isinstance(what, str | Path):
        return _plan_at(what)
    if isinstance(what, PlanResult):
        return read_plan(what.study.plan_file())
    if isinstance(what, Mapping):
        return read_plan(what)
    return _planned(_resolved(what))


def _plan_at(name: Name) -> PlanFile:
    """The plan of a file, a folder, or a scenario by name.

    Raises:
        InputError: there is none.
    """
    path = Path(name)
    if path.is_dir():
        path = next((path / file for file in (PLAN_FILE, RESOLVED_FILE) if (path / file).is_file()), path / PLAN_FILE)
    if not path.is_file():
        return _planned(scenario_of(name))
    data = load_yaml(path).data
    return read_plan(data) if "plan" in data else _planned(scenario_of(path))


def _resolved(what: RunResult | FromTorchrecResult | ResolvedScenario) -> ResolvedScenario:
    if isinstance(what, RunResult):
        return what.outcome.resolved
    return what.resolved if isinstance(what, FromTorchrecResult) else what


def _planned(resolved: ResolvedScenario) -> PlanFile:
    """The plan of a scenario: as it stands there, or by its planner.

    Raises:
        InputError: the scenario trains no DLRM.
        InfeasibleError: no plan fits.
    """
    found = dlrm_of(resolved, "to_torchrec")
    given = found.scenario.workload.sharding.plan
    if not isinstance(given, dict):
        given = with_plan(found, Silent()).scenario.workload.sharding.plan
    file = read_plan(given if isinstance(given, dict) else {})
    local = file.local_world_size or min(found.cluster.node.ranks, found.world_size)
    return file.model_copy(update={"local_world_size": local})
