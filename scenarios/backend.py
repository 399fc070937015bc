"""The library of collectives that a scenario chooses, and the cores of its workers on CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hardware_specs import Cluster
from hardware_specs.library import Backend
from hardware_specs.loader import load_library
from hardware_specs.types import CollectiveLibrary, OtherLibrary
from inputs.errors import InputError, nearest_name
from inputs.keys import KeyPath
from inputs.sourced import Sourced
from inputs.yaml_lines import Document
from scenarios.types import Scenario

BACKENDS = {"ccl": "one_ccl", "mpi": "intel_mpi"}
"""Libraries of CPUs by the name of PyTorch's backend."""
GPU_BACKENDS: Mapping[Backend, str] = {"nccl": "nccl_2_30", "mpi": "open_mpi"}
"""Libraries of GPUs by backend, for clusters that name none of theirs."""
BACKEND: KeyPath = ("network", "backend")
CORES: KeyPath = ("network", "communication_cores")


def with_backend(document: Document, scenario: Scenario, cluster: Cluster, wanted: Backend | None = None) -> Cluster:
    """The cluster with the library and the workers that the scenario chooses.

    Args:
        wanted: communication backend of the workload; None: the cluster's.

    Raises:
        InputError: there is no such backend, or another than the workload's, the ranks are GPUs, the library has no
            workers, or they leave no core.
    """
    backend, cores = scenario.network.backend, scenario.network.communication_cores
    if cluster.node.gpu is not None:
        return _of_gpus(document, scenario, cluster, wanted)
    for path, given in ((BACKEND, backend), (CORES, cores)):
        if given is not None and cluster.node.cpu.kernels:
            expected = f"nothing: its collectives were measured with {cluster.collectives.name}"
            raise document.error(path, f"the host {cluster.name} was measured", given=given, expected=expected)
    if backend in BACKENDS:
        _check_wanted(document, backend, wanted)
    if backend is None and wanted in BACKENDS and wanted != cluster.collectives.backend:
        backend = wanted
    library = cluster.collectives if backend is None else _library(document, backend)
    if cores is not None:
        library = _with_workers(document, library, cores)
    own = cluster.node.cpu.cores.value // ranks_of_socket(cluster)
    if cluster.node.gpu is None and library.workers and library.workers >= own:
        raise document.error(
            CORES,
            f"workers of {library.name} leave no core of the {own} of a rank to compute",
            given=library.workers,
            expected=f"1 to {own - 1}" if own > 1 else "backend mpi, or fewer ranks on a socket",
        )
    return cluster.model_copy(update={"collectives": library})


def backend_notes(asked: Cluster, cluster: Cluster) -> tuple[str, ...]:
    """A note if a library was taken that the cluster does not name."""
    named = {asked.collectives.name, *(other.collectives.name for other in asked.other_libraries)}
    library = cluster.collectives
    if library.name in named or cluster.node.gpu is None:
        return ()
    note = f"{cluster.name} names no library of backend {library.backend}: {library.name} at the full rate of links"
    return (note,)


def _of_gpus(document: Document, scenario: Scenario, cluster: Cluster, wanted: Backend | None) -> Cluster:
    """The cluster with the library of a backend, its own where it names one."""
    backend, cores = scenario.network.backend, scenario.network.communication_cores
    if cores is not None:
        expected = "nothing: collectives of GPUs take no cores"
        raise document.error(CORES, "the ranks of this cluster are GPUs", given=cores, expected=expected)
    if backend is not None and backend not in GPU_BACKENDS:
        raise _unknown(document, backend, GPU_BACKENDS)
    _check_wanted(document, backend, wanted)
    chosen = next((each for each in GPU_BACKENDS if each in (backend, wanted)), None)
    if chosen is None:
        return cluster
    return cluster.by_backend(chosen) or cluster.with_library(
        OtherLibrary(collectives=load_library(GPU_BACKENDS[chosen]))
    )


def _check_wanted(document: Document, backend: str | None, wanted: Backend | None) -> None:
    """Refuse a backend other than the workload's.

    Raises:
        InputError: the backend is another one.
    """
    if backend is not None and wanted not in (None, backend):
        message = "the workload needs another backend"
        raise document.error(BACKEND, message, given=backend, expected=f"{wanted}, or no such key")


def _library(document: Document, backend: str) -> CollectiveLibrary:
    if backend not in BACKENDS:
        raise _unknown(document, backend, BACKENDS)
    return load_library(BACKENDS[backend])


def _unknown(document: Document, backend: str, known: Iterable[str]) -> InputError:
    names = list(known)
    expected, near = f"one of {', '.join(names)}", nearest_name(backend, names)
    return document.error(BACKEND, "no such backend", given=backend, expected=expected, nearest=near)


def _with_workers(document: Document, library: CollectiveLibrary, cores: int) -> CollectiveLibrary:
    """The library with ``cores`` workers on each rank."""
    if library.messages is None or not library.workers:
        expected = "nothing, or backend ccl, whose workers have cores of their own"
        raise document.error(CORES, f"{library.name} has no workers", given=cores, expected=expected)
    workers = Sourced[int](value=cores, source="the scenario", grade="assumed")
    return library.model_copy(update={"messages": library.messages.model_copy(update={"workers": workers})})


def ranks_of_socket(cluster: Cluster) -> int:
    """Ranks that share a socket; 1 where a rank has one or more."""
    ranks = cluster.node.ranks_per_socket
    return 1 if ranks is None else ranks.value
