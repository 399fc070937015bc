"""Embedding tables of a module: its EmbeddingBagCollections and EmbeddingCollections, found by introspection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from inputs.errors import InputError
from trainer.torchrec.interfaces import TorchModule

SHARDED_WHOLE = frozenset(("FeatureProcessedEmbeddingBagCollection", "ManagedCollisionEmbeddingBagCollection"))
"""Classes around a collection that TorchRec shards in its place, so that plans have their path."""

DTYPES = {"FP32": "fp32", "FP16": "fp16", "BF16": "bf16", "INT8": "int8", "NFP8": "fp8"}
"""TorchRec's ``DataType`` -> dtype of a table list."""

OPTIMIZERS = {
    "SGD": "sgd",
    "Adagrad": "adagrad",
    "RowWiseAdagrad": "rowwise_adagrad",
    "Adam": "adam",
    "PartialRowWiseAdam": "partial_rowwise_adam",
    "LAMB": "lamb",
}
"""Classes given to ``apply_optimizer_in_backward`` (torchrec/optim, torch/optim) -> ``workload.optimizer.tables``."""


@dataclass(frozen=True, slots=True)
class BagTable:
    """An embedding table as its ``EmbeddingBagConfig`` or ``EmbeddingConfig`` describes it.

    Attributes:
        dim: elements per row.
        features: names of the features that are looked up in it; each feature gives a pooled vector, or one for each
            index of a sequence.
        dtype: element type in dlrmsim's words.
        pooling: ``sum`` or ``mean``.
        weighted: whether every index has a weight.
        optimizer: class of the optimizer in its backward pass; None without one.
        unpooled: whether it is of an EmbeddingCollection, whose vectors are not pooled.
    """

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    dtype: str
    pooling: str
    weighted: bool
    optimizer: str | None
    unpooled: bool = False


@dataclass(frozen=True, slots=True)
class BagCollection:
    """The tables of a collection; ``path``: of the module that TorchRec shards."""

    path: str
    tables: tuple[BagTable, ...]


def collections_of(module: TorchModule, *, unpooled: bool = False) -> tuple[BagCollection, ...]:
    """All EmbeddingBagCollections of a module, in its order.

    Args:
        unpooled: whether its EmbeddingCollections are among them.

    Raises:
        InputError: it has none, two tables have one name, or a table's element type is unknown.
    """
    listing = ("embedding_bag_configs", *(["embedding_configs"] if unpooled else []))
    found: list[BagCollection] = []
    around: list[str] = []
    for path, part in module.named_modules():
        outer = next((place for place in around if _within(path, place)), path)
        if type(part).__name__ in SHARDED_WHOLE:
            around.append(path)
        configs = next((getattr(part, name) for name in listing if callable(getattr(part, name, None))), None)
        if configs is not None and not any(_within(path, other.path) for other in found):
            found.append(BagCollection(outer, tuple(_table(part, config) for config in configs())))
    if not found:
        raise InputError(
            f"the module has no {'collection of embeddings' if unpooled else 'EmbeddingBagCollection'}",
            given=type(module).__name__,
            expected="a module before DistributedModelParallel shards it",
        )
    names = Counter(table.name for collection in found for table in collection.tables)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise InputError("two tables have one name", given=twice, expected="a name of its own for each table")
    return tuple(found)


def unpooled_paths(module: TorchModule) -> tuple[str, ...]:
    """Paths of EmbeddingCollections, whose tables give a vector for each index."""
    return tuple(path for path, part in module.named_modules() if type(part).__name__ == "EmbeddingCollection")


def _within(path: str, outer: str) -> bool:
    return outer in {path, ""} or path.startswith(f"{outer}.")


def _table(collection: Any, config: Any) -> BagTable:
    """A table of a collection.

    Raises:
        InputError: dlrmsim does not know its element type.
    """
    dtype, pooling = str(config.data_type), getattr(config, "pooling", None)
    if dtype not in DTYPES:
        raise InputError(f"the data type of {config.name} is unknown", given=dtype, expected=", ".join(DTYPES))
    return BagTable(
        name=config.name,
        rows=int(config.num_embeddings),
        dim=int(config.embedding_dim),
        features=tuple(config.feature_names),
        dtype=DTYPES[dtype],
        pooling=str(getattr(pooling, "value", "sum")).lower(),
        weighted=bool(collection.is_weighted()) if callable(getattr(collection, "is_weighted", None)) else False,
        optimizer=_optimizer(collection, config.name),
        unpooled=not callable(getattr(collection, "embedding_bag_configs", None)),
    )


def _optimizer(collection: Any, table: str) -> str | None:
    """Class of the optimizer that ``apply_optimizer_in_backward`` gave a table."""
    bags = getattr(collection, "embedding_bags", None) or getattr(collection, "embeddings", None)
    if bags is None or table not in bags:
        return None
    classes = getattr(bags[table].weight, "_optimizer_classes", [])
    return classes[0].__name__ if classes else None
