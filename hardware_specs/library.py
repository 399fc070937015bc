"""Libraries of collectives: NCCL and RCCL between GPUs, MPI, gloo and oneCCL by messages between hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import field_validator, model_validator

from hardware_specs.bounds import Amount, Bandwidth, Latency, Name, Number, Ratio, Share
from hardware_specs.processors import Cpu
from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.sourced import Grade, Sourced

Operation = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "barrier",
    "sendrecv", "gather", "scatter",
]  # fmt: skip


Progress = Literal["beside", "in_calls"]
"""beside: on threads of the library, while the rank computes. in_calls: only while the rank is inside a call of the
library, in the order in which it issued them."""


class PerProtocol(Strict):
    """A latency of each NCCL protocol."""

    ll: Sourced[Latency]
    ll128: Sourced[Latency]
    simple: Sourced[Latency]


class AlgorithmLatency(Strict):
    """Tuning constants of one algorithm: start-up, and per hop over NVLink (Infinity Fabric), PCIe or the network."""

    base_s: PerProtocol
    nvlink_hop_s: PerProtocol
    pci_hop_s: PerProtocol
    network_hop_s: PerProtocol
    member_s: Sourced[Latency] | None = None
    """Latency of each member on top of the hops; None: none."""


class BandwidthFraction(Strict):
    """Share of the link bandwidth that a protocol's payload gets."""

    ll: Sourced[Share]
    ll128: Sourced[Share]
    simple: Sourced[Share]


class NetworkPost(Strict):
    """Host proxy's cost of posting one network message, by CPU vendor; the Simple protocol posts ``simple_factor``."""

    intel: Sourced[Latency]
    amd: Sourced[Latency]
    other: Sourced[Latency]
    simple_factor: Sourced[Ratio]

    def seconds(self, cpu: Cpu) -> float:
        """Cost of one post on a node with this CPU, in seconds (LL and LL128; Simple: times ``simple_factor``)."""
        by_vendor = {"intel": self.intel, "amd": self.amd}
        return by_vendor.get(cpu.vendor, self.other).value


class SendChannels(Strict):
    """Channels that carry one message between GPUs of a node; NCCL takes more for larger messages."""

    count: Sourced[Number]
    """Number of channels for one peer, and over all peers for small messages."""
    part_bytes: Sourced[Amount]
    """A message is cut into larger parts only when no channel is left."""
    bytes_per_s: Sourced[Bandwidth]
    """Rate of one channel."""

    def rate_bytes_per_s(self, ranks: int, message_bytes: float) -> float:
        """Most that one message reaches among so many ranks, B/s."""
        most = channels = int(self.count.value)
        while channels * ranks > most and channels > 1:
            channels //= 2
        while channels < most and message_bytes / channels > self.part_bytes.value:
            channels *= 2
        return channels * self.bytes_per_s.value


WITH_LATENCIES = ("ring", "tree", "nvls", "nvls_tree", "pat", "collnet")
"""Algorithms with a row of their own in the latency tables of NCCL's tuner (NCCL 2.30 ``src/graph/tuning.cc``)."""


class NcclConstants(Strict):
    """Tuning constants of NCCL, or of RCCL, which is NCCL for GPUs of AMD."""

    algorithms: dict[Operation, tuple[Name, ...]]
    """Algorithms that it chooses from, by operation; the others run only where a scenario names them."""
    protocols: tuple[Literal["ll", "ll128", "simple"], ...] = ("ll", "ll128", "simple")
    """Protocols of the release."""
    chooser: Literal["fastest", "nccl_tuner"] = "fastest"
    """fastest: what the model finds fastest on the machine. nccl_tuner: what NCCL's own model of it finds."""
    ring: AlgorithmLatency
    tree: AlgorithmLatency
    nvls: AlgorithmLatency | None = None
    """Optional, as `nvls_tree`, `pat` and `collnet` are: a library without the algorithm has no latencies of it."""
    nvls_tree: AlgorithmLatency | None = None
    pat: AlgorithmLatency | None = None
    collnet: AlgorithmLatency | None = None
    bandwidth_fraction: BandwidthFraction
    network_post: NetworkPost
    send_channels: SendChannels

    def latencies_of(self, algorithm: str) -> AlgorithmLatency:
        """Latencies of an algorithm.

        Raises:
            InputError: the library has no such algorithm.
        """
        found: AlgorithmLatency | None = getattr(self, algorithm) if algorithm in WITH_LATENCIES else None
        if found is None:
            known = [name for name in WITH_LATENCIES if getattr(self, name) is not None]
            expected = f"one of {', '.join(known)}"
            raise InputError("the library has no latencies of this algorithm", given=algorithm, expected=expected)
        return found

    @model_validator(mode="after")
    def _has_latencies_of_its_algorithms(self) -> NcclConstants:
        """An algorithm that the library chooses from has latencies."""
        listed = {name for names in self.algorithms.values() for name in names}
        for name in WITH_LATENCIES:
            if name in listed and getattr(self, name) is None:
                raise problem("the key is missing", key=name, expected="latencies, as `algorithms` lists it")
        return self


