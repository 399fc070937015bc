"""``calibrate_host``: time kernels and collectives of this machine and write it as a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlrmsim.hosts.cpus import MINUTES, HostSpec, refit_host
from dlrmsim.hosts.cpus import calibrate_host as calibrate_cpus
from dlrmsim.hosts.gpus import GpuSpec, calibrate_gpus, refit_gpus
from dlrmsim.hosts.machine import device_for, require_torch
from dlrmsim.verbs.what import Name, Names, names_of
from inputs.errors import InputError
from scenarios.located import of_file
from scenarios.progress import Progress
from validation.gpu.record import GpuRecord


@dataclass(frozen=True, slots=True)
class CalibrateHostResult:
    """A cluster that is written.

    Attributes:
        file: the cluster.
        spec: spec of its CPUs, or of its GPUs.
    """

    file: Path
    spec: HostSpec | GpuSpec

    @property
    def taken_over(self) -> int:
        """Number of measurements that an interrupted run had made."""
        return self.spec.taken_over


def calibrate_host(
    what: Names = (),
    *,
    minutes: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    cluster: str | None = None,
    out: Name = "host.yaml",
    fresh: bool = False,
    progress: Progress | None = None,
) -> CalibrateHostResult:
    """Measure this machine, or take records of earlier measurements, and write the cluster.

    Measurements are kept until then (`dlrmsim.output.kept`): an interrupted calibration goes on with them.

    Args:
        what: records of earlier calibrations; none: measure.
        minutes: time that measuring may take; default 3.
        seed: seed of the sizes and jobs; default 0.
        device: ``cpu`` or ``cuda``; default: ``cuda`` where there is a GPU.
        cluster: on GPUs, the cluster whose values count for all that is not timed; default: the first shipped one with
            such a GPU.
        out: YAML file of the cluster; its record and tables go beside it.
        fresh: whether to measure again what an interrupted run had measured.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: an option or a record is wrong, or ``out`` cannot be written.
        RankFailedError: a rank died.
    """
    records, file = [str(name) for name in names_of(what)], Path(out)
    if records:
        given = {
            "--minutes": minutes,
            "--seed": seed,
            "--device": device,
            "--cluster": cluster,
            "--fresh": fresh or None,
        }
        for name, value in given.items():
            if value is not None:
                raise InputError("nothing is measured with --record", file=name, given=value, expected="one of the two")
        return CalibrateHostResult(file, _refitted(records, file, progress))
    require_torch()
    time_min, draws = MINUTES if minutes is None else minutes, seed or 0
    if device_for(device, 1) == "cuda":
        return CalibrateHostResult(file, calibrate_gpus(file, cluster, time_min, draws, progress, fresh=fresh))
    if cluster is not None:
        raise InputError("is for GPUs alone", file="--cluster", given=cluster, expected="no --cluster on CPUs")
    return CalibrateHostResult(file, calibrate_cpus(file, time_min, draws, progress, fresh=fresh))


def _refitted(records: list[str], file: Path, progress: Progress | None) -> HostSpec | GpuSpec:
    of_gpus = GpuRecord.read(Path(records[0]))
    if of_gpus is None:
        return refit_host(records, file, progress)
    if len(records) > 1:
        raise InputError("records of GPUs are fitted one by one", file="--record", given=records[1], expected="one")
    with of_file(records[0]):
        return refit_gpus(of_gpus, file, progress)
