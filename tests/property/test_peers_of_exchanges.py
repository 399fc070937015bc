"""Bytes from each member to each other: what links carry is what the pairs that cross them send."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_specs.loader import load_cluster
from simulator.lowering import build_machine
from simulator.network.collectives.algorithm import Call
from simulator.network.collectives.hierarchical_all_to_all import by_rail, rails_of
from simulator.network.patterns import AllPairs

NODES, LOCAL = 3, 8
RANKS = NODES * LOCAL
seeds = st.integers(0, 2**32 - 1)
(BLOCK,) = build_machine(load_cluster("dgx_a100_80"), RANKS, launch_s=0.0).collectives.blocks(
    np.zeros(RANKS, dtype=np.int64)
)
NODE = np.arange(RANKS) // LOCAL


def made(seed, *, like_weights):
    """Bytes and shares of each sender; with ``like_weights`` all senders have one row of shares."""
    rng = np.random.default_rng(seed)
    sent = rng.uniform(0, 1e6, (1, RANKS))
    rows = rng.uniform(0, 1, (1, 1 if like_weights else RANKS, RANKS)) ** 3
    shares = np.broadcast_to(rows / rows.sum(axis=2, keepdims=True), (1, RANKS, RANKS))
    return sent, shares


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=seeds)
def test_one_row_of_shares_is_the_weights_of_the_receivers(seed):
    sent, shares = made(seed, like_weights=True)
    size = sent.mean(axis=1, keepdims=True)
    by_pair = Call("all_to_all", BLOCK, size, sent, None, shares)
    by_weight = Call("all_to_all", BLOCK, size, sent, shares[:, 0])
    patterns = [AllPairs(c.bytes, c.send_bytes, c.receive_weights, c.peer_bytes) for c in (by_pair, by_weight)]
    traffic = [p.crossing(BLOCK, label) for p in patterns for label in (NODE, np.arange(RANKS))]
    rails = [leg for call in (by_pair, by_weight) for leg in by_rail(call, rails_of(BLOCK))]
    for one, other in zip((*traffic[:2], *rails[:2]), (*traffic[2:], *rails[2:]), strict=True):
        assert one.out_bytes == pytest.approx(other.out_bytes, rel=1e-6, abs=1e-3)
        assert one.in_bytes == pytest.approx(other.in_bytes, rel=1e-6, abs=1e-3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=seeds)
def test_links_carry_the_pairs_that_cross_them(seed):
    """Counted pair by pair; what leaves is what arrives; along rails every byte for another node passes once."""
    sent, shares = made(seed, like_weights=False)
    call = Call("all_to_all", BLOCK, sent.mean(axis=1, keepdims=True), sent, None, shares)
    pairs = call.peer_bytes[0]
    crossing = AllPairs(call.bytes, call.send_bytes, None, call.peer_bytes).crossing(BLOCK, NODE)
    out, into = np.zeros(RANKS), np.zeros(RANKS)
    for i in range(RANKS):
        for j in range(RANKS):
            if NODE[i] != NODE[j]:
                out[i] += pairs[i, j]
                into[j] += pairs[i, j]
    assert crossing.out_bytes[0] == pytest.approx(out)
    assert crossing.in_bytes[0] == pytest.approx(into)
    near, far = by_rail(call, rails_of(BLOCK))
    assert far.out_bytes.sum() == pytest.approx(out.sum())
    assert far.in_bytes[0] == pytest.approx(into)
    assert near.out_bytes.sum() == pytest.approx(near.in_bytes.sum())
    assert min(near.out_bytes.min(), near.in_bytes.min(), far.out_bytes.min()) >= 0
