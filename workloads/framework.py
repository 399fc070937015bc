"""Framework profiles: what the training framework does around the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from inputs.catalog import Catalog
from inputs.model import Strict
from inputs.quantities import Bytes, Seconds
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from workloads.graded import Graded

CudaGraph: TypeAlias = Literal["none", "network", "iteration"]

FRAMEWORKS = Catalog("framework", "workloads", "frameworks")


class Framework(Strict):
    """A framework profile.

    Attributes:
        name: equal to the file's name.
        title: one line for people.
        launch_s: host time to launch one kernel, seconds.
        operator_s: host time of one operator beside its launches (dispatch, Python, autograd), seconds.
        first_bucket_bytes: size at which DDP closes the first gradient bucket.
        bucket_bytes: size at which it closes the others.
        input_process_group: ``shared``: all collectives serialise on one communication stream; ``own``: those of
            input_dist have a process group, hence a stream, of their own.
        index_bytes: size of an index.
        length_bytes: size of a bag length.
        optimizer_kernels: kernels of the dense optimizer step (multi-tensor).
        cuda_graph: what one launch starts, unless the scenario says so; see `workloads.settings.DlrmSettings`.
        overlap_exchange: see `workloads.settings.Overlaps`, as the next two.
        overlap_all_reduce: likewise.
        overlap_weight_gradients: likewise.
        reserve_bytes: device memory that the framework takes (context, allocator slack, NCCL buffers).
    """

    name: str
    title: str
    launch_s: Graded[Seconds]
    operator_s: Graded[Seconds]
    first_bucket_bytes: Graded[Bytes]
    bucket_bytes: Graded[Bytes]
    input_process_group: Graded[Literal["shared", "own"]]
    index_bytes: Graded[Literal[4, 8]]
    length_bytes: Graded[Literal[4, 8]]
    optimizer_kernels: Graded[int]
    cuda_graph: Graded[CudaGraph]
    overlap_exchange: Graded[bool]
    overlap_all_reduce: Graded[bool]
    overlap_weight_gradients: Graded[bool]
    reserve_bytes: Graded[Bytes]


def load_framework(name_or_path: str | Path, *, origin: Document | None = None, key: str = "") -> Framework:
    """Read a shipped profile by name or a profile by path.

    Args:
        name_or_path: as in a scenario.
        origin: the document that names the framework, for messages and relative paths.
        key: where in ``origin``.

    Raises:
        InputError: no such profile, or the file is wrong.
    """
    return validate(Framework, load_yaml(FRAMEWORKS.find(name_or_path, origin=origin, key=key)))
