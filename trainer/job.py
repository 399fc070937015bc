"""The job of a rank: the resolved scenario that it shares with the simulator, read from the same file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from inputs.keys import KeyPath
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.dlrm.section import DlrmScenario
from simulator.precisions import QUANTISED
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.model import DlrmModel, load_model, read_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import plan_from_dict
from workloads.dlrm.sharding.plan_file import PlanFile
from workloads.graph.framework import Framework, Pipeline, load_framework
from workloads.graph.optimizers import DENSE_STATE, STATE_BYTES, DenseOptimizerKind, TableOptimizerKind, state_elements

PLAN: KeyPath = ("workload", "sharding", "plan")
TRAINED_DENSE: tuple[DenseOptimizerKind, ...] = ("sgd", "adagrad")
TRAINED_TABLES: tuple[TableOptimizerKind, ...] = ("sgd", "adagrad", "rowwise_adagrad")
"""Optimizers of `trainer.optimizers`."""

TRAINED_PRECISIONS = ("fp32", "fp16", "bf16")
"""Number formats in which PyTorch's embedding_bag takes weights."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job as every rank sees it.

    Attributes:
        scenario: the resolved scenario.
        job: plan, settings, layers and gradient buckets, as the simulator's generator has them.
        table_precision: number format of each table's weights ``[N]``.
    """

    scenario: DlrmScenario
    model: DlrmModel
    job: Job
    table_precision: tuple[str, ...]

    @property
    def plan(self) -> Plan:
        """Placement of all parts of tables."""
        return self.job.plan

    @property
    def settings(self) -> DlrmSettings:
        """Ranks, batch, precisions, optimizers."""
        return self.job.settings

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.settings.world_size

    @property
    def local_batch_size(self) -> int:
        """Samples per rank and iteration."""
        return self.settings.local_batch_size

    @property
    def seed(self) -> int:
        """Seed of the data and of the first weights."""
        return self.scenario.variation.seed

    @property
    def table_of_feature(self) -> tuple[int, ...]:
        """Table that each feature is looked up in, those of a table one after the other ``[K]``."""
        features = self.plan.tables.features
        return tuple(np.repeat(np.arange(len(features)), features).tolist())


def read_job(file: Path) -> TrainingJob:
    """Read a resolved scenario that has its sharding plan written out, as ``dlrmsim measure`` writes it.

    Raises:
        InputError: it is no scenario, has no plan, or asks for something that PyTorch does not train.
    """
    document = load_yaml(file)
    scenario = validate(DlrmScenario, document)
    model, framework = _model(document, scenario), _framework(document, scenario)
    if model.hstu is not None:
        expected = "a model without sequences"
        raise document.error(
            ("workload", "model"), "the trainer has pooled lookups and MLPs only", given=model.name, expected=expected
        )
    if not isinstance(scenario.workload.sharding.plan, dict):
        raise document.error(PLAN, "the trainer needs the plan itself", expected="a plan written out")
    _check_optimizers(document, scenario)
    precision = _table_precision(document, scenario, model)
    plan = _plan(document, validate(PlanFile, document, prefix=PLAN), expand_tables(model, scenario.precision.tables))
    batch = scenario.workload.global_batch_size or int(model.local_batch_size.value) * plan.world_size
    _check_batch(document, batch, plan.world_size)
    _check_schedule(document, scenario)
    _check_wires(document, scenario)
    _check_overlaps(document, scenario, framework)
    settings = DlrmSettings(
        world_size=plan.world_size,
        local_world_size=plan.local_world_size,
        global_batch_size=batch,
        framework=framework,
        precision=scenario.precision,
        optimizer=scenario.workload.optimizer,
        pipeline=scenario.workload.pipeline or framework.own_pipeline,
        indices=make_law(model.index_reuse.value),
        seed=scenario.variation.seed,
    )
    return TrainingJob(
        scenario=scenario,
        model=model,
        job=make_job(model, plan, settings),
        table_precision=precision,
    )


def weight_bytes(job: Job) -> float:
    """Bytes that all ranks together hold: weights and optimizer state of tables, dense part and its gradients."""
    tables, shards, optimizer = job.plan.tables, job.plan.shards(), job.settings.optimizer
    weights = shards.rows * shards.dim * tables.element_bytes[shards.table]
    state = state_elements(optimizer.tables, shards.rows, shards.dim) * STATE_BYTES
    sharded = np.sum((weights + state)[~np.isin(shards.table, job.plan.data_parallel)])
    on_all_ranks = job.copied_bytes * (2 + DENSE_STATE[optimizer.dense])
    return float(sharded + job.settings.world_size * on_all_ranks)


def _check_optimizers(document: Document, scenario: DlrmScenario) -> None:
    chosen = scenario.workload.optimizer
    for key, given, trained in (("dense", chosen.dense, TRAINED_DENSE), ("tables", chosen.tables, TRAINED_TABLES)):
        if given not in trained:
            path = ("workload", "optimizer", key)
            raise document.error(
                path, "the trainer does not have this optimizer", given=given, expected=f"one of {', '.join(trained)}"
            )


TRAINED_PIPELINES: tuple[Pipeline, ...] = ("none", "sparse_dist")


def _check_batch(document: Document, batch: int, world_size: int) -> None:
    """Refuse uneven shares: every rank of the trainer draws a batch of the same size."""
    if batch % world_size:
        below = batch - batch % world_size
        fitting = f"{below} or {below + world_size}" if below else str(world_size)
        raise document.error(
            ("workload", "global_batch_size"),
            f"the {world_size} ranks of the reference trainer cannot share the batch evenly",
            given=batch,
            expected=f"a multiple of {world_size}, e.g. {fitting}",
        )


def _check_schedule(document: Document, scenario: DlrmScenario) -> None:
    """Refuse settings that the trainer does not support."""
    workload = scenario.workload
    if workload.pipeline is not None and workload.pipeline not in TRAINED_PIPELINES:
        raise document.error(
            ("workload", "pipeline"),
            "the trainer does not have this pipeline",
            given=workload.pipeline,
            expected=" or ".join(TRAINED_PIPELINES),
        )
    if workload.mode == "eval":
        raise document.error(("workload", "mode"), "the trainer trains", given="eval", expected="train")
    if workload.hybrid_embedding is not None:
        raise document.error(("workload", "hybrid_embedding"), "the trainer has no hybrid embedding", expected="none")
    if workload.dense is not None and not workload.dense.plain:
        raise document.error(("workload", "dense"), "the trainer copies dense layers on every rank", expected="none")
    if workload.cuda_graph not in (None, "none"):
        raise document.error(
            ("workload", "cuda_graph"), "the trainer launches every kernel", given=workload.cuda_graph, expected="none"
        )
    if scenario.precision.dense == "fp8":
        raise document.error(
            ("precision", "dense"),
            "the trainer does not compute in fp8",
            given="fp8",
            expected="fp32, tf32, fp16 or bf16",
        )
    if workload.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            "the trainer updates after every pass",
            given=workload.gradient_accumulation,
            expected="1",
        )


def _check_wires(document: Document, scenario: DlrmScenario) -> None:
    """Refuse exchanges in 8 bits."""
    for wire in ("forward_all_to_all", "backward_all_to_all", "all_reduce"):
        given = getattr(scenario.precision, wire)
        if given in QUANTISED:
            raise document.error(
                ("precision", wire), "the trainer sends nothing in 8 bits", given=given, expected="fp32, fp16 or bf16"
            )


def _check_overlaps(document: Document, scenario: DlrmScenario, framework: Framework) -> None:
    """Refuse iterations in which something else runs beside something than in the trainer's."""
    chosen = scenario.workload.overlap
    for key, given, own, done in (
        ("exchange", chosen.exchange, framework.overlap_exchange.value, True),
        ("all_reduce", chosen.all_reduce, framework.overlap_all_reduce.value, True),
        ("weight_gradients", chosen.weight_gradients, framework.overlap_weight_gradients.value, False),
    ):
        resolved = own if given is None else given
        if resolved is not done:
            raise document.error(
                ("workload", "overlap", key), "the trainer does not do this", given=resolved, expected=str(done).lower()
            )


