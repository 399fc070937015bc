"""Sites of a cluster: groups of nodes far from each other, joined by slow links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

from pydantic import Field

from hardware_specs.bounds import Bandwidth, Latency, Name, Number
from inputs.errors import nearest_name
from inputs.model import Strict, problem
from inputs.sourced import Sourced


class Site(Strict):
    """Nodes in one place, joined by the cluster's fabric."""

    name: Name
    nodes: Sourced[Number]


class SiteLink(Strict):
    """The link between two sites."""

    bytes_per_s: Sourced[Bandwidth]
    """Rate of all messages of a job together, per direction, bytes/s."""
    latency_s: Sourced[Latency]
    """Latency in one direction, without the NICs and switches of both sites, seconds."""


class SitePair(SiteLink):
    """The link between two named sites."""

    between: tuple[Name, Name]


class SiteLinks(Strict):
    """Links between the sites: listed pairs, and a default for all other pairs."""

    default: SiteLink | None = None
    """Link of the pairs that are not listed; None: all pairs are listed."""
    pairs: Annotated[tuple[SitePair, ...], Field(max_length=10_000)] = ()

    def between(self, one: str, other: str) -> SiteLink | None:
        """The link between two sites; None if they have no link."""
        own = next((pair for pair in self.pairs if {*pair.between} == {one, other}), None)
        return own or self.default


def check_sites(sites: Sequence[Site] | None, links: SiteLinks | None, nodes: int) -> None:
    """Check that sites have different names and hold all nodes, and each pair has one link; raises a `problem`."""
    if (sites is None) != (links is None):
        key, other = ("site_links", "sites") if links is None else ("sites", "site_links")
        raise problem("the key is missing", expected=f"{key}, as the cluster has `{other}`", key=key)
    if sites is None or links is None:
        return
    names = [site.name for site in sites]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise problem("two sites have this name", expected="each name once", key=f"sites[{number}].name")
    held = sum(site.nodes.value for site in sites)
    if held != nodes:
        raise problem("the sites hold other nodes", expected=f"{held}, the nodes of all sites", key="max_nodes.value")
    _check_pairs(links, names)
    for one, other in combinations(names, 2):
        if links.between(one, other) is None:
            expected = f"a pair of {one} and {other}, or a default"
            raise problem(f"no link joins {one} and {other}", expected=expected, key="site_links.pairs")


def _check_pairs(links: SiteLinks, names: Sequence[str]) -> None:
    seen: set[frozenset[str]] = set()
    for number, pair in enumerate(links.pairs):
        key = f"site_links.pairs[{number}].between"
        for place, name in enumerate(pair.between):
            if name not in names:
                expected, near = f"one of {', '.join(names)}", nearest_name(name, names)
                raise problem(f"there is no site {name}", expected=expected, nearest=near, key=f"{key}[{place}]")
        if frozenset(pair.between) in seen or pair.between[0] == pair.between[1]:
            raise problem("no such link", expected="two different sites, each pair once", key=key)
        seen.add(frozenset(pair.between))
