"""``from_torchrec``: a job of TorchRec, module and sharding plan, as a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim.output.folders import folder_written_whole, replaceable
from dlrmsim.output.job_files import write_job
from dlrmsim.verbs.what import Name
from hardware_specs import load_cluster
from inputs.errors import InputError
from inputs.yaml_lines import Document
from scenarios.changes import with_settings
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, resolve
from trainer.torchrec.constraints import Constraints
from trainer.torchrec.interfaces import TorchModule, TorchrecShardingPlan
from trainer.torchrec.pooling import PoolingFactors
from trainer.torchrec.taken_over import FRAMEWORK, TakenOver, taken_over

PRECISION = dict.fromkeys(("dense", "tables", "forward_all_to_all", "backward_all_to_all", "all_reduce"), "fp32")
"""PyTorch's number format, which TorchRec sends as well unless it is given codecs."""


@dataclass(frozen=True, slots=True)
class FromTorchrecResult:
    """A job of TorchRec as a scenario.

    Attributes:
        folder: output folder; None: nothing is written.
        resolved: the scenario, as all verbs take it.
        notes: settings that the scenario lacks, and figures that are assumed.
    """

    folder: Path | None
    resolved: ResolvedScenario
    notes: tuple[str, ...]


def from_torchrec(
    what: TorchModule,
    plan: TorchrecShardingPlan | None = None,
    *,
    cluster: Name,
    nodes: int | None = None,
    world_size: int | None = None,
    batch_size_per_rank: int,
    constraints: Constraints | None = None,
    pooling_factors: PoolingFactors | None = None,
    dense: Mapping[str, object] | None = None,
    sequences: Mapping[str, str] | None = None,
    optimizer: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    name: str = "torchrec",
    out: Name | None = None,
    progress: Progress | None = None,
) -> FromTorchrecResult:
    """Read a module that TorchRec trains, and check that it is a scenario.

    Needs neither PyTorch nor TorchRec itself.

    Args:
        what: module before it is sharded, on any device; its EmbeddingBagCollections are the tables.
        plan: TorchRec's ``ShardingPlan`` for it; None: dlrmsim plans.
        nodes: nodes of the cluster, or ``world_size``.
        world_size: ranks.
        constraints: TorchRec's ``ParameterConstraints`` by table.
        pooling_factors: mean lookups per sample, by table or feature; before those of the constraints.
        dense: ``mlp``, ``interaction``... with the keys of a model file; None: read from TorchRec's DLRM. With ``hstu``
            and ``sequences`` the EmbeddingCollections are tables, too.
        sequences: sequences of tables of EmbeddingCollections, by table; without an entry the sequence of ``hstu``.
        optimizer: ``dense`` and ``tables`` of ``workload.optimizer``; None: that in the backward pass of the tables.
        settings: ``KEY=VALUE`` each, such as ``workload.pipeline=sparse_dist``.
        name: name in the scenario and the model file.
        out: folder for ``scenario.yaml``, ``model.yaml``, ``tables.csv`` and ``plan.json``; None: nothing is written.

    Raises:
        InputError: the module has no tables or an unknown dense part, the plan is not one of its tables, or the folder
            holds something else.
    """
    folder, progress = None if out is None else replaceable(out), progress or Silent()
    progress.stage("reading the module")
    found = taken_over(
        what,
        plan,
        name=name,
        world_size=_ranks(cluster, nodes, world_size),
        batch_size_per_rank=batch_size_per_rank,
        constraints=constraints or {},
        pooling_factors=pooling_factors or {},
        dense=dense,
        sequences=sequences or {},
        device="cpu" if load_cluster(cluster).node.gpu is None else "cuda",
    )
    size = {"nodes": nodes} if world_size is None else {"world_size": world_size}
    data = _scenario(found, name, cluster, size, optimizer)
    document = with_settings(Document(data, {}, Path("from_torchrec")), settings)
    resolved = resolve(document)
    if folder is not None:
        with folder_written_whole(folder) as partial:
            write_job(partial, document.data, found)
    return FromTorchrecResult(folder, resolved, found.notes)


def _ranks(cluster: Name, nodes: int | None, world_size: int | None) -> int:
    """Number of ranks.

    Raises:
        InputError: neither or both of the sizes are given, or there is no such cluster.
    """
    if (nodes is None) == (world_size is None):
        raise InputError("the size is missing or given twice", expected="one of nodes and world_size")
    return world_size or (nodes or 0) * load_cluster(cluster).node.ranks


def _scenario(
    found: TakenOver, name: str, cluster: Name, size: Mapping[str, Any], optimizer: Mapping[str, str] | None
) -> dict[str, Any]:
    """Content of a scenario with model and plan written out."""
    chosen = dict(optimizer or found.optimizer)
    plan = {} if found.plan is None else {"plan": found.plan}
    sharding = found.sharding | plan
    if plan:
        sharding.pop("planner", None)
    return {
        "schema": 1,
        "name": name,
        "cluster": str(Path(cluster).absolute() if Path(cluster).is_file() else cluster),
        **size,
        "workload": {
            "model": found.model,
            "framework": FRAMEWORK,
            **({"sharding": sharding} if sharding else {}),
            **({"optimizer": chosen} if chosen else {}),
        },
        "precision": dict(PRECISION),
    }