def _plan(document: Document, file: PlanFile, tables: Tables) -> Plan:
    """The plan, if the trainer has the exchanges for all of it.

    Raises:
        InputError: tables are cut by rows within one of several nodes, or not in the memory of the device.
    """
    local_world_size = file.local_world_size or file.world_size
    plan = plan_from_dict(file.model_dump(mode="json"), tables, file.world_size, local_world_size)
    if len(plan.nodes) and local_world_size not in (1, file.world_size):
        raise document.error(
            PLAN,
            "the trainer does not cut rows within one of several nodes",
            given=", ".join(sorted({"table_row_wise", "grid_shard"} & set(plan.sharding_types))),
            expected="all ranks on one node, or other sharding types",
        )
    kernels = set(plan.compute_kernels) - {"fused", "dense"}
    if kernels:
        raise document.error(
            PLAN, "the trainer keeps all tables on the device", given=", ".join(sorted(kernels)), expected="fused"
        )
    return plan


def _model(document: Document, scenario: DlrmScenario) -> DlrmModel:
    given = scenario.workload.model
    if isinstance(given, str):
        return load_model(given, origin=document, key="workload.model")
    return read_model(document, prefix=("workload", "model"))


def _framework(document: Document, scenario: DlrmScenario) -> Framework:
    given = scenario.workload.framework
    if isinstance(given, str):
        return load_framework(given, origin=document, key="workload.framework")
    return validate(Framework, document, prefix=("workload", "framework"))


def _table_precision(document: Document, scenario: DlrmScenario, model: DlrmModel) -> tuple[str, ...]:
    """Number format of each table; `workloads.dlrm.model.tables` keeps its size only."""
    default = scenario.precision.tables
    if model.tables is None:
        count = model.population.tables.value if model.population else 0
        return (default,) * count
    given = tuple(group.precision or default for group in model.tables.value for _ in range(group.count))
    wrong = sorted(set(given) - set(TRAINED_PRECISIONS))
    if wrong:
        raise InputError(
            "the trainer has no tables of this precision",
            file=document.file,
            key="workload.model.tables",
            given=wrong[0],
            expected=", ".join(TRAINED_PRECISIONS),
        )
    return given
