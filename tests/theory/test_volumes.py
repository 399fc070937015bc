"""Volumes of communication: the formulas, the sizes that Kalamkar et al. (SC 2020) print, and the recorded calls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from simulator.collective_calls import CollectiveCall
from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.volumes import volumes
from workloads.dlrm.model.choices import SINGLE_PRECISION
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.sharding import make_sharding_plan

MIB = 2**20
PUBLISHED = [
    ("cpu_dlrm_small", 8, 8192, 9.533, 16.0),
    ("cpu_dlrm_large", 64, 16384, 1046.8, 1024.0),
    ("mlperf_dlrm_v1", 26, 16384, 9.037, 208.0),
]


def planned(name, ranks, batch):
    settings = replace(settings_for(name, ranks, pipeline="none"), global_batch_size=batch, precision=SINGLE_PRECISION)
    model = load_model(name)
    tables = expand_tables(model, "fp32")
    plan = make_sharding_plan("greedy_size", tables, context_for(tables, settings, memory_bytes=1e12))
    return model, plan, settings


@pytest.mark.parametrize(("name", "ranks", "batch", "summed_mib", "exchanged_mib"), PUBLISHED)
def test_the_volumes_are_the_published_ones(name, ranks, batch, summed_mib, exchanged_mib):
    """4 x sum over layers (in x out + out); 4 x tables x global batch x dim, also for the uneven shares of 26 ranks."""
    found = volumes(*planned(name, ranks, batch))
    model = load_model(name)
    widths = [(model.mlp.dense_features.value, *model.mlp.bottom.value)]
    tables = expand_tables(model, "fp32")
    vectors, dim = tables.feature_count + 1, int(tables.dim[0])
    widths.append((vectors * (vectors - 1) // 2 + dim, *model.mlp.top.value))
    parameters = sum(a * b + b for width in widths for a, b in pairwise(width))

    assert found.all_reduce_bytes == 4 * parameters
    assert found.all_reduce_bytes / MIB == pytest.approx(summed_mib, abs=0.05 if summed_mib > 100 else 0.0005)
    assert found.all_to_all_bytes == 4 * len(tables) * batch * dim
    assert found.all_to_all_bytes / MIB == exchanged_mib


def test_the_volumes_are_those_of_the_recorded_calls():
    model, plan, settings = planned("cpu_dlrm_small", 8, 8192)
    program = generate(model, plan, settings).programs[0]
    pairs = [pair for pair in zip(program.work, program.sections, strict=True) if isinstance(pair[0], CollectiveCall)]
    summed = sum(work.bytes for work, section in pairs if section == "gradient_all_reduce")
    exchanged = sum(np.broadcast_to(w.bytes, 8).sum() for w, section in pairs if section == "embedding_forward")
    returned = sum(np.broadcast_to(w.bytes, 8).sum() for w, section in pairs if section == "embedding_backward")

    assert volumes(model, plan, settings) == (summed, exchanged)
    assert returned == exchanged
