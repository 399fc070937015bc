"""Parameter servers of any family: the way of a tensor to and from a server, and a server's work on it.

Ways differ in the CPU work at both ends for a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

GRPC_CALL_S = 29.6e-6
"""CPU time of each end for a gRPC call without content, seconds: half of a ping-pong over TCP between two ends on one
core (grpc/grpc pull request 8503, ``BM_UnaryPingPong<TCP>``, 59.2 us)."""

GRPC_BYTES_PER_S = 1.6e9
"""Rate at which each end of a gRPC channel passes a tensor on; one after the other they reach 0.8 GB/s
(tensorflow/tensorflow issue 6116, comment of 9 August 2017; grpc/grpc pull request 11033 has 0.76 GB/s for 32 MB)."""

CORE_BYTES_PER_S = 10e9
"""Memory traffic of one core of a Xeon E5, B/s (STREAM on one core, recalled)."""

GRPC_SERVER_THREADS = 8
"""Threads of a TensorFlow server that handle calls (tensorflow/tensorflow, ``rpc/grpc_worker_service.cc``,
``kGrpcWorkerServiceThreadCount``); before 2018 one thread did (``rpc/grpc_server_lib.cc``, ``TF_worker_service``)."""

ADDER_BYTES_PER_S = 50e9
"""Memory traffic of sums and updates, B/s: STREAM of all cores of a Xeon E5 (recalled); TensorFlow's
kernels on CPUs use all cores, so a server adds up or updates one variable after the other."""

SERIALISED_TOUCHES = 2
"""Accesses of a byte that is copied into or out of a message."""

ACCUMULATED_TOUCHES = 3
"""Accesses of a gradient's byte that a server adds to the sum: both read, the sum written."""

UPDATED_TOUCHES = 3
"""Accesses of a weight's byte in an update by SGD: sum and weight read, weight written."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Way of a tensor between a worker and a server.

    Attributes:
        through_host: whether it is copied between GPU and host before and after.
        call_s: time of a thread at each end for a tensor, seconds.
        byte_s: the same for each of its bytes.
        server_threads: threads of a server that do this, for all workers.
    """

    through_host: bool
    call_s: float = 0.0
    byte_s: float = 0.0
    server_threads: int = GRPC_SERVER_THREADS

    def seconds(self, size: float) -> float:
        """Time of a thread at each end, seconds."""
        return self.call_s + self.byte_s * size


GRPC = Channel(through_host=True, call_s=GRPC_CALL_S, byte_s=1.0 / GRPC_BYTES_PER_S)
"""Remote procedure calls over TCP."""


def accumulate_s(size: float) -> float:
    """Seconds in which a server adds a gradient to the sum."""
    return ACCUMULATED_TOUCHES * size / ADDER_BYTES_PER_S


def update_s(size: float) -> float:
    """Seconds in which a server updates a variable."""
    return UPDATED_TOUCHES * size / ADDER_BYTES_PER_S
