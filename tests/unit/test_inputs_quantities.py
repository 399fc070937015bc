"""Quantities with units: what is accepted, to which SI value, and what is said about the rest."""

from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from inputs.errors import InputError
from inputs.model import Strict
from inputs.quantities import (
    Bytes,
    BytesPerSecond,
    Count,
    Fraction,
    Seconds,
    exact_text,
    format_quantity,
    parse_quantity,
    parse_range,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("25 GB/s", "bytes_per_s", 25e9),
        ("25GB/s", "bytes_per_s", 25e9),
        ("  25   GB/s ", "bytes_per_s", 25e9),
        ("200 Gb/s", "bytes_per_s", 25e9),
        ("200 Gbit/s", "bytes_per_s", 25e9),
        ("200 Gbps", "bytes_per_s", 25e9),
        ("1 GiB/s", "bytes_per_s", 2**30),
        ("64 MiB", "bytes", 64 * 2**20),
        ("64 MB", "bytes", 64e6),
        (4096, "bytes", 4096),
        ("4096", "bytes", 4096),
        ("3 us", "s", 3e-6),
        ("3 \u00b5s", "s", 3e-6),
        ("3 \u03bcs", "s", 3e-6),
        ("2 min", "s", 120),
        ("156 TFLOP/s", "flops_per_s", 156e12),
        ("156 TFLOPS", "flops_per_s", 156e12),
        ("624 TOP/s", "flops_per_s", 624e12),
        ("638 MFLOP", "flops", 638e6),
        ("1.41 GHz", "hertz", 1.41e9),
        ("1e3 kB", "bytes", 1e6),
        ("1_000 B", "bytes", 1000),
        (".5 s", "s", 0.5),
        (1e9, "count", 1e9),
        (0.7, "fraction", 0.7),
        ("70 %", "fraction", 0.7),
    ],
)
def test_accepted_quantities_and_their_si_values(text, dimension, value):
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        ("25", "bytes_per_s", "the unit is missing; given '25'; expected a bandwidth with a unit"),
        (25, "bytes_per_s", "the unit is missing; given 25"),
        ("25 GB", "bytes_per_s", "unknown unit 'GB'"),
        ("25 gb/s", "bytes_per_s", "did you mean '25 GB/s'?"),
        ("25 mib", "bytes", "did you mean '25 MiB'?"),
        ("3 usec", "s", "did you mean '3 us'?"),
        ("fast", "bytes_per_s", "not a quantity; given 'fast'"),
        ("", "s", "not a quantity"),
        ("_ s", "s", "not a quantity"),
        ("1" * 200 + " s", "s", "not a quantity"),
        ("1,555 GB/s", "bytes_per_s", "unknown unit ',555 GB/s'"),
        ("-1 s", "s", "impossible value; given '-1 s'; expected from 0 s to 1,000,000 s"),
        ("1e999 s", "s", "not a finite number"),
        (float("nan"), "count", "not a finite number; given .nan"),
        (float("inf"), "fraction", "not a finite number; given .inf"),
        (10**400, "count", "not a finite number"),
        (2**60, "count", "impossible value"),
        (1.5, "count", "not a whole number; given 1.5"),
        (1.2, "fraction", "impossible value; given 1.2; expected from 0 to 1"),
        ("120 %", "fraction", "expected from 0 to 1"),
        (True, "count", "not a quantity; given true"),
        (None, "s", "not a quantity"),
        ([1], "bytes", "not a quantity; given a list of 1 item"),
    ],
)
def test_refused_quantities_and_what_is_said(text, dimension, message):
    with pytest.raises(InputError) as caught:
        parse_quantity(text, dimension)
    assert message in str(caught.value)


def test_the_message_lists_the_accepted_units():
    with pytest.raises(InputError, match=r"ps, ns, us, ms, s, min, h\), such as 3 us"):
        parse_quantity("3", "s")


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (1.555e12, "bytes_per_s", "1.55 TB/s"),  # 1555 lies a hair below the middle in binary
        (3.2e-3, "s", "3.20 ms"),
        (0.0, "s", "0 s"),
        (5e-13, "s", "0.500 ps"),
        (7200.0, "s", "7,200 s"),
        (999.6e3, "bytes", "1.00 MB"),
        (999.4e3, "bytes", "999 kB"),
        (40 * 2**30, "bytes", "42.9 GB"),
        (-1500.0, "bytes", "-1.50 kB"),
        (1234567, "count", "1,234,567"),
        (0.1234, "fraction", "12.3 %"),
        (float("inf"), "s", "inf s"),
        (float("nan"), "s", "nan s"),
    ],
)
def test_format_has_three_digits_and_a_fitting_unit(value, dimension, text):
    assert format_quantity(value, dimension) == text


def test_memory_can_be_shown_in_binary_units():
    assert format_quantity(40 * 2**30, "bytes", binary=True) == "40.0 GiB"


def test_ranges():
    assert parse_range("1KiB..1GiB") == (2**10, 2**30)
    assert parse_range("64 MiB") == (2**26, 2**26)
    assert parse_range("1 us .. 1 ms", "s") == (1e-6, 1e-3)
    with pytest.raises(InputError, match="the range is empty"):
        parse_range("1GiB..1KiB")
    with pytest.raises(InputError, match="not a quantity"):
        parse_range("1KiB..")


class _Link(Strict):
    rate: BytesPerSecond
    size: Annotated[Bytes, Field(gt=0)] = 1.0
    delays: tuple[Seconds, ...] = ()
    ports: Count = 1
    share: Fraction = 1.0


def test_fields_are_si_numbers_of_the_right_python_type():
    link = _Link.model_validate({"rate": "200 Gb/s", "size": "1 MiB", "delays": ["1 us"], "ports": 1e3, "share": "5 %"})
    assert link == _Link.model_construct(rate=25e9, size=2.0**20, delays=(1e-6,), ports=1000, share=0.05)
    assert type(link.ports) is int
    assert type(link.rate) is float


def test_written_to_json_and_read_again_nothing_is_lost():
    link = _Link.model_validate({"rate": "1555.2 GB/s", "size": 3, "delays": ["0.1 us", "1e-30 s"], "share": 0.1})
    assert _Link.model_validate(link.model_dump(mode="json")) == link
    assert link.model_dump(mode="json")["rate"] == "1555200000000 B/s"
    assert exact_text(0.1, "s") == "0.1 s"


@pytest.mark.parametrize("wrong", [{"size": 0}, {"ports": "3"}, {"ports": True}, {"share": "0.5"}, {"rate": "1 s"}])
def test_fields_refuse_zero_sizes_quoted_numbers_and_foreign_units(wrong):
    with pytest.raises(ValidationError):
        _Link.model_validate({"rate": "1 B/s", **wrong})


def test_json_schema_tells_what_yaml_may_hold():
    properties = _Link.model_json_schema()["properties"]
    assert properties["rate"]["type"] == "string"
    assert properties["size"]["type"] == ["string", "number"]
    assert properties["ports"]["type"] == "integer"
    assert "25 GB/s" in properties["rate"]["description"]
