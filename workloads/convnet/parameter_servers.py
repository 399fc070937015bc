"""Parameter servers: which server has which variable, and the channels of the strategies that use servers.

TensorFlow moves every tensor by itself. The receiver asks for it, and the sender answers when it is there; here a
receiver has always asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.convnet.layers import Variable
from workloads.convnet.settings import Strategy
from workloads.graph.parameter_servers import (
    CORE_BYTES_PER_S,
    GRPC,
    GRPC_CALL_S,
    SERIALISED_TOUCHES,
    Channel,
    accumulate_s,
    update_s,
)

__all__ = ["CHANNELS", "GRPC_CALL_S", "Channel", "accumulate_s", "placed", "update_s"]

CHANNELS: dict[Strategy, Channel] = {
    "grpc_ps": GRPC,
    "grpc_ps_verbs": Channel(through_host=True),
    "grpc_ps_mpi": Channel(through_host=True, byte_s=SERIALISED_TOUCHES / CORE_BYTES_PER_S, server_threads=1),
    "grpc_ps_gdr": Channel(through_host=False, call_s=GRPC_CALL_S),
}
"""gRPC; RDMA writes between hosts; messages that one thread of each process copies and sends by MPI; RDMA reads between
GPUs, agreed on by gRPC (tensorflow/networking, READMEs of ``verbs``, ``mpi`` and ``gdr``)."""


def placed(variables: Sequence[Variable], servers: int) -> dict[str, int]:
    """Server of each variable: in the order of their creation, the one with the fewest numbers so far.

    As tf_cnn_benchmarks' ``ParamServerDeviceSetter`` has it; the first of several alike.
    """
    filled, found = [0] * servers, {}
    for variable in variables:
        server = filled.index(min(filled))
        found[variable.name] = server
        filled[server] += variable.elements
    return found
