"""DLRM models as people describe them: tables, bottom MLP, interaction, top MLP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from inputs.errors import nearest_name
from inputs.keys import KeyPath
from inputs.model import Strict, problem
from inputs.quantities import Quantity
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from workloads.catalogs import MODELS
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.model.hstu import Hstu
from workloads.dlrm.model.measured_rows import everywhere, with_counts
from workloads.dlrm.model.sequences import SequenceFeature, check_named, why_no_context, with_lengths
from workloads.dlrm.model.table_list import PoolingFactor, Rows, TableCount, TableGroup, Width, read_table_list
from workloads.family import Model
from workloads.graded import Graded, value_path

LayerCount = Annotated[int, Quantity("count", 1, 10_000)]
Samples = Annotated[int, Quantity("count", 1, 1e12)]
Limit = Annotated[float, Field(ge=1e-6, le=1e15)]
InteractionKind = Literal["dot", "cat", "dcnv2", "pool", "reduce", "hstu"]
DenseFeatures = Annotated[int, Quantity("count", 0, 1e6)]


class Range(Strict):
    """The smallest and the largest value."""

    low: Limit
    high: Limit

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise problem(f"the range {self.low:g} to {self.high:g} is empty", expected="low <= high")
        return self


class TablePopulation(Strict):
    """Tables of which only counts, means, ranges and the total are known.

    Each quantity has the maximum-entropy distribution with the given range and mean (see
    `workloads.dlrm.model.tables`), so that nothing is invented beside what the sources say; rows are then scaled to the
    total number of parameters. Without ``rows_range`` all tables have the same number of rows.
    """

    tables: Graded[TableCount]
    parameters: Graded[Rows]
    dim_mean: Graded[Annotated[float, Field(ge=1, le=1e6)]]
    dim_range: Graded[Range]
    pooling_mean: Graded[PoolingFactor]
    pooling_range: Graded[Range]
    rows_range: Graded[Range] | None = None
    seed: Annotated[int, Quantity("count")] = 0


class UniformMlp(Strict):
    """Bottom and top MLP of equal layers, ``width`` x ``width``: the form in which large models are published."""

    width: Graded[Width]
    bottom_layers: Graded[LayerCount]
    top_layers: Graded[LayerCount]


class Mlp(Strict):
    """Widths of the layers' outputs; the input of the bottom MLP is the number of dense features.

    Without bottom layers the dense features enter the interaction as they are. Beside a stack of HSTU layers there are
    none of them.
    """

    dense_features: Graded[DenseFeatures]
    bottom: Graded[tuple[Width, ...]]
    top: Graded[Annotated[tuple[Width, ...], Field(min_length=1)]]


class Cross(Strict):
    """DCNv2 low-rank cross layers: x <- x0 * (U V x + b) + x with V ``[rank, width]`` and U ``[width, rank]``."""

    layers: Graded[LayerCount]
    rank: Graded[Width]


class DlrmModel(Model):
    """A DLRM.

    Attributes:
        tables: the tables one by one, or
        table_list: the file that lists them (`workloads.dlrm.model.table_list`), or
        population: known statistics of the tables.
        mlp: widths of the MLPs, or
        uniform_mlp: number and width of equal layers.
        interaction: ``dot``: pairwise products of equal-length vectors, their lower triangle beside the bottom MLP's
            output; ``cat``: concatenation; ``dcnv2``: cross layers on the concatenation; ``pool``: means of
            ``pool_stride`` neighbouring elements of the concatenated pooled vectors, beside the bottom MLP's output;
            ``reduce``: the sources do not say: every pooled vector is read once and a vector as wide as the top MLP's
            input is written; ``hstu``: layers of attention over the positions of a sequence, whose candidates enter
            the top MLP.
        sequences: lengths of the sequence features that tables name.
        hstu: the layers of ``hstu``.
        cross: the cross layers of ``dcnv2``.
        pool_stride: elements that ``pool`` averages.
        index_reuse: law of row lookups: ``uniform``, the name of a measured reuse histogram, or a law
            spelled out (`workloads.dlrm.laws.index_laws`), for tables that have none of their own.
        pooling_spread: distribution of bag lengths around the pooling factors; fixed when left out.
        local_batch_size: default samples per rank and iteration.
    """

    tables: Graded[Annotated[tuple[TableGroup, ...], Field(min_length=1)]] | None = None
    table_list: Graded[str] | None = None
    population: TablePopulation | None = None
    mlp: Mlp | None = None
    uniform_mlp: UniformMlp | None = None
    interaction: Graded[InteractionKind]
    cross: Cross | None = None
    pool_stride: Graded[Width] | None = None
    sequences: dict[str, SequenceFeature] | None = None
    hstu: Hstu | None = None
    index_reuse: Graded[IndexLaw]
    pooling_spread: Graded[PoolingSpread] | None = None
    local_batch_size: Graded[Samples]

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for keys in (("tables", "table_list", "population"), ("mlp", "uniform_mlp")):
            if sum(getattr(self, key) is not None for key in keys) != 1:
                named = f"{', '.join(keys[:-1])} and {keys[-1]}"
                raise problem(f"exactly one of {named} must be given", expected=" or ".join(keys))
        for key, kind in (("cross", "dcnv2"), ("pool_stride", "pool"), ("hstu", "hstu")):
            if (getattr(self, key) is not None) != (self.interaction.value == kind):
                raise problem(f"{key} goes with interaction {kind}, and only with it", expected="both or neither")
        check_sequences(self)
        return self


def check_sequences(model: DlrmModel) -> None:
    """Check that sequences are read by a stack of HSTU layers, which has no other input.

    Raises:
        PydanticCustomError: they are not, or the stack has other inputs.
    """
    groups, given = () if model.tables is None else model.tables.value, model.sequences or {}
    if model.hstu is None:
        if given or any(group.sequence is not None for group in groups):
            message, expected = "nothing reads the vectors of a sequence", "hstu, and interaction: hstu"
            raise problem(message, expected=expected, key="interaction")
        if model.mlp is not None and model.mlp.dense_features.value == 0:
            raise problem("a DLRM has dense features", expected="1 or more", key="mlp.dense_features")
        return
    for key, name in (("sequence", model.hstu.sequence), ("context", model.hstu.context)):
        if name is not None and name not in given:
            known = f"one of sequences: {', '.join(given) or 'none is given'}"
            nearest = nearest_name(name, given)
            raise problem("a sequence without lengths", expected=known, nearest=nearest, key=f"hstu.{key}")
    if model.hstu.context is not None and (why := why_no_context(given[model.hstu.context])) is not None:
        expected = "max_length: 1, lengths: {distribution: fixed}, and no targets"
        raise problem(why, expected=expected, key=f"sequences.{model.hstu.context}")
    if model.mlp is None or model.mlp.dense_features.value or model.mlp.bottom.value:
        expected = "mlp with dense_features: 0, bottom: [], and top"
        raise problem("a stack of HSTU layers reads sequences only", expected=expected, key="mlp")
    pooled = [group.name or f"number {number}" for number, group in enumerate(groups) if group.sequence is None]
    if pooled:
        named = ", ".join(pooled[:8])
        raise problem(f"tables of an HSTU model without a sequence: {named}", expected="sequence", key="tables")


def load_model(name_or_path: str | Path, *, origin: Document | None = None, key: str = "") -> DlrmModel:
    """Read a shipped model by name or a model file by path.

    Args:
        origin: the document that names the model, for messages and relative paths.
        key: dotted key in ``origin``.

    Raises:
        InputError: no such model, or the file is wrong.
    """
    return read_model(load_yaml(MODELS.find(name_or_path, origin=origin, key=key)))


def read_model(document: Document, *, prefix: KeyPath = ()) -> DlrmModel:
    """The model that stands at ``prefix`` of a document, with its list of tables and its files of indices read in.

    Raises:
        InputError: the model, its list of tables or a file of indices is wrong.
    """
    model = validate(DlrmModel, document, prefix=prefix)
    if model.table_list is not None:
        model = _with_table_list(model, model.table_list, document, value_path(document, (*prefix, "table_list")))
    elif model.tables is not None:
        place = value_path(document, (*prefix, "tables"))
        check_named(model.tables.value, model.sequences or {}, document, place)
        groups = with_counts(model.tables.value, document, place)
        model = model.model_copy(update={"tables": model.tables.model_copy(update={"value": groups})})
    if model.sequences is not None:
        read = with_lengths(model.sequences, document, (*prefix, "sequences"))
        model = model.model_copy(update={"sequences": read})
    return with_law(model, model.index_reuse, document, value_path(document, (*prefix, "index_reuse")))


def with_law(model: DlrmModel, law: Graded[IndexLaw], document: Document, path: KeyPath) -> DlrmModel:
    """The model with a law for all tables that have none of their own.

    Args:
        law: the law, whose file is read if it names one.
        document: document that it is read from.

    Raises:
        InputError: the file is wrong, or looks up rows that a table lacks.
    """
    groups = model.tables.value if model.tables is not None else None
    law, groups = everywhere(law, groups, document, path)
    update: dict[str, object] = {"index_reuse": law}
    if model.tables is not None:
        update["tables"] = model.tables.model_copy(update={"value": groups})
    return model.model_copy(update=update)


def _with_table_list(model: DlrmModel, given: Graded[str], document: Document, path: KeyPath) -> DlrmModel:
    named = Path(given.value).expanduser()
    _, line = document.where(path)
    file = named if line is None else document.file.parent / named
    if not file.is_file():
        raise document.error(path, "no such file", given=str(named), expected="a CSV, YAML or JSON file of tables")
    provenance = given.model_dump(include={"source", "grade", "note"})
    groups = read_table_list(file)
    known = model.sequences or {}
    unknown = next((group.sequence for group in groups if group.sequence and group.sequence not in known), None)
    if unknown is not None:
        expected = f"one of sequences: {', '.join(known) or 'none is given'}"
        raise document.error(path, "a sequence feature without lengths", given=unknown, expected=expected)
    pooled = next((group.name for group in groups if group.sequence is None), None)
    if model.hstu is not None and pooled is not None:
        raise document.error(path, "a table of an HSTU model without a sequence", given=pooled, expected="sequence")
    return model.model_copy(update={"table_list": None, "tables": Graded(value=groups, **provenance)})
