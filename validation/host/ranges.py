"""Ranges of the numbers in record files: what no machine and no measurement is outside of."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MOST = 1e15
"""Largest size or count, far beyond any machine's memory."""
LONGEST_S = 1e4
"""Longest time, seconds; a calibration takes minutes."""
SHORTEST_S = 1e-9
"""Shortest time of something that was timed, seconds."""

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
Size: TypeAlias = Annotated[float, msgspec.Meta(ge=1.0, le=MOST)]
"""Bytes."""
Clock: TypeAlias = Annotated[float, msgspec.Meta(ge=1e6, le=1e12)]
"""Hertz."""
Cores: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1024)]
"""Number of cores, or of ranks, of a node."""
Duration: TypeAlias = Annotated[float, msgspec.Meta(ge=SHORTEST_S, le=LONGEST_S)]
"""A measured time, seconds."""
Part: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=LONGEST_S)]
"""Part of a time, seconds."""
Difference: TypeAlias = Annotated[float, msgspec.Meta(ge=-1.0, le=LONGEST_S)]
"""Difference of two clocks, seconds: it falls a little below zero."""
Fraction: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
