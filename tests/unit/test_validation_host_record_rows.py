"""A record with a wrong value anywhere is refused with the file and the place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from inputs.errors import InputError
from validation.host.record import HostRecord

SHIPPED = Path(__file__).parents[2] / "validation/hosts/zen5_2_cores.record.json.gz"


@pytest.fixture(scope="module")
def found():
    return json.loads(gzip.decompress(SHIPPED.read_bytes()))


def changed(found, place, value) -> bytes:
    content = json.loads(json.dumps(found | {"rows": found["rows"][:900:100], "jobs": found["jobs"][:1]}))
    holder = content
    for step in place[:-1]:
        holder = holder[step]
    if value is KeyError:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return gzip.compress(json.dumps(content).encode())


@pytest.mark.parametrize("value", [KeyError, None, "x", [], {}, float("nan"), float("inf"), -5, 1e18])
@pytest.mark.parametrize(
    "place", [("rows", 0, "m"), ("rows", 0, "times_s"), ("rows", 0, "ranks"), ("facts", "cores"), ("facts", "clock_hz")]
)
def test_a_wrong_value_is_refused_with_its_place(found, place, value):
    with pytest.raises(InputError) as error:
        HostRecord.unpacked(changed(found, place, value), Path("h.record.json.gz"))
    assert "h.record.json.gz" in str(error.value)


def test_the_shipped_record_is_read(found):
    assert len(HostRecord.read("zen5_2_cores").rows) == len(found["rows"])
