"""Samples that a training job needs to reach its target, and its evaluations on the way."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Self

from pydantic import Field, model_validator

from inputs.model import Strict, problem
from inputs.quantities import Quantity

TargetSamples = Annotated[int, Quantity("count", 1, 1e18)]


class TimeToTarget(Strict):
    """A job to its target: training, with passes over the samples of an evaluation in between."""

    samples: TargetSamples = Field(description="samples trained until the target is met")
    evaluation_samples: TargetSamples | None = Field(
        None, description="samples of an evaluation, a forward pass of each (default: there are no evaluations)"
    )
    evaluate_every: TargetSamples | None = Field(
        None, description="samples trained between two evaluations (default: one evaluation, at the end)"
    )

    @model_validator(mode="after")
    def _evaluations_of_samples(self) -> Self:
        if self.evaluate_every is not None and self.evaluation_samples is None:
            what, expected = "evaluations without samples", "evaluation_samples, or no evaluate_every"
            raise problem(what, expected=expected, key="evaluate_every")
        return self

    @property
    def evaluations(self) -> int:
        """Number of evaluations; the last one finds the target met."""
        if self.evaluation_samples is None:
            return 0
        return 1 if self.evaluate_every is None else ceil(self.samples / self.evaluate_every)

    def iterations(self, batch: int) -> int:
        """Number of training iterations of ``batch`` samples."""
        return ceil(self.samples / batch)

    def evaluation_iterations(self, batch: int) -> int:
        """Number of iterations of one evaluation, of ``batch`` samples each."""
        return ceil((self.evaluation_samples or 0) / batch)
