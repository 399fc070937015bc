"""``python -m benchmarks planning --against torchrec [--sets N] [--seed S]``: TorchRec's planner and ours.

Each set has 32 to 128 tables on 8 to 64 ranks. All plans are run like any scenario, TorchRec's as
it is. `make test-torchrec` installs TorchRec.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planning import CLUSTERS, DIMS, model_of_tables, planned, simulated_s
from benchmarks.rows import Row
from inputs.yaml_lines import Document
from scenarios.capacity import capacities_bytes
from scenarios.resolve import ResolvedScenario, resolve
from trainer.torchrec.plan_entries import plan_entries

RANKS = (8, 16, 32, 64)
TABLES = (32, 128)
"""Fewest and most tables: TorchRec's planner takes minutes for several hundred on 64 ranks."""
ROWS = (1e3, 4e7)
"""Least and most rows of a table, drawn log-uniformly."""
POOLING = {"dlrm_datasets_2021": 29.0, "dlrm_datasets_2022": 55.0}
"""Histogram of reuse -> largest pooling factor, drawn log-uniformly from 1 on: their means are those of the batches in
facebookresearch/dlrm_datasets, 468,084,223 lookups of 856 tables and 65,536 samples (8.3), 1,405,163,864 of 788 and
131,072 (13.6). Rows of each table are not published."""

