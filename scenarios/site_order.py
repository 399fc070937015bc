"""Order in which the ranks of a job fill the sites of its cluster."""

from __future__ import annotations

from collections.abc import Sequence

from hardware_specs import Cluster
from inputs.errors import nearest_name
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.types import Scenario

SITE_ORDER: KeyPath = ("site_order",)
SEARCH = "search"


def check_site_order(document: Document, scenario: Scenario, cluster: Cluster, world_size: int) -> None:
    """Refuse orders that are no order of the cluster's sites, and jobs with more ranks than the sites have.

    Raises:
        InputError: the order or the job is refused.
    """
    names, order = cluster.site_names, scenario.site_order
    nodes, most = -(-world_size // cluster.node.ranks), cluster.max_nodes.value
    if names and nodes > most:
        key, given = ("nodes", nodes) if scenario.nodes is not None else ("world_size", world_size)
        held = most if key == "nodes" else most * cluster.node.ranks
        raise document.error(
            (key,), "the sites have too few ranks", given=given, expected=f"at most {held}, on {len(names)} sites"
        )
    if order is None:
        return
    if len(names) < 2:
        message, expected = "the cluster has no sites to order", "no such key, or a cluster with `sites`"
        raise document.error(SITE_ORDER, message, given=cluster.name, expected=expected)
    if order == SEARCH:
        return
    for place, name in enumerate(order):
        if name not in names:
            near, known = nearest_name(name, names), f"one of {', '.join(names)}"
            raise document.error((*SITE_ORDER, place), "no such site", given=name, expected=known, nearest=near)
    missing = [name for name in names if name not in order]
    if missing or len(order) != len(names):
        message = f"the order leaves out {', '.join(missing)}" if missing else "the order names a site twice"
        raise document.error(SITE_ORDER, message, given=", ".join(order), expected=f"each of {', '.join(names)} once")


def check_searched(document: Document, scenario: Scenario, cluster: Cluster, found: Sequence[str] | None) -> None:
    """Refuse a search for an order that found none.

    Raises:
        InputError: the job has no pipeline, whose stages an order would place.
    """
    if scenario.site_order == SEARCH and found is None:
        expected = f"an order of {', '.join(cluster.site_names)}"
        message = "site_order: search needs a pipeline, and the job has none"
        raise document.error(SITE_ORDER, message, given=SEARCH, expected=expected)
