"""The library of collectives that a scenario chooses for CPUs, and the cores of its workers."""

from __future__ import annotations

from hardware_specs import Cluster
from hardware_specs.loader import load_library
from hardware_specs.types import CollectiveLibrary
from inputs.errors import nearest_name
from inputs.keys import KeyPath
from inputs.sourced import Sourced
from inputs.yaml_lines import Document
from scenarios.types import Scenario

BACKENDS = {"ccl": "one_ccl", "mpi": "intel_mpi"}
"""Libraries by the name of PyTorch's backend."""
BACKEND: KeyPath = ("network", "backend")
CORES: KeyPath = ("network", "communication_cores")


def with_backend(document: Document, scenario: Scenario, cluster: Cluster) -> Cluster:
    """The cluster with the library and the workers that the scenario chooses.

    Raises:
        InputError: there is no such backend, the ranks are GPUs, the library has no workers, or they leave no core.
    """
    backend, cores = scenario.network.backend, scenario.network.communication_cores
    for path, given in ((BACKEND, backend), (CORES, cores)):
        if given is not None and cluster.node.gpu is not None:
            expected = "nothing: GPUs use the library of the cluster, and no cores"
            raise document.error(path, "the ranks of this cluster are GPUs", given=given, expected=expected)
        if given is not None and cluster.node.cpu.kernels:
            expected = f"nothing: its collectives were measured with {cluster.collectives.name}"
            raise document.error(path, f"the host {cluster.name} was measured", given=given, expected=expected)
    library = cluster.collectives if backend is None else _library(document, backend)
    if cores is not None:
        library = _with_workers(document, library, cores)
    own = cluster.node.cpu.cores.value // _ranks_of_socket(cluster)
    if cluster.node.gpu is None and library.workers and library.workers >= own:
        raise document.error(
            CORES,
            f"workers of {library.name} leave no core of the {own} of a rank to compute",
            given=library.workers,
            expected=f"1 to {own - 1}" if own > 1 else "backend mpi, or fewer ranks on a socket",
        )
    return cluster.model_copy(update={"collectives": library})


def _library(document: Document, backend: str) -> CollectiveLibrary:
    if backend not in BACKENDS:
        raise document.error(
            BACKEND,
            "no such backend",
            given=backend,
            expected=f"one of {', '.join(BACKENDS)}",
            nearest=nearest_name(backend, BACKENDS),
        )
    return load_library(BACKENDS[backend])


def _with_workers(document: Document, library: CollectiveLibrary, cores: int) -> CollectiveLibrary:
    """The library with so many workers on each rank."""
    if library.messages is None or not library.workers:
        expected = "nothing, or backend ccl, whose workers have cores of their own"
        raise document.error(CORES, f"{library.name} has no workers", given=cores, expected=expected)
    workers = Sourced[int](value=cores, source="the scenario", grade="assumed")
    return library.model_copy(update={"messages": library.messages.model_copy(update={"workers": workers})})


def _ranks_of_socket(cluster: Cluster) -> int:
    ranks = cluster.node.ranks_per_socket
    return 1 if ranks is None else ranks.value