OURS = ("greedy", "search")
THEIRS = ("defaults", "cluster")
"""TorchRec's planner with the bandwidths that it assumes, and with those of the cluster."""


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """Plans of one set of tables.

    Attributes:
        seconds: iteration time with the plan of each planner; infinite where none fits.
        cpu_s: processor time of planning.
    """

    scenario: ResolvedScenario
    tables: int
    seconds: Mapping[str, float]
    cpu_s: Mapping[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """Iteration time with TorchRec's plan over that with ours, by both names."""
        return {
            f"{theirs}_over_{ours}": self.seconds[theirs] / self.seconds[ours] for theirs in THEIRS for ours in OURS
        }


def rows(sets: int, seed: int, *, table: bool) -> Iterator[Row]:
    """Ratios on each set, their median, least and largest, and processor time; ``table``: print them as Markdown."""
    found = []
    for number in range(sets):
        compared = compared_set(number, seed)
        found.append(compared)
        for name, ratio in compared.ratios.items():
            yield Row(f"set_{number}_{name}", ratio, "x")
    for name in found[0].ratios if found else ():
        ratios = [compared.ratios[name] for compared in found]
        yield Row(f"planning_median_{name}", float(np.median(ratios)), "x")
        yield Row(f"planning_least_{name}", min(ratios), "x")
        yield Row(f"planning_largest_{name}", max(ratios), "x")
    for name in (*THEIRS, *OURS) if found else ():
        yield Row(f"planning_longest_cpu_{name}", max(compared.cpu_s[name] for compared in found), "s")
    if table:
        print(markdown(found))


def compared_set(number: int, seed: int) -> ComparedSet:
    """Plans of all planners for one set."""
    scenario, tables = drawn_scenario(number, seed)
    seconds, cpu_s = {}, {}
    for name in (*THEIRS, *OURS):
        begin = time.process_time()
        plan = planned(scenario, name) if name in OURS else torchrec_plan(scenario, tables, own=name == "cluster")
        cpu_s[name] = time.process_time() - begin
        seconds[name] = simulated_s(scenario, plan)
    return ComparedSet(scenario, len(tables), seconds, cpu_s)


def drawn_scenario(number: int, seed: int) -> tuple[ResolvedScenario, list[dict[str, Any]]]:
    """A job and its tables; worlds, clusters and years come in turn, everything else is drawn."""
    draw = np.random.Generator(np.random.PCG64([seed, number]))
    ranks, reuse = RANKS[number % len(RANKS)], list(POOLING)[number // 2 % len(POOLING)]
    low, high = np.log10(ROWS)
    tables = [
        {
            "name": f"table_{i}",
            "rows": int(10 ** draw.uniform(low, high)),
            "dim": int(draw.choice(DIMS)),
            "pooling_factor": round(float(POOLING[reuse] ** draw.uniform()), 2),
        }
        for i in range(int(draw.integers(TABLES[0], TABLES[1] + 1)))
    ]
    data = {
        "name": f"dlrm_datasets_{seed}_{number}",
        "cluster": CLUSTERS[number % len(CLUSTERS)],
        "world_size": ranks,
        "workload": {
            "model": model_of_tables(tables, width=int(draw.choice([256, 512, 1024])), index_reuse=reuse),
            "global_batch_size": ranks * int(draw.choice([512, 1024, 2048])),
            "pipeline": str(draw.choice(["none", "sparse_dist"])),
        },
    }
    return resolve(Document(data, {}, Path("benchmark"))), tables


def torchrec_plan(scenario: ResolvedScenario, tables: list[dict[str, Any]], *, own: bool) -> dict[str, Any] | None:
    """The plan of TorchRec's planner for the job, as a plan file; None when it finds none.

    Args:
        own: whether it gets the bandwidths of the cluster in place of its own figures.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
        from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
        from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
        from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig
        from torchrec.modules.embedding_modules import EmbeddingBagCollection

        logging.disable(logging.WARNING)  # it logs every argument
        configs = [
            EmbeddingBagConfig(
                name=table["name"],
                num_embeddings=table["rows"],
                embedding_dim=table["dim"],
                feature_names=[table["name"]],
                data_type=DataType.FP16,  # the precision of tables that scenarios have by default
            )
            for table in tables
        ]
        constraints = {
            table["name"]: ParameterConstraints(
                pooling_factors=[table["pooling_factor"]],
                compute_kernels=["fused", "dense"],  # ours keep tables in device memory, too
            )
            for table in tables
        }
        world_size, node = scenario.world_size, scenario.cluster.node
        topology = Topology(
            world_size=world_size,
            local_world_size=min(world_size, node.ranks),
            compute_device="cuda",
            hbm_cap=int(capacities_bytes(scenario.cluster, world_size)["hbm"]),
            **(bandwidths(scenario) if own else {}),
        )
        batch = scenario.global_batch_size // world_size
        module = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
        planner = EmbeddingShardingPlanner(topology=topology, batch_size=batch, constraints=constraints)
        try:
            found = planner.plan(module, [EmbeddingBagCollectionSharder()])
        except PlannerError:
            return None
    return plan_entries(found, world_size)[0]


def bandwidths(scenario: ResolvedScenario) -> dict[str, float]:
    """Bandwidths of the cluster as ``Topology`` takes them, bytes per millisecond."""
    node = scenario.cluster.node
    gpu, nics, scale_up = node.gpu, node.nics, node.scale_up
    if gpu is None or nics is None or scale_up is None:
        return {}
    rates = {
        "hbm_mem_bw": gpu.memory_bytes_per_s.value,
        "intra_host_bw": scale_up.bytes_per_s.value,
        "inter_host_bw": nics.nic.bytes_per_s.value * nics.count.value / node.ranks,
    }
    return {name: rate / 1e3 for name, rate in rates.items()}


def markdown(found: list[ComparedSet]) -> str:
    """A row for each set, then the median and the least."""
    names = list(found[0].ratios)
    head = ["cluster", "ranks", "tables", "greedy", *(name.replace("_over_", " / ") for name in names)]
    lines = [head, ["---"] * len(head)]
    for compared in found:
        scenario = compared.scenario
        size = [scenario.cluster.name, str(scenario.world_size), str(compared.tables)]
        lines.append([*size, _shown_ms(compared.seconds["greedy"]), *(_shown(compared.ratios[name]) for name in names)])
    for label, of in (("median", np.median), ("least", np.min), ("largest", np.max)):
        lines.append([label, "", "", "", *(_shown(float(of([c.ratios[name] for c in found]))) for name in names)])
    cpu = "; ".join(f"{name} {np.median([c.cpu_s[name] for c in found]):.2g} s" for name in (*THEIRS, *OURS))
    return "\n".join([*("| " + " | ".join(line) + " |" for line in lines), "", f"Processor time, median: {cpu}."])


def _shown(ratio: float) -> str:
    return f"{ratio:.2f}" if math.isfinite(ratio) else "does not fit"


def _shown_ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if math.isfinite(seconds) else "does not fit"
