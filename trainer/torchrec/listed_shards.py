"""Plans for the tables of a module: their modules' paths, and shards that a plan leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from inputs.errors import InputError
from trainer.torchrec.collections import collections_of
from trainer.torchrec.interfaces import TorchModule
from workloads.dlrm.model.table_list import TableGroup
from workloads.dlrm.model.tables import Tables, tables_of_groups
from workloads.dlrm.sharding.plan_exchange import MODULE, plan_from_dict, plan_to_dict
from workloads.dlrm.sharding.plan_file import PlanFile, read_plan


def paths_of_tables(module: TorchModule) -> Mapping[str, str]:
    """Table -> path of the module that TorchRec shards.

    Raises:
        InputError: the module has no tables.
    """
    return {table.name: found.path for found in collections_of(module, unpooled=True) for table in found.tables}


def with_shards(file: PlanFile, module: TorchModule) -> PlanFile:
    """The plan with the shards that it leaves out, as they follow from ranks and the sizes of the module's tables.

    Raises:
        InputError: the plan is not one of these tables, or lacks ``local_world_size``.
    """
    local = file.local_world_size
    if local is None and any(
        entry.sharding_spec is None and entry.sharding_type in ("table_row_wise", "grid_shard")
        for tables in file.plan.values()
        for entry in tables.values()
    ):
        raise InputError("the plan does not list the ranks of a node", key="local_world_size", expected="a number")
    written = file.model_dump(mode="json")
    whole = plan_to_dict(plan_from_dict(written, tables_of(module), file.world_size, local or file.world_size))
    for tables in written["plan"].values():
        for name, entry in tables.items():
            if entry["sharding_spec"] is None and entry["sharding_type"] != "data_parallel":
                entry["sharding_spec"] = whole["plan"][MODULE][name]["sharding_spec"]
    return read_plan(written)


def tables_of(module: TorchModule) -> Tables:
    """The tables of a module, with one lookup per feature.

    Raises:
        InputError: it has none.
    """
    found = [table for collection in collections_of(module, unpooled=True) for table in collection.tables]
    return tables_of_groups(
        tuple(
            TableGroup(
                name=table.name, rows=table.rows, dim=table.dim, pooling_factor=1.0, features=len(table.features)
            )
            for table in found
        )
    )
