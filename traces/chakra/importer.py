"""Imports Chakra execution traces: one file per rank, ``PREFIX.RANK.et``.

A compute node lasts ``duration_micros``, the duration of a collective comes from the network of a simulated cluster and
its ``comm_size``. Nodes run when their data and control dependencies have ended, compute nodes and collectives each one
after the other in the order of the file, as a GPU's default stream and its communication stream do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from inputs.errors import InputError
from inputs.given import shown
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, Delay, Measured
from simulator.work import Work
from traces.alike_ranks import AlikeRanks
from traces.chakra.layouts import Layout
from traces.chakra.messages import (
    COMM_COLL,
    COMM_OPS,
    COMM_RECV,
    COMM_SEND,
    COMP,
    SEND,
    SEND_PARTS,
    nodes_begin,
    read_nodes,
)
from traces.collective_args import DEFAULT_GROUP
from traces.imported import Imported, absent_ranks, gaps_of
from traces.merge import groups_of, merge_alike
from traces.rank_tasks import RankTasks, RankTasksBuilder
from traces.source import chunks
from traces.typed import MAX_BYTES, no_such_ranks, rank_in_name

US = 1e-6
LONGEST_US = 10**12
"""Longest node, us: about twelve days, longer than any iteration."""
_RANK = re.compile(r"\.(\d+)\.et(?:\.gz)?$")
_METADATA, _LOAD, _STORE = 1, 2, 3
SECTION = "iteration"
MAX_LAYOUTS = 8
"""Layouts kept: the bytes of files of one structure differ where their writers order fields differently."""
UNTIMED = "compute nodes without a duration"
"""A gap of a trace."""


def import_chakra(files: Sequence[Path], ranks: Sequence[int] | None = None) -> Imported:
    """Import the traces of a job.

    Args:
        files: one per rank.
        ranks: ranks to keep; default: all.

    Raises:
        InputError: a file is no such trace or contradicts itself, or two are of one rank.
        ProgramError: ranks disagree on a collective.
    """
    chosen = [(rank_of(file), file) for file in files]
    if ranks is not None:
        chosen = [(rank, file) for rank, file in chosen if rank in set(ranks)]
        if not chosen:
            raise no_such_ranks(ranks, (rank_of(file) for file in files))
    structures = _Structures()
    for place, (rank, file) in enumerate(chosen):
        structures.read(file, rank, place)
    blocks = [template.block() for template in structures.templates]
    gaps = {rank: found for template in structures.templates for rank, found in template.gaps_by_rank()}
    world_size = max(rank for rank, _ in chosen) + 1
    graph = merge_alike(blocks, groups_of(_members(blocks), world_size), world_size).graph
    return Imported(
        format="Chakra execution trace",
        files=tuple(file for _, file in chosen),
        graph=graph,
        world_size=world_size,
        found={
            "nodes": sum(len(b.ranks) * len(b.tasks.names) for b in blocks),
            "collectives": sum(len(b.ranks) * len(_calls(b.tasks)) for b in blocks),
            "dependencies": sum(len(b.ranks) * len(b.tasks.dep_task) for b in blocks),
            "program groups": len(graph.programs),
        },
        gaps=(
            *absent_ranks([rank for rank, _ in chosen], world_size),
            *gaps_of({rank: gaps[rank] for rank, _ in chosen}),
        ),
    )


def rank_of(file: Path) -> int:
    """The rank in ``PREFIX.RANK.et``.

    Raises:
        InputError: the name has none.
    """
    found = _RANK.search(file.name)
    if not found:
        raise InputError("does not say its rank", file=file, expected="a name like PREFIX.RANK.et")
    return rank_in_name(found[1], file)


def _calls(tasks: RankTasks) -> list[CollectiveCall]:
    return [work for work in tasks.work if isinstance(work, CollectiveCall)]


def _members(blocks: Iterable[AlikeRanks]) -> dict[str, tuple[int, ...] | None]:
    """Ranks of each process group: those that use it; the default group has all ranks."""
    users: dict[str, list[int]] = {}
    for block in blocks:
        for name in dict.fromkeys(call.communicator for call in _calls(block.tasks)):
            users.setdefault(name, []).extend(block.ranks.tolist())
    return {name: None if name == DEFAULT_GROUP else tuple(ranks) for name, ranks in users.items()}


@dataclass(frozen=True, slots=True)
class _Template:
    """Tasks of the first rank of a structure; the others differ in durations only.

    Attributes:
        tasks: tasks of the first rank.
        node_of: place in the file of each task's node ``[T]``.
        gaps: facts that its nodes lack, durations left out.
        timed: places of nodes that should have a duration.
        traces: rank, file and place of each trace ``[P]``.
        durations_us: durations of the nodes of each trace ``[P][N]``.
    """

    tasks: RankTasks
    node_of: tuple[int, ...]
    gaps: Counter[str]
    timed: tuple[int, ...]
    traces: list[tuple[int, Path, int]] = field(default_factory=list)
    durations_us: list[list[int]] = field(default_factory=list)

    def block(self) -> AlikeRanks:
        """The tasks on all ranks."""
        ranks, files, places = zip(*self.traces, strict=True)
        durations_us = np.array(self.durations_us, dtype=np.int64).T
        seconds = durations_us[np.array(self.node_of, dtype=np.int64)].astype(np.float64) * US
        return AlikeRanks(self.tasks, np.array(ranks, dtype=np.int64), tuple(map(str, files)), places, seconds)

    def gaps_by_rank(self) -> Iterator[tuple[int, Counter[str]]]:
        """Each rank with the gaps in its nodes."""
        durations_us = np.array(self.durations_us, dtype=np.int64)
        untimed = (durations_us[:, self.timed] == 0).sum(axis=1).tolist()
        for (rank, *_), count in zip(self.traces, untimed, strict=True):
            yield rank, self.gaps + Counter({UNTIMED: count}) if count else self.gaps


@dataclass(frozen=True, slots=True)
class _Structures:
    """Templates of the traces read so far, and the layouts of their files."""

    by_key: dict[tuple[bytes, ...], _Template] = field(default_factory=dict)
    layouts: list[tuple[Layout, _Template]] = field(default_factory=list)

    @property
    def templates(self) -> Iterable[_Template]:
        """The templates in the order of their first traces."""
        return self.by_key.values()

    def read(self, file: Path, rank: int, place: int) -> None:
        """Add a trace to the template of its structure, which may be new.

        Raises:
            InputError: it is no such trace, or contradicts itself.
        """
        parts = chunks(file)
        raw, more = next(parts, b""), next(parts, None)
        template, durations_us = (None, []) if more is not None else self._known(file, raw)
        if template is None:
            template, durations_us = self._parsed(file, rank, [raw] if more is None else chain([raw, more], parts))
        template.traces.append((rank, file, place))
        template.durations_us.append(durations_us)

    def _known(self, file: Path, raw: bytes) -> tuple[_Template | None, list[int]]:
        """Template and durations of a file of a known layout, the last one first."""
        begin = nodes_begin(file, raw) if self.layouts else None
        for number, (layout, template) in enumerate(self.layouts if begin is not None else ()):
            durations_us = layout.durations_us(raw, begin or 0)
            if durations_us is not None and max(durations_us) <= LONGEST_US:
                self.layouts.insert(0, self.layouts.pop(number))
                return template, durations_us
        return None, []

    def _parsed(self, file: Path, rank: int, parts: Iterable[bytes]) -> tuple[_Template, list[int]]:
        """Template and durations of a file that is read node by node."""
        nodes, places, structure, durations_us, payloads = [], [], [], [], []
        for node, at, payload in read_nodes(file, parts):
            durations_us.append(min(int(node.duration_micros), LONGEST_US + 1))
            nodes.append(node)
            places.append(at)
            payloads.append(payload)
            bare = type(node)()
            bare.CopyFrom(node)
            bare.ClearField("duration_micros")
            bare.ClearField("start_time_micros")
            structure.append(bare.SerializeToString())
        template = self.by_key.get(tuple(structure))
        if template is None or max(durations_us) > LONGEST_US:  # refused, unless it is of a node without work
            template = self.by_key.setdefault(tuple(structure), _template(file, rank, nodes, places))
        layout = Layout.of(payloads)
        if layout is not None:
            self.layouts.insert(0, (layout, template))
            del self.layouts[MAX_LAYOUTS:]
        return template, durations_us


def _template(file: Path, rank: int, nodes: Sequence[Any], places: Sequence[int]) -> _Template:
    gaps: Counter[str] = Counter()
    order = _in_order(file, nodes, places, gaps)
    builder = RankTasksBuilder(rank, str(file))
    numbers: dict[int, int] = {}
    for place in order:
        node = nodes[place]
        attributes = {a.name: getattr(a, a.WhichOneof("value") or "name") for a in node.attr}
        stream, work = _work(file, places[place], node, attributes, gaps)
        needed = {*node.data_deps, *node.ctrl_deps}
        if "stream" in attributes:  # a trace of dlrmsim export: ctrl_deps are the order of its streams
            needed = set(node.data_deps) - set(node.ctrl_deps)
        after = [numbers[d] for d in sorted(needed) if d in numbers]
        name, section = node.name or f"node {node.id}", str(attributes.get("section", SECTION))
        on = builder.stream(str(attributes.get("stream", stream)))
        numbers[node.id] = builder.task(name, on, work, 0, 0, section=section, after=after)
    timed = tuple(place for place in order if nodes[place].type == COMP and not _on_host(nodes[place]))
    return _Template(builder.build(), tuple(order), gaps, timed)


def _on_host(node: Any) -> bool:
    """Whether a node is no work of a device: an operator of the host, or a tail of a collective that we wrote."""
    values = {a.name: getattr(a, a.WhichOneof("value") or "name") for a in node.attr}
    return values.get("is_cpu_op") is True or values.get("category") in (Category.COMM, Category.COPY)


def _in_order(file: Path, nodes: Sequence[Any], places: Sequence[int], gaps: Counter[str]) -> list[int]:
    """Nodes that do something, inputs first, else as in the file.

    Raises:
        InputError: an id stands twice, dependencies form a cycle, or there are no nodes.
    """
    place_of: dict[int, int] = {}
    for place, node in enumerate(nodes):
        if node.id in place_of:
            raise _wrong(
                file, places[place], node, f"has the id {node.id} of another node", "an id of its own for each node"
            )
        place_of[node.id] = place
    waiting: dict[int, set[int]] = {}
    followers: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        needed = [*node.data_deps, *node.ctrl_deps]
        waiting[place] = {place_of[d] for d in needed if d in place_of}
        gaps["dependencies on nodes the trace does not have"] += sum(d not in place_of for d in needed)
        for before in waiting[place]:
            followers.setdefault(before, []).append(place)
    ready = [place for place, before in waiting.items() if not before]
    order = []
    heapify(ready)
    while ready:
        place = heappop(ready)
        order.append(place)
        for after in followers.get(place, ()):
            waiting[after].discard(place)
            if not waiting[after]:
                heappush(ready, after)
    if len(order) < len(nodes):
        stuck = next(place for place in range(len(nodes)) if waiting[place])
        raise _wrong(file, places[stuck], nodes[stuck], "waits for itself: its dependencies form a cycle", "none")
    order = [place for place in order if nodes[place].type != _METADATA]
    if not order:
        raise InputError("has no nodes", file=file, expected="a Chakra execution trace with nodes")
    return order


def _work(file: Path, at: int, node: Any, attributes: Mapping[str, Any], gaps: Counter[str]) -> tuple[str, Work]:
    """Stream and work of a node."""
    if node.duration_micros > LONGEST_US:
        raise _wrong(file, at, node, f"has the duration {node.duration_micros} us", f"at most {LONGEST_US:,}")
    seconds = node.duration_micros * US
    if node.type == COMM_COLL:
        kind = attributes.get("comm_type")
        op = COMM_OPS.get(kind) if type(kind) is int else None
        if op is None:
            expected = f"one of {', '.join(map(str, COMM_OPS))}"
            raise _wrong(file, at, node, f"has the comm_type {shown(kind)}, which is no collective we know", expected)
        size = _bytes(file, at, node, attributes, "comm_size")
        group = str(attributes.get("pg_name") or DEFAULT_GROUP)
        amount = np.array([float(size)]) if attributes.get("uneven") is True else float(size)
        dtype = str(attributes.get("dtype", "int8"))
        if attributes.get("op") == SEND:
            op, amount = SEND, amount / SEND_PARTS
        return "comm", CollectiveCall(op, group, amount, dtype)  # type: ignore[arg-type]
    if node.type in (COMM_SEND, COMM_RECV):
        gaps["point-to-point messages (kept with the duration the trace gives)"] += 1
        return "comm", Measured(seconds, Category.COMM, node.name)
    if node.type in (_LOAD, _STORE):
        return "memory", Copy(float(_bytes(file, at, node, attributes, "tensor_size")), "d2d")
    if node.type != COMP:
        expected = f"{COMP}, {COMM_SEND}, {COMM_RECV}, {COMM_COLL}, {_LOAD} or {_STORE}"
        raise _wrong(file, at, node, f"has the node type {node.type}", expected)
    on_host = attributes.get("is_cpu_op") is True
    return ("host" if on_host else "compute"), _private(seconds, on_host=on_host, name=node.name, attributes=attributes)


def _private(seconds: float, *, on_host: bool, name: str, attributes: Mapping[str, Any]) -> Work:
    """The work of a compute node, as far as its attributes describe it."""
    if "cause" in attributes:
        return Delay(seconds, str(attributes["cause"]))
    category = str(attributes.get("category", ""))
    if category in tuple(Category):
        return Measured(seconds, Category(category), str(attributes.get("kernel", name)))
    return Measured(seconds, Category.HOST if on_host else Category.COMPUTE, name)


def _bytes(file: Path, at: int, node: Any, attributes: Mapping[str, Any], name: str) -> int:
    """A size; 0 where the node has none."""
    size = attributes.get(name, 0)
    if type(size) is not int or not 0 <= size <= MAX_BYTES:
        raise _wrong(file, at, node, f"has the {name} {shown(size)}", f"a whole number, 0 to {MAX_BYTES:,}")
    return size


def _wrong(file: Path, at: int, node: Any, message: str, expected: str) -> InputError:
    message = f"node {node.id} ({node.name[:60]!r}) {message}"
    return InputError(message, file=file, key=f"byte {at}", expected=expected)
