"""A DLRM scenario's own keys, resolved: laws and the plan inlined, defaults of the framework filled."""

from __future__ import annotations

from hardware_specs import Cluster
from inputs.keys import KeyPath
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.dlrm.schedule import check_overlap, with_framework_defaults, with_framework_hybrid
from scenarios.dlrm.section import DlrmScenario, DlrmSection, Sharding
from scenarios.dlrm.sequences import check_sequences, with_sequence_lengths
from scenarios.family import Asked, Filled
from scenarios.shared_keys import beside, plain
from scenarios.types import Placement
from workloads.dlrm.model.choices import DenseStrategies
from workloads.dlrm.model.model import DlrmModel, with_law
from workloads.dlrm.sharding import PlanFile
from workloads.graded import Graded
from workloads.graph.framework import Framework

DEFAULT_PLANNER = "greedy"
PLAN: KeyPath = ("workload", "sharding", "plan")
PLANNER: KeyPath = ("workload", "sharding", "planner")
DENSE: KeyPath = ("workload", "dense")
PLACEMENT: KeyPath = ("placement",)
MODE: KeyPath = ("workload", "mode")
UPDATE: KeyPath = ("workload", "embedding_update")


def fill(asked: Asked[DlrmModel, DlrmScenario]) -> Filled[DlrmModel]:
    """Fill the section ``workload`` of a DLRM; see `scenarios.family.Family.fill`."""
    document, chosen, framework = asked.document, asked.scenario.workload, asked.framework
    model = _with_laws(document, asked.scenario, asked.model)
    check_overlap(document, chosen)
    _check_update(document, chosen, asked.cluster)
    _check_dense(asked)
    check_sequences(asked)
    if chosen.time_to_target is not None and chosen.mode == "eval":
        expected = "train; time_to_target adds evaluations to it"
        raise document.error(MODE, "an evaluation has no target to train for", given="eval", expected=expected)
    sharding, place = _read_sharding(document, asked.scenario, framework)
    section = with_framework_hybrid(chosen, framework, model, asked.world_size)
    section = with_framework_defaults(section, framework).model_copy(
        update={"sharding": sharding, "indices": None, "pooling_spread": None, "sequence_lengths": None}
    )
    batch = chosen.global_batch_size or int(model.local_batch_size.value) * asked.world_size
    return Filled(section, model, batch, {PLAN: place})


def _check_update(document: Document, chosen: DlrmSection, cluster: Cluster) -> None:
    """Refuse ways to update rows on GPUs and on hosts that were measured: both have their own.

    Raises:
        InputError: the scenario names one.
    """
    node = cluster.node
    if chosen.embedding_update is None or (node.gpu is None and not node.cpu.kernels):
        return
    ranks = "GPUs" if node.gpu is not None else "hosts that were measured"
    raise document.error(
        UPDATE,
        f"{ranks} update rows in one way",
        given=chosen.embedding_update,
        expected="nothing, or a cluster of CPU sockets such as xeon_8280_opa",
    )


def why_undivided(
    dense: DenseStrategies, cluster: Cluster, framework: Framework, placement: Placement, world_size: int
) -> tuple[KeyPath, str] | None:
    """Key and reason if the job cannot have these strategies of dense layers; None if it can."""
    if dense.plain:
        return None
    if cluster.node.gpu is None:
        return DENSE, "dense layers are divided among GPUs, and the cluster has CPUs"
    if framework.bottom_on_first_rank:
        return DENSE, f"{framework.name} computes the bottom MLP on the first rank"
    local = min(cluster.node.ranks, world_size)
    here = [strategies.on(local, world_size // local) for strategies in (dense.bottom, dense.top)]
    if placement != "block" and any(strategies.node != strategies.between for strategies in here):
        return PLACEMENT, "strategies of dense layers within a node need consecutive ranks on each node"
    return None


def _check_dense(asked: Asked[DlrmModel, DlrmScenario]) -> None:
    """Refuse divided dense layers for jobs that cannot have them.

    Raises:
        InputError: the job cannot have the strategies of the scenario.
    """
    dense, placement = asked.scenario.workload.dense or DenseStrategies(), asked.scenario.placement
    found = why_undivided(dense, asked.cluster, asked.framework, placement, asked.world_size)
    if found is None:
        return
    key, why = found
    if key == PLACEMENT:
        raise asked.document.error(key, why, given=placement, expected="block, or equal strategies on both levels")
    given = " and ".join(strategies.in_words() for strategies in (dense.bottom, dense.top))
    raise asked.document.error(key, why, given=given, expected="ddp on both levels, or no such key")


def _with_laws(document: Document, scenario: DlrmScenario, model: DlrmModel) -> DlrmModel:
    """The model with the laws of indices and bag lengths that the scenario asks for."""
    workload, assumed = scenario.workload, {"source": "the scenario", "grade": "assumed"}
    if workload.indices is not None:
        model = with_law(model, Graded(value=workload.indices, **assumed), document, ("workload", "indices"))
    if workload.pooling_spread is not None:
        model = model.model_copy(update={"pooling_spread": Graded(value=workload.pooling_spread, **assumed)})
    return with_sequence_lengths(model, workload.sequence_lengths, document)


def _read_sharding(
    document: Document, scenario: DlrmScenario, framework: Framework
) -> tuple[Sharding, tuple[Document, KeyPath]]:
    """The sharding with its plan file read, or with the default planner; and where the plan stands."""
    sharding = scenario.workload.sharding
    if sharding.planner is not None and sharding.plan is not None:
        raise document.error(PLAN, "given together with planner", expected="one of planner and plan")
    if sharding.plan is None:
        own = framework.planner.value if framework.planner is not None else DEFAULT_PLANNER
        return sharding.model_copy(update={"planner": sharding.planner or own}), (document, PLAN)
    place: tuple[Document, KeyPath] = (document, PLAN)
    if isinstance(sharding.plan, str):
        place = (load_yaml(beside(document, PLAN, sharding.plan)), ())
    return sharding.model_copy(update={"plan": plain(validate(PlanFile, place[0], prefix=place[1]))}), place
