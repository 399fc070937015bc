"""Solving for a key: fractions, quantities with units, whole numbers."""

from __future__ import annotations

import pytest

import dlrmsim
from inputs.errors import InputError
from scenarios.solve import parse_range

READERS = (
    "workload.ingestion={reader_hosts: 1, cores_per_host: 8, decode_bytes_per_s: 0.46 MB/s}",
    "cluster=dgx_a100_80",
    "nodes=1",
    "workload.global_batch_size=4096",
)
SAMPLE_BYTES = 364
"""A sample of `mlperf_dlrm_v1`: 13 dense features of 4 bytes, 26 lengths of 4 and 26 indices of 8."""


@pytest.mark.parametrize(
    ("text", "ends", "dimension"),
    [
        ("0,1", (0.0, 1.0), None),
        ("50 GB/s,400 GB/s", (50e9, 400e9), "bytes_per_s"),
        ("1ms, 2 s", (1e-3, 2.0), "s"),
        ("800 Gb/s,0.4 TB/s", (100e9, 400e9), "bytes_per_s"),
        ("10 %,0.7", (0.1, 0.7), "fraction"),
        ("2,16", (2.0, 16.0), None),
    ],
)
def test_ranges_have_units(text: str, ends: tuple[float, float], dimension: str | None) -> None:
    found = parse_range(text)
    assert (found.low, found.high) == pytest.approx(ends)
    assert found.dimension == dimension


def test_decode_rate_behind_a_throughput() -> None:
    """Bound by readers: throughput x bytes of a sample = cores x rate of a core."""
    found = dlrmsim.solve(
        "mlperf_dlrm_v1",
        key="workload.ingestion.decode_bytes_per_s",
        between="0.1 MB/s,1 MB/s",
        throughput=1e4,
        settings=READERS,
    )
    assert found.found is not None
    assert found.found[0] == pytest.approx(1e4 * SAMPLE_BYTES / 8, rel=2e-3)
    assert found.to_dict()["unit"] == "B/s"


def test_cores_behind_a_throughput_are_a_whole_number() -> None:
    """Of whole numbers the one whose throughput is closest: 9.4 cores would give it, 9 come closer than 10."""
    wanted = 9.4 * 0.46e6 / SAMPLE_BYTES
    found = dlrmsim.solve(
        "mlperf_dlrm_v1",
        key="workload.ingestion.cores_per_host",
        between="1,64",
        throughput=wanted,
        settings=READERS,
    )
    assert found.found is not None
    assert found.found[0] == 9
    assert found.found[1] == pytest.approx(9 * 0.46e6 / SAMPLE_BYTES, rel=2e-3)


def test_a_throughput_out_of_reach_names_both_ends() -> None:
    found = dlrmsim.solve(
        "mlperf_dlrm_v1",
        key="workload.ingestion.decode_bytes_per_s",
        between="0.1 MB/s,0.2 MB/s",
        throughput=1e9,
        settings=READERS,
    )
    assert found.found is None
    assert "from 100 kB/s to 200 kB/s gives 1,000,000,000 samples/s; 100 kB/s gives" in found.nothing_found()


def test_values_that_the_key_does_not_take_are_refused() -> None:
    with pytest.raises(InputError, match="the unit is missing"):
        dlrmsim.solve(
            "mlperf_dlrm_v1",
            key="workload.ingestion.decode_bytes_per_s",
            between="1.5,2.5",
            throughput=1e6,
            settings=READERS,
        )
