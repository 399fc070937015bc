"""Modules and plans of the real TorchRec, for the tests of `trainer.torchrec`."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torchrec", reason="make test-torchrec installs it")
    import torch
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.models.dlrm import DLRM, DLRM_DCN
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection

META = torch.device("meta")
ROWS = {"users": 40_000_000, "articles": 3_000_000, "words": 123_456, "tags": 7, "shops": 9_999}
SPARSE = "sparse_arch.embedding_bag_collection"
BATCH = 512


def config(name: str, rows: int, dim: int = 64, **others) -> EmbeddingBagConfig:
    given = {"feature_names": [f"{name}_id"], **others}
    return EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, **given)


def collection(*tables: EmbeddingBagConfig, weighted: bool = False) -> EmbeddingBagCollection:
    listed = list(tables) or [config(name, rows) for name, rows in ROWS.items()]
    return EmbeddingBagCollection(tables=listed, is_weighted=weighted, device=META)


def dlrm(*tables: EmbeddingBagConfig, bottom=(32, 64), top=(16, 1)) -> DLRM:
    return DLRM(collection(*tables), 13, list(bottom), list(top), dense_device=META)


def dcn(layers: int, rank: int) -> DLRM_DCN:
    return DLRM_DCN(collection(), 13, [32, 64], [16, 1], layers, rank, dense_device=META)


def torchrec_plan(module, world_size: int, constraints=None, local_world_size: int = 8, hbm_bytes: int = 80 * 10**9):
    """A plan of TorchRec's own planner."""
    topology = Topology(
        world_size=world_size, local_world_size=local_world_size, compute_device="cuda", hbm_cap=hbm_bytes
    )
    planner = EmbeddingShardingPlanner(topology=topology, batch_size=BATCH, constraints=constraints)
    return planner.plan(module, [EmbeddingBagCollectionSharder()])
