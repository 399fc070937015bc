"""Packed integer columns: what goes in comes out, and what a page could not hold exactly is refused."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.columns import encode_integers

EXACT = 2**53


def decode(text: str) -> list[int]:
    """The inverse, written from the format's definition: zlib, LEB128, zigzag, running sum."""
    values, coded, shift, previous = [], 0, 0, 0
    for byte in zlib.decompress(base64.b64decode(text)):
        coded |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            previous += coded >> 1 if coded % 2 == 0 else -((coded + 1) >> 1)
            values.append(previous)
            coded, shift = 0, 0
    return values


@given(st.lists(st.integers(-EXACT, EXACT), max_size=60))
def test_every_integer_a_page_can_hold_survives(values):
    assert decode(encode_integers(np.array(values, dtype=np.int64))) == values


def test_beyond_the_exact_range_is_refused():
    with pytest.raises(ValueError, match="exceeds 2\\^53"):
        encode_integers(np.array([EXACT + 1]))


def test_regular_times_take_a_fraction_of_their_text():
    times = np.arange(10_000) * 1_000 + 7
    assert len(encode_integers(times)) < 200, "equal differences must compress to next to nothing"
