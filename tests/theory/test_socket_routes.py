"""Links between sockets: shares of their ports against counted links."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.network import CollectiveModel, Topology
from simulator.network.patterns import AllPairs, Rings, Sends
from simulator.network.routes import Routes
from tests.network_machines import idle_call

UPI8 = load_cluster("xeon_8180_upi8")
LINKS = [(*link.sockets, link.links) for link in UPI8.node.socket_links.value]
ONE = np.ones((1, 1))


@pytest.fixture(scope="module")
def routes() -> Routes:
    return Routes.of(8, LINKS)


def test_the_twisted_hypercube_has_three_links_a_socket_and_no_pair_beyond_two_hops(routes: Routes) -> None:
    assert sorted(np.bincount(np.ravel([link[:2] for link in LINKS]))) == [3] * 8
    hops = routes.load.sum(axis=2)
    assert np.allclose(np.sort(hops, axis=1), [0, 1, 1, 1, 2, 2, 2, 2])


@pytest.mark.parametrize(("sockets", "share"), [(2, 1 / 3), (4, 1 / 2), (8, 7 / 12)])
def test_all_pairs_use_the_links_that_messages_pass(routes: Routes, sockets: int, share: float) -> None:
    """2: one link of three. 4: a square, 16 hops over 8 directed links of a third: 3 / (2 x 3). 8: 12 on the busiest
    link in place of 88 / 24."""
    members = np.arange(sockets)
    assert routes.share(AllPairs(ONE), members, members) == pytest.approx(share)


def test_links_carry_what_messages_send(routes: Routes) -> None:
    """Sum over links = sum over pairs of hops: ways in equal parts lose and add nothing."""
    amounts = np.random.Generator(np.random.Philox(1)).random((8, 8))
    on_links = np.tensordot(amounts, routes.load, axes=2)
    assert on_links.sum() == pytest.approx((amounts * routes.load.sum(axis=2)).sum())


def test_sockets_that_are_all_linked_use_all_links_for_all_pairs() -> None:
    full = Routes.of(4, [(a, b, 2) for a in range(4) for b in range(a + 1, 4)])
    members = np.arange(4)
    assert full.share(AllPairs(ONE), members, members) == 1.0
    assert full.share(Rings(ONE), members, members) == pytest.approx(1 / 3)
    assert full.share(Sends(np.array([0]), np.array([3]), ONE), members, members) == pytest.approx(1 / 3)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_an_all_to_all_takes_the_links_as_long_as_they_carry_it(routes: Routes, ranks: int) -> None:
    """Bytes that leave a socket over its share of three links of 20.8 GB/s; then 4 workers have copied its own part."""
    model = CollectiveModel.of(UPI8, Topology.build(UPI8, ranks), {"all_to_all": "linear"})
    size = 1e9
    members = np.arange(ranks)
    rate = 3 * 20.8e9 * routes.share(AllPairs(ONE), members, members)
    seconds = float(model.time(idle_call(model, "all_to_all", size)).seconds.max())
    copied_s = size / ranks / (4 * 11.145e9)
    assert seconds == pytest.approx(size * (ranks - 1) / ranks / rate + copied_s, rel=0.001)
