"""The task graph of an iteration: a program for each stage of the pipeline, whose ranks all do the same.

Passes of a micro-batch go through the parts of a stage one by one where something is exchanged for each of them:
weights that FSDP gathers, gradients that the last micro-batch completes. Else neighbouring parts share their tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.operators import Amount, Elementwise
from simulator.program import IntArray, Program, TaskGraph
from workloads.graph.buckets import gradient_buckets
from workloads.graph.levels import GATHER, REDUCE, REPLICATE, gathered_copies
from workloads.graph.messages import message, pairs
from workloads.graph.pipeline_schedule import PipelineStep, steps_of
from workloads.transformer.parts import NetworkPart, parts_of, stage_parts
from workloads.transformer.recorder import StageRecorder
from workloads.transformer.settings import ParallelSizes, TransformerSettings

TIED = "tied_weights"
"""Communicator of the first and the last stage, which sum the gradient of weights that both have."""


def iteration_graph(settings: TransformerSettings) -> TaskGraph:
    """The task graph of all ranks."""
    sizes = settings.sizes
    parts = stage_parts(settings)
    programs = [_Stage(number, own, settings).program() for number, own in enumerate(parts)]
    communicators = {**sizes.communicators(), **_tied(settings)}
    if sizes.pipeline > 1:
        communicators |= _neighbours(sizes)
    return TaskGraph(tuple(programs), communicators, repeats=True)


def gradient_sums(settings: TransformerSettings) -> dict[str, IntArray]:
    """Instances of the communicators that sum gradients, by name ``[world_size]``; -1: the rank is in none."""
    found = settings.sizes.communicators()
    return {**{name: found[name] for name in ("data", "shard", "replicate") if name in found}, **_tied(settings)}


def _tied(settings: TransformerSettings) -> dict[str, IntArray]:
    """Pairs of ranks of the first and the last stage, where weights of both are tied."""
    sizes = settings.sizes
    if sizes.pipeline == 1 or not settings.model.tied:
        return {}
    return {TIED: pairs(sizes.world_size, sizes.stage(0), sizes.stage(sizes.pipeline - 1))}


def _neighbours(sizes: ParallelSizes) -> dict[str, IntArray]:
    """Pairs of ranks of a stage and the next one, by name; the last one sends to the first if stages have parts."""
    found: dict[str, IntArray] = {}
    for stage in range(sizes.boundaries):
        next_ranks = sizes.stage((stage + 1) % sizes.pipeline)
        members = pairs(sizes.world_size, sizes.stage(stage), next_ranks)
        found |= {_message("forward", stage): members, _message("backward", stage): members}
    return found


def _direction(step: PipelineStep) -> str:
    """Direction of the messages of a step."""
    return "backward" if step.backward else "forward"


def _message(direction: str, stage: int) -> str:
    """Communicator of messages between a stage and the next one."""
    return f"{direction}_{stage}"


class _Stage:
    """One stage of the pipeline; without one, all ranks."""

    def __init__(self, number: int, parts: Sequence[NetworkPart], settings: TransformerSettings) -> None:
        self._number, self._parts, self._settings = number, parts, settings
        name = "iteration" if settings.sizes.pipeline == 1 else f"stage_{number}"
        self._recorder = StageRecorder(name, settings.sizes.stage(number), settings)
        self._groups = settings.sizes.communicators()
        self._ends: list[list[int]] = []
        self._reduced: list[int] = []
        self._waiting: list[tuple[str, int]] = []

    def program(self) -> Program:
        """The program."""
        sizes, settings = self._settings.sizes, self._settings
        for step in steps_of(self._number, sizes.pipeline, settings.microbatches, sizes.virtual_stages):
            self._step(step)
        self._sum_tied()
        parameters = sum(part.parameters for part in self._parts)
        updated = self._recorder.optimizer(float(-(-parameters // sizes.shards)), self._reduced)
        if sizes.sharding == "optimizer" and "data" in self._groups:
            self._spread(updated)
        return self._recorder.build()

    # Steps

    def _step(self, step: PipelineStep) -> None:
        """Input of a pass, the pass, and its output."""
        parts = self._divided(step)
        received = self._receive(step)
        for place, part in enumerate(parts):
            self._pass(part, step, received if place == 0 else [])
        self._send(step)

    def _divided(self, step: PipelineStep) -> list[NetworkPart]:
        """Parts that a pass goes through one by one, in its order."""
        settings = self._settings
        whole = [self._parts[step.part]]
        if settings.sizes.pipeline > 1:
            return whole
        # The host launches a part before its first kernel starts; from the second micro-batch on it is ahead.
        sums = "data" in self._groups and self._completes(step)
        if not (settings.layers_apart or settings.sizes.gathers or sums or step.microbatch == 0):
            return whole
        own = parts_of(settings)
        return own[::-1] if step.backward else own

    def _completes(self, step: PipelineStep) -> bool:
        """Whether the gradients of a part are complete after a step."""
        return step.backward and step.microbatch == self._settings.microbatches - 1

    def _pass(self, part: NetworkPart, step: PipelineStep, after: Sequence[int]) -> None:
        settings = self._settings
        name = f"{part.name}_{'backward' if step.backward else 'forward'}"
        name += f"_{step.microbatch}" if settings.microbatches > 1 else ""
        gathered = self._gather(part, step, name)
        reduces = settings.sizes.gathers and (settings.sizes.pipeline == 1 or self._completes(step))
        copies = self._copies(part, gathered=bool(gathered), reduced=step.backward and reduces)
        first = self._recorder.run_pass(name, part, backward=step.backward, after=[*gathered, *after], copies=copies)
        self._ends.append(self._recorder.last)
        if settings.sizes.sharding == "optimizer" and not step.backward and step.microbatch == 0:
            self._waiting.append((part.name, first))
        if step.backward and (reduces or self._completes(step)):
            self._reduce(part, name)

    # Weights

    def _group(self) -> str:
        """Communicator over which weights and gradients are divided."""
        return "shard" if self._settings.sizes.sharding == "hybrid" else "data"

    def _gather(self, part: NetworkPart, step: PipelineStep, name: str) -> list[int]:
        """Gather the weights of a part, unless they are there; returns what its kernels wait for."""
        sizes = self._settings.sizes
        if not sizes.gathers or self._group() not in self._groups:
            return []
        keeps = not sizes.reshards or (self._settings.model.tied and part.embedding)
        first = step.microbatch == 0 if sizes.pipeline > 1 else True
        if keeps and (step.backward or not first):
            return []
        # The weights of so many parts are there at a time: that which computes, and those gathered ahead.
        freed = self._ends[-1 - sizes.prefetch] if len(self._ends) > sizes.prefetch else [self._recorder.begin]
        size = float(part.parameters * self._settings.element_bytes)
        call = CollectiveCall("all_gather", self._group(), size, self._settings.tensors, in_step=True)
        section = "backward" if step.backward else "forward"
        return [self._recorder.call(f"{name}_weights", GATHER, call, section=section, after=freed)]

    def _copies(self, part: NetworkPart, *, gathered: bool, reduced: bool) -> Elementwise | None:
        """Copies out of the buffer of gathered weights, and of gradients into that of their sum."""
        element, wire = self._settings.element_bytes, self._settings.reduced_bytes
        return gathered_copies(part.parameters, element, wire, gathered=gathered, reduced=reduced)

    # Gradients

    def _reduce(self, part: NetworkPart, name: str) -> None:
        """Sum the gradients of a part, over the ranks that sum it."""
        settings, sizes = self._settings, self._settings.sizes
        done = self._recorder.last
        if sizes.sharding == "none":
            self._sum_buckets(part, name, done)
            return
        size = float(part.parameters * settings.reduced_bytes)
        if self._group() in self._groups:
            done = [self._sum(f"{name}_gradients", REDUCE, "reduce_scatter", self._group(), size, done)]
            self._reduced += done
        if "replicate" in self._groups:
            own = size / sizes.shard_size
            self._reduced.append(self._sum(f"{name}_replicas", REPLICATE, "all_reduce", "replicate", own, done))

    def _sum_buckets(self, part: NetworkPart, name: str, done: Sequence[int]) -> None:
        """DDP's buckets that a part completes."""
        settings = self._settings
        if "data" not in self._groups:
            return
        if settings.sizes.pipeline > 1:
            sizes = [float(part.parameters)]
        else:
            order = [(own.name, own.parameters) for own in reversed(parts_of(settings))]
            buckets = gradient_buckets(order, settings.first_bucket_bytes, settings.bucket_bytes)
            sizes = [float(bucket.parameters) for bucket in buckets if bucket.ready_after == part.name]
        for parameters in sizes:
            task = self._sum(
                f"{name}_gradients", REDUCE, "all_reduce", "data", parameters * settings.reduced_bytes, done
            )
            self._reduced.append(task)

    def _sum(self, name: str, stream: str, op: CollectiveOp, group: str, size: float, after: Sequence[int]) -> int:
        call = CollectiveCall(op, group, size, self._settings.reduced, in_step=True)
        return self._recorder.call(name, stream, call, section="backward", after=after)

    def _sum_tied(self) -> None:
        """Sum the gradient of weights that first and last stage both have."""
        settings, sizes = self._settings, self._settings.sizes
        if sizes.pipeline == 1 or not settings.model.tied or self._number not in (0, sizes.pipeline - 1):
            return
        parameters = settings.model.vocabulary * settings.model.hidden // sizes.tensor
        size = float(parameters * settings.reduced_bytes) / sizes.shards
        after = self._reduced or self._recorder.last
        self._reduced.append(self._sum("tied_gradients", REDUCE, "all_reduce", TIED, size, after))

    def _spread(self, updated: int) -> None:
        """Gather the weights that each rank has updated; the next iteration's passes wait for theirs."""
        settings = self._settings
        parameters = {part.name: part.parameters for part in [*self._parts, *parts_of(settings)]}
        for name, first in self._waiting:
            size = float(parameters[name] * settings.element_bytes)
            call = CollectiveCall("all_gather", "data", size, settings.tensors, in_step=True)
            task = self._recorder.call(f"{name}_weights", GATHER, call, section="optimizer", after=[updated])
            self._recorder.depend(first, task, lag=1)

    # Messages

    def _peer(self, step: PipelineStep, *, sends: bool) -> tuple[int, bool] | None:
        """Boundary that a step's input or output crosses, and whether the higher rank receives; None at the ends."""
        sizes, last = self._settings.sizes, self._settings.sizes.pipeline - 1
        forwards = sends != step.backward  # whether the other stage comes later in the network
        edge_part = sizes.virtual_stages - 1 if forwards else 0
        if last == 0 or (self._number == (last if forwards else 0) and step.part == edge_part):
            return None
        sender = self._number if forwards else (self._number - 1) % sizes.pipeline
        receives = (sender + 1) % sizes.pipeline if not step.backward else sender
        other = (sender + 1) % sizes.pipeline if step.backward else sender
        return sender, receives > other

    def _receive(self, step: PipelineStep) -> list[int]:
        """Input of a step, unpacked."""
        received = self._exchange(step, "receive", [self._recorder.begin], sends=False)
        return self._packing(step, "unpack", received, sends=False) or received

    def _send(self, step: PipelineStep) -> None:
        """Output of a step, packed."""
        self._packing(step, "pack", [], sends=True)
        self._exchange(step, "send", self._recorder.last, sends=True)

    def _exchange(self, step: PipelineStep, verb: str, after: Sequence[int], *, sends: bool) -> list[int]:
        peer = self._peer(step, sends=sends)
        if peer is None:
            return []
        settings, (boundary, to_higher) = self._settings, peer
        direction, packing = _direction(step), settings.compression
        elements, size = settings.message_elements, settings.element_bytes
        sent: Amount = float(elements * size)
        if packing is not None:
            sent = packing.sent_bytes(boundary, elements, size, backward=step.backward)
        call = message(_message(direction, boundary), sent, settings.tensors, to_higher=to_higher)
        name = f"{verb}_{direction}_{step.part}_{step.microbatch}"
        return [self._recorder.call(name, f"{verb}_{direction}", call, section=direction, after=after)]

    def _packing(self, step: PipelineStep, verb: str, after: Sequence[int], *, sends: bool) -> list[int]:
        """Kernel that compresses a message, or restores it; none where it travels as it is."""
        settings, peer = self._settings, self._peer(step, sends=sends)
        if peer is None or settings.compression is None:
            return []
        elements, size = settings.message_elements, settings.element_bytes
        kernels = settings.compression.kernels(peer[0], elements, size, backward=step.backward)
        if kernels is None:
            return []
        section = _direction(step)
        name = f"{verb}_{section}_{step.part}_{step.microbatch}"
        launch = self._recorder.launch(name, 1, section=section)
        return [self._recorder.kernel(name, kernels[not sends], section=section, after=[launch, *after])]