class MessageTime(Strict):
    """Software cost of one message, from the call that sends it to the one that returns it; wires come on top."""

    eager_s: Sourced[Latency]
    """Sent at once and copied out of a buffer; one way over the wire."""
    rendezvous_s: Sourced[Latency]
    """Announced, answered, then sent from user memory to user memory; three ways over the wire."""


class Choice(Strict):
    """A line of a library's decision table: where all that is given holds, it uses this algorithm."""

    up_to_ranks: Number | None = None
    below: Amount | None = None
    """Sizes smaller than this."""
    power_of_two: bool = False
    """Only where the number of ranks is one."""
    use: Name


class Choices(Strict):
    """A library's decision table for one operation; the first line that holds counts."""

    source: Name
    grade: Grade
    note: str = ""
    size: Literal["total", "per_rank"]
    """Size that `Choice.below` is compared with: nccl-tests' size, or that over the number of ranks."""
    rules: tuple[Choice, ...]

    @field_validator("rules")
    @classmethod
    def _ends_with_one_for_all(cls, rules: tuple[Choice, ...]) -> tuple[Choice, ...]:
        """The last line holds always, so that there is an answer."""
        last = rules[-1] if rules else None
        if last is None or last.up_to_ranks is not None or last.below is not None or last.power_of_two:
            raise problem("nothing is chosen where no rule holds", expected="a last rule with `use` alone")
        return rules


class MessageConstants(Strict):
    """A library that makes collectives of messages between the hosts' memories."""

    start_s: Sourced[Latency]
    """Entering a collective."""
    near: MessageTime
    """Messages between ranks of a node, through shared memory."""
    network: MessageTime
    post_s: Sourced[Latency]
    """Time of the sender for each message before it can send the next."""
    eager_below: Sourced[Amount]
    """Smaller messages are sent at once."""
    copy_bytes_per_s: Sourced[Bandwidth]
    """Copy rate of one thread in host memory; adding two buffers moves three bytes where a copy moves two."""
    gpu_kernel_s: Sourced[Latency] | None = None
    """Start of a kernel that adds or copies buffers of GPUs, in their memory; None: hosts do it, in theirs."""
    threads: Sourced[Number] | None = None
    """Threads of a process group that run its collectives, so many at once; None: one."""
    workers: Sourced[Number] | None = None
    """Cores of each rank that its workers take from computing, and that share the work of a collective, so many times
    the rate of `copy_bytes_per_s`; None: it has no cores of its own."""
    progress: Sourced[Progress] | None = None
    """Place in which collectives advance; None: beside the computing."""
    made_of: Sourced[dict[Operation, Operation]] | None = None
    """Replacement of an operation, which runs on a copy of the input that the call makes; None: none."""
    choices: dict[Operation, Choices]
    """Algorithms that it uses, by operation; for others the fastest algorithm known is taken."""


Backend: TypeAlias = Literal["nccl", "mpi"]
"""Kinds of libraries: kernels of NCCL or RCCL (PyTorch calls both ``nccl``), and messages between hosts."""


class CollectiveLibrary(Strict):
    """The library of the collectives: one of the two kinds."""

    name: Name
    description: str = ""
    nccl: NcclConstants | None = None
    messages: MessageConstants | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> CollectiveLibrary:
        """NCCL or messages, not both."""
        if (self.nccl is None) == (self.messages is None):
            raise problem("a library is of one kind", expected="one of the blocks `nccl` and `messages`")
        return self

    @property
    def backend(self) -> Backend:
        """Kind of the library by its name as a backend; all libraries of messages are ``mpi``."""
        return "mpi" if self.nccl is None else "nccl"

    @property
    def threads(self) -> int:
        """Number of collectives of a process group that it runs at once."""
        threads = None if self.messages is None else self.messages.threads
        return 1 if threads is None else int(threads.value)

    @property
    def workers(self) -> int:
        """Cores of each rank that its workers take from computing."""
        workers = None if self.messages is None else self.messages.workers
        return 0 if workers is None else int(workers.value)

    @property
    def progress(self) -> Progress:
        """Place in which collectives advance."""
        progress = None if self.messages is None else self.messages.progress
        return "beside" if progress is None else progress.value

    @property
    def made_of(self) -> Mapping[Operation, Operation]:
        """Replacements of some operations, which run on a copy of the input that the call makes."""
        made_of = None if self.messages is None else self.messages.made_of
        return {} if made_of is None else made_of.value
