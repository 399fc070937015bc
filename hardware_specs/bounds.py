"""The bounded quantities that specs are made of: each has a least and a most that no machine is outside of."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from inputs.quantities import Quantity
from inputs.units import DIMENSIONS

MAX_GPUS_PER_NODE = 1024
"""Ranks of the largest node; the largest scale-up domains, which are several nodes each, have 576 GPUs."""

Name = Annotated[str, Field(min_length=1)]
Amount = Annotated[float, Quantity("bytes", 1.0)]
"""Bytes, 1 or more."""
Bandwidth = Annotated[float, Quantity("bytes_per_s", 1e3)]
"""Bytes per second; 1 kB/s is the rate of a modem of 1990."""
Share = Annotated[float, Quantity("fraction", 1e-6)]
"""A fraction above 0, at most 1."""
ComputeRate = Annotated[float, Quantity("flops_per_s", 1e6)]
"""Floating point operations per second; 1 MFLOP/s is that of a computer of 1970."""
Clock = Annotated[float, Quantity("hertz", 1e6)]
"""Hertz, from 1 MHz."""
Number = Annotated[int, Quantity("count", 1, 1e6)]
"""Number of parts: cores, SMs, nodes, links."""
PerNode = Annotated[int, Quantity("count", 1, MAX_GPUS_PER_NODE)]
"""Number of parts of a node: GPUs, sockets, NICs, switches."""
OnNode = Annotated[int, Quantity("count", 0, MAX_GPUS_PER_NODE - 1)]
"""Number of a GPU on its node, from 0."""
LEAST_RATIO, MOST_RATIO = 1e-6, 1e6
Ratio = Annotated[float, Field(ge=LEAST_RATIO, le=MOST_RATIO)]
"""A dimensionless factor above 0."""
Latency = Annotated[float, Quantity("s", 0.0, 1.0)]
"""Seconds of a message, a hop or a start: at most 1 s."""
UnitCost = Annotated[float, Quantity("s", 0.0, 1e3)]
"""Seconds of a unit of a kernel's work: a byte, a FLOP, a call."""
MeasuredTime = Annotated[float, Quantity("s", 1e-9)]
"""A measured duration, from 1 ns."""
MOST_PERCENT = 1e6
Percent = Annotated[float, Field(ge=-MOST_PERCENT, le=MOST_PERCENT)]
"""A deviation, per cent."""


def limits(kind: Any) -> tuple[float, float]:
    """Smallest and largest value of a quantity of this module, SI; a fit stays between them."""
    quantity = next((mark for mark in get_args(kind) if isinstance(mark, Quantity)), None)
    if quantity is None:
        return LEAST_RATIO, MOST_RATIO
    return quantity.least, DIMENSIONS[quantity.dimension].maximum if quantity.most is None else quantity.most


def clipped(value: float, kind: Any) -> float:
    """The value of a quantity that is closest to a fitted one, which may be outside of its limits."""
    least, most = limits(kind)
    return min(max(float(value), least), most)


class ByName:
    """Marks a part that YAML may name instead of spelling out; the JSON Schema then offers a string too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Offer the name of a shipped file or a path beside the part itself."""
        name = {"type": "string", "description": "name of a shipped file, or a path to a YAML file"}
        return {"anyOf": [name, handler(schema)]}
