"""A rank of TorchRec on a CPU: ``python tests/torchrec_rank.py RANK RANKS STORE OUT PLAN...`` trains under each plan.

It fills every shard with `weight`, and writes what it holds, looks up and updates to OUT.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.optim import _apply_optimizer_in_backward  # noqa: E402
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # noqa: E402
from torchrec.distributed.model_parallel import DistributedModelParallel  # noqa: E402
from torchrec.models.dlrm import DLRM  # noqa: E402
from torchrec.modules.embedding_configs import EmbeddingBagConfig  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection  # noqa: E402
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor  # noqa: E402

ROWS, DIM, TABLES, POOLING, BATCH = 101, 16, 7, 3, 4


def module() -> DLRM:
    torch.manual_seed(0)
    tables = [
        EmbeddingBagConfig(name=f"table_{i}", num_embeddings=ROWS, embedding_dim=DIM, feature_names=[f"feature_{i}"])
        for i in range(TABLES)
    ]
    collection = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
    _apply_optimizer_in_backward(torch.optim.SGD, collection.parameters(), {"lr": 0.5})
    return DLRM(collection, 5, [8, DIM], [8, 1], dense_device=torch.device("cpu"))


def weight(table: int, row, column):
    """The element of a table before training."""
    return (table + 1) / 8 + row / 128 + column / 1024


def indices(rank: int) -> torch.Tensor:
    """Rows that a rank looks up ``[TABLES, BATCH, POOLING]``, each once."""
    generator = torch.Generator().manual_seed(rank)
    return torch.stack(
        [torch.randperm(ROWS, generator=generator)[: BATCH * POOLING].view(BATCH, POOLING) for _ in range(TABLES)]
    )


def shards_of(model) -> list[tuple[int, list[int], torch.Tensor]]:
    """Table, offsets and values of every shard that this rank holds."""
    found = []
    for name, value in model.state_dict().items():
        if "embedding_bags" in name:
            table = int(name.split("table_")[1].split(".")[0])
            parts = value.local_shards() if hasattr(value, "local_shards") else None
            found += (
                [(table, [0, 0], value)]
                if parts is None
                else [(table, list(part.metadata.shard_offsets), part.tensor) for part in parts]
            )
    return found


def trained(plan: str, rank: int) -> dict[str, object]:
    """Shards, pooled vectors and updates of an iteration under a plan."""
    import dlrmsim

    whole = module()
    theirs = dlrmsim.to_torchrec(plan, whole, device="cpu")
    model = DistributedModelParallel(
        whole, device=torch.device("cpu"), plan=theirs, sharders=[EmbeddingBagCollectionSharder()]
    )
    held = shards_of(model)
    with torch.no_grad():
        for table, (row, column), values in held:
            rows = torch.arange(row, row + values.shape[0]).view(-1, 1)
            columns = torch.arange(column, column + values.shape[1]).view(1, -1)
            values.copy_(weight(table, rows, columns))
    before = [values.clone() for _, _, values in held]
    looked_up = indices(rank)
    jagged = KeyedJaggedTensor(
        keys=[f"feature_{i}" for i in range(TABLES)],
        values=looked_up.flatten(),
        lengths=torch.full((TABLES * BATCH,), POOLING),
    )
    pooled = model.module.sparse_arch.embedding_bag_collection(jagged).wait()
    vectors = torch.stack([pooled[f"feature_{i}"] for i in range(TABLES)])
    expected = weight(
        torch.arange(TABLES).view(-1, 1, 1, 1), looked_up.unsqueeze(-1), torch.arange(DIM).view(1, 1, 1, -1)
    ).sum(dim=2)
    model(torch.ones(BATCH, 5), jagged).sum().backward()
    changed = {
        table: sorted(row + int(place) for place in (values != old).any(dim=1).nonzero().flatten())
        for (table, (row, _), values), old in zip(held, before, strict=True)
    }
    return {
        "shards": [[table, *offsets, *values.shape] for table, offsets, values in held],
        "error": float((vectors - expected).abs().max()),
        "changed": changed,
    }


def main() -> None:
    rank, ranks, store, out, *plans = sys.argv[1:]
    os.environ |= {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(ranks))
    found = [trained(plan, int(rank)) for plan in plans]
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
