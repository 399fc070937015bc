"""Contents of a file of arriving jobs: a cluster, a rate of arrivals, and scenarios with weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from inputs.model import Strict, problem
from inputs.quantities import Quantity, RankCount
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.arrivals.library import JOBS
from scenarios.changes import key_and_value
from scenarios.types import Seed

MAX_KINDS = 16
"""Largest number of kinds of jobs in a file: the search for sizes tries the kinds in turn."""
MAX_SIZES = 12
"""Largest number of sizes of a kind, each a simulated run: 1, 2, 4, ... 2,048 nodes are 12."""


class Deadline(Strict):
    """Longest acceptable completion times, as fractions of the time at the smallest size; uniform over the jobs."""

    low: Annotated[float, Field(gt=0, le=100)] = Field(
        description="lower end of the range, as a fraction of the time at the smallest size",
    )
    high: Annotated[float, Field(gt=0, le=100)] = Field(
        description="upper end of the range, as a fraction of the time at the smallest size",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise problem(f"the range {self.low:g} to {self.high:g} is empty", expected="low <= high")
        return self


class WaitingQueue(Strict):
    """A queue, first come, first served, for jobs that find too few free nodes."""

    longest_wait: Annotated[float, Quantity("s", 1e-3)] | None = Field(
        None, description="time after which a waiting job leaves; null: a job waits without limit"
    )


class ArrivingKind(Strict):
    """A kind of job."""

    scenario: str = Field(description="name, or path relative to this file's folder")
    set: dict[str, Any] = Field(default_factory=dict, description="dotted keys changed in the scenario")
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        1.0,
        description="relative frequency of the kind among all arrivals",
    )
    amount: Annotated[float, Field(ge=1, le=1e18)] | None = Field(
        None, description="mean amount that a job trains, in the unit of its scenario's throughput, such as images"
    )
    iterations: Annotated[float, Field(ge=1, le=1e12)] | None = Field(
        None, description="mean number of iterations instead of an amount"
    )
    length: Literal["fixed", "exponential"] = Field("fixed", description="law of the amount around its mean")
    nodes: Annotated[tuple[RankCount, ...], Field(min_length=1, max_length=MAX_SIZES)] = Field(
        description="sizes to choose from, ascending"
    )
    deadline: Deadline | None = Field(
        None,
        description="longest acceptable completion times; null: any time is acceptable",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.amount is None) == (self.iterations is None):
            raise problem("states how much a job trains twice or not at all", expected="one of amount and iterations")
        for place, (size, before) in enumerate(zip(self.nodes[1:], self.nodes, strict=False), 1):
            if size <= before:
                raise problem("the sizes do not ascend", expected=f"more than {before}", key=f"nodes[{place}]")
        return self


class JobsFile(Strict):
    """Jobs that arrive at a cluster."""

    schema_version: Literal[1] = Field(1, alias="schema", description="version of this format")
    title: str = Field("", description="title in one line")
    cluster: str = Field(description="a shipped cluster or a file; it replaces the cluster of each scenario")
    nodes: RankCount = Field(description="nodes of the cluster that jobs share")
    arrivals_per_hour: Annotated[float, Field(ge=1e-6, le=1e9)] = Field(
        description="mean arrivals of all jobs together; Poisson"
    )
    seed: Seed = Field(0, description="seed of every draw")
    simulated_jobs: Annotated[int, Field(ge=1_000, le=2_000_000)] = Field(
        20_000, description="jobs that arrive in a simulation"
    )
    queue: WaitingQueue | None = Field(
        None,
        description="waiting of jobs that find too few free nodes; null: these jobs are turned away",
    )
    jobs: Annotated[tuple[ArrivingKind, ...], Field(min_length=1, max_length=MAX_KINDS)] = Field(
        description="kinds of jobs"
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for number, kind in enumerate(self.jobs):
            for place, size in enumerate(kind.nodes):
                if size > self.nodes:
                    raise problem(
                        "larger than the cluster", expected=f"1 to {self.nodes}", key=f"jobs[{number}].nodes[{place}]"
                    )
        return self


def load_jobs(name_or_path: str | Path, settings: Sequence[str] = ()) -> tuple[Document, JobsFile]:
    """The file of jobs of a name or path, and its content with ``KEY=VALUE`` settings applied.

    Raises:
        InputError: the file does not exist, or a value in it or in a setting is wrong.
    """
    document = load_yaml(JOBS.find(name_or_path))
    for setting in settings:
        document = document.set(*key_and_value(setting))
    return document, validate(JobsFile, document)
