"""Valid files of every kind, each in a folder with all that it needs, and the commands that read them."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from benchmarks.robustness.lines import Arguments, Bytes
from benchmarks.robustness.small_files import (
    CLUSTER,
    COMMAND_LINES,
    EVERY_KEY,
    JOB,
    MODEL,
    NCCL_LOG,
    REUSE,
    SUITE,
    TABLES,
    chakra_trace,
    execution_trace,
    kineto_trace,
)
from benchmarks.robustness.tables import Csv, Parquet
from benchmarks.robustness.trees import Tree
from benchmarks.robustness.values import Form

ROOT = Path(__file__).parents[2]
YAML, JSON = Tree(yaml=True), Tree()
JSON_GZ = Tree(pack=gzip.compress, unpack=gzip.decompress)
RUN = ("--no-report", "--no-levers", "--json", "--out", "out")
LARGE_MODELS = ("synthetic_jumbo", "zionex_a", "zionex_f")
"""Models whose plans take seconds; the other ones have the same keys."""
BIG = ("--set", "cluster=zionex", "--set", "world_size=32", "--set", "workload.global_batch_size=65536")
COLLECTIVE = ("--op", "all_reduce", "--bytes", "1KiB,1MiB", "--json", "--ranks")
RECORD_JOBS, RECORD_ROWS = 1, 40
"""Jobs and every how many-th row of the shipped record that the sample keeps: fitting all takes minutes."""
INDICES = "[0, 1, 2, 2, 3, 3, 3, 7, 9, 4, 1, 0]"


@dataclass(frozen=True, slots=True)
class Sample:
    """A valid file and the command that reads it.

    Attributes:
        kind: kind of the file.
        folder: folder with the file and all that the command needs.
        file: the file that is mutated, in the folder.
        form: form of its content.
        arguments: command line, run in a copy of the folder; empty: the file is the command line.
    """

    kind: str
    folder: Path
    file: str
    form: Form
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Kind and name of the sample."""
        return f"{self.kind}/{self.folder.name}"

    def command(self, data: bytes) -> list[str]:
        """Command line of a case whose file has these bytes."""
        return list(self.arguments) or Arguments().read(data)


def make_samples(folder: Path, *, measured: bool = False) -> list[Sample]:
    """Write all samples.

    Args:
        folder: an empty folder.
        measured: whether to train a job for the results of ``measure``, which takes half a minute.
    """
    maker = _Maker(folder)
    with chdir(folder):
        for make in (_machines, _jobs, _models, _suites, _results, _traces, _command_lines):
            make(maker)
        if measured:
            _measured(maker)
    return maker.made


class _Maker:
    """Writes the folders of samples."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[Sample] = []

    def add(
        self, kind: str, name: str, files: Mapping[str, str | bytes], file: str, form: Form, *arguments: str
    ) -> None:
        """Write a sample of some files."""
        folder = self.root / kind / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)
        self.made.append(Sample(kind, folder, file, form, arguments))

    def folder(self, kind: str, name: str, source: Path, file: str, form: Form, *arguments: str) -> None:
        """Make a sample whose folder ``results`` is a copy of ``source``."""
        shutil.copytree(source, self.root / kind / name / "results")
        self.made.append(Sample(kind, self.root / kind / name, file, form, arguments))


def _shipped(*parts: str) -> Iterator[tuple[str, str]]:
    for file in sorted(ROOT.joinpath(*parts).glob("*.yaml")):
        yield file.stem, file.read_text(encoding="utf-8")


def _machines(maker: _Maker) -> None:
    """Clusters, nodes, GPUs, NICs, CPUs, libraries, hosts."""
    job = {"job.yaml": JOB, "model.yaml": MODEL}
    run = ("run", "job.yaml", "--set", "cluster=cluster.yaml", *RUN)
    for name, text in _shipped("hardware_specs", "clusters"):
        maker.add("cluster", name, {"cluster.yaml": text}, "cluster.yaml", YAML, "collective", "cluster.yaml", *COLLECTIVE, "2")  # fmt: skip
    maker.add("cluster", "job", {**job, "cluster.yaml": dict(_shipped("hardware_specs", "clusters"))["zionex"]}, "cluster.yaml", YAML, *run)  # fmt: skip
    for name, text in _shipped("hardware_specs", "nodes"):
        files = {"cluster.yaml": CLUSTER, "node.yaml": text}
        maker.add("node", name, files, "node.yaml", YAML, "collective", "cluster.yaml", *COLLECTIVE, "2")
    node = dict(_shipped("hardware_specs", "nodes"))["dgx_a100_80"]
    for kind, own, key in (("gpu", "gpus", "gpu: a100_sxm4_80"), ("nic", "nics", "nic: connectx_6_hdr"), ("cpu", "cpus", "cpu: epyc_7742")):  # fmt: skip
        changed = node.replace(key, f"{kind}: part.yaml")
        for name, text in _shipped("hardware_specs", own):
            files = {**job, "cluster.yaml": CLUSTER, "node.yaml": changed, "part.yaml": text}
            maker.add(kind, name, files, "part.yaml", YAML, *run)
    for name, text in _shipped("hardware_specs", "libraries"):
        files = {"cluster.yaml": CLUSTER.replace("nccl_2_30", "library.yaml"), "node.yaml": node, "library.yaml": text}
        maker.add("library", name, files, "library.yaml", YAML, "collective", "cluster.yaml", *COLLECTIVE, "8,16")
    for name, text in _shipped("hardware_specs", "hosts"):
        scenario = (ROOT / "scenarios/library/criteo_small.yaml").read_text(encoding="utf-8").replace(name, "host.yaml")
        maker.add("host", name, {"job.yaml": scenario, "host.yaml": text}, "host.yaml", YAML, "run", "job.yaml", *RUN)
    record = json.loads(gzip.decompress((ROOT / "validation/hosts/zen5_2_cores.record.json.gz").read_bytes()))
    record |= {"rows": record["rows"][::RECORD_ROWS], "jobs": record["jobs"][:RECORD_JOBS]}
    packed = gzip.compress(json.dumps(record).encode())
    maker.add("host_record", "zen5", {"h.record.json.gz": packed}, "h.record.json.gz", JSON_GZ, "calibrate", "host", "--record", "h.record.json.gz", "--out", "h.yaml")  # fmt: skip


def _jobs(maker: _Maker) -> None:
    """Scenarios, resolved scenarios, plans, frameworks."""
    files = {"job.yaml": JOB, "model.yaml": MODEL}
    maker.add("scenario", "small", files, "job.yaml", YAML, "run", "job.yaml", *RUN)
    maker.add("scenario", "every_key", {**files, "job.yaml": EVERY_KEY}, "job.yaml", YAML, "run", "job.yaml", *RUN)
    for name, text in _shipped("scenarios", "library"):
        maker.add("scenario", name, {"job.yaml": text}, "job.yaml", YAML, "run", "job.yaml", "--check", "--json")
    resolved = (_small_run(maker) / "scenario.resolved.yaml").read_text(encoding="utf-8")
    maker.add("resolved", "small", {"job.yaml": resolved}, "job.yaml", YAML, "run", "job.yaml", *RUN)
    plan = maker.root / "plan"
    _dlrmsim("plan", "small_files/job.yaml", "--out", str(plan))
    planned = {**files, "plan.json": (plan / "plan.json").read_bytes()}
    shutil.rmtree(plan)
    maker.add("plan", "small", planned, "plan.json", JSON, "run", "job.yaml", "--set", "workload.sharding={plan: plan.json}", *RUN)  # fmt: skip
    for name, text in _shipped("workloads", "frameworks"):
        maker.add("framework", name, {**files, "f.yaml": text}, "f.yaml", YAML, "run", "job.yaml", "--set", "workload.framework=f.yaml", *RUN)  # fmt: skip


def _small_run(maker: _Maker) -> Path:
    """Folder of a run of the small job."""
    folder = maker.root / "small_run"
    if not folder.exists():
        files = maker.root / "small_files"
        files.mkdir()
        (files / "job.yaml").write_text(JOB, encoding="utf-8")
        (files / "model.yaml").write_text(MODEL, encoding="utf-8")
        _dlrmsim("run", str(files / "job.yaml"), "--no-report", "--no-levers", "--out", str(folder))
    return folder


def _models(maker: _Maker) -> None:
    """Models, table lists, reuse histograms, index files."""
    run = ("run", "job.yaml", *RUN)
    maker.add("model", "small", {"job.yaml": JOB, "model.yaml": MODEL}, "model.yaml", YAML, *run)
    for name, text in _shipped("workloads", "models"):
        if name in LARGE_MODELS:
            continue
        maker.add("model", name, {"job.yaml": JOB, "model.yaml": text}, "model.yaml", YAML, "run", "job.yaml", *BIG, "--check", "--json")  # fmt: skip
    tables = {"job.yaml": JOB, "model.yaml": MODEL.replace(MODEL.split("tables:")[1].split("\n")[0], " null\ntable_list: t.csv"), "t.csv": TABLES}  # fmt: skip
    maker.add("table_list", "small", tables, "t.csv", Csv(), *run)
    for name, text in _shipped("workloads", "index_reuse"):
        law = ("--set", "workload.indices={distribution: reuse, histogram: h.yaml}")
        maker.add("reuse", name, {"job.yaml": JOB, "model.yaml": MODEL, "h.yaml": text}, "h.yaml", YAML, *run, *law)
    maker.add("reuse", "small", {"job.yaml": JOB, "model.yaml": MODEL, "h.yaml": REUSE}, "h.yaml", YAML, *run, *law)
    for name, (data, form) in _index_files().items():
        law = ("--set", f"workload.indices={{distribution: measured, file: {name}}}")
        files = {"job.yaml": JOB, "model.yaml": MODEL, name: data}
        maker.add("indices", name.replace(".", "_"), files, name, form, *run, *law)


def _index_files() -> dict[str, tuple[bytes, Form]]:
    import numpy as np
    import pyarrow as pa

    values, out, zipped = np.array(json.loads(INDICES)), io.BytesIO(), io.BytesIO()
    np.save(out, values)
    np.savez(zipped, a=values)
    text = "index\n" + "\n".join(map(str, values)) + "\n"
    parquet = Parquet().write(pa.table({"index": values}))
    return {
        "i.npy": (out.getvalue(), Bytes()),
        "i.npz": (zipped.getvalue(), Bytes()),
        "i.csv": (text.encode(), Csv()),
        "i.parquet": (parquet, Parquet()),
    }


def _suites(maker: _Maker) -> None:
    """Suites and their tables, kernels and collectives to fit."""
    validate = ("validate", "suite.yaml", "--json", "--workers", "1")
    for name in ("fdr_allreduce", "aries_alltoall", "omnipath_allreduce", "v100_nccl"):
        suite = (ROOT / "validation/suites" / f"{name}.yaml").read_text(encoding="utf-8")
        tables = {
            file.name: _thinned(file) for file in (ROOT / "validation/suites").glob("*.csv") if file.name in suite
        }
        maker.add("suite", name, {"suite.yaml": suite, **tables}, "suite.yaml", YAML, *validate)
        for table in tables:
            maker.add("suite_table", f"{name}_{table[:-4]}", {"suite.yaml": suite, **tables}, table, Csv(), *validate)
    maker.add("suite", "jobs", {"suite.yaml": SUITE, "job.yaml": JOB, "model.yaml": MODEL}, "suite.yaml", YAML, *validate)  # fmt: skip
    rows = {"rows.csv": _thinned(ROOT / "validation/kernels/v100_sxm2_16.csv")}
    maker.add("kernels", "v100", rows, "rows.csv", Csv(), "calibrate", "kernels", "rows.csv", "--gpu", "v100_sxm2_16", "--out", "gpu.yaml")  # fmt: skip
    fit = ("calibrate", "collectives", "rows.csv", "--cluster", "deepbench_m40", "--out", "c.yaml")
    rows = {"rows.csv": _thinned(ROOT / "validation/suites/fdr_m40.csv")}
    maker.add("nccl_table", "m40", rows, "rows.csv", Csv(), *fit)


def _thinned(file: Path, rows: int = 24) -> str:
    """Names and at most so many rows of a CSV, from all over it."""
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join([head, *lines[:: max(1, len(lines) // rows)]]) + "\n"


def _results(maker: _Maker) -> None:
    """Files of a run: summary, record, timeline, Chrome trace."""
    run = _small_run(maker)
    for name, file in (("summary", "summary.json"), ("record", "run.json")):
        compare = ("compare", "results", "results", "--json")
        maker.add(name, "compare", {}, f"results/{file}", JSON, *compare)
        shutil.copytree(run, maker.root / name / "compare" / "results")
    files: dict[str, str | bytes] = {"job.yaml": JOB, "model.yaml": MODEL}
    maker.add("record", "run_again", files, "results/run.json", JSON, "run", "job.yaml", "--no-report", "--no-levers", "--json", "--out", "results")  # fmt: skip
    shutil.copytree(run, maker.root / "record" / "run_again" / "results")
    timeline, chrome = (run / "timeline.parquet").read_bytes(), (run / "trace.json.gz").read_bytes()
    for name, arguments in (
        ("import", ("import", "timeline.parquet", "--json", "--out", "out")),
        ("compare", ("compare", "timeline.parquet", "timeline.parquet", "--json")),
        ("export", ("export", "timeline.parquet", "--format", "chrome", "--out", "out")),
    ):
        maker.add("timeline", name, {"timeline.parquet": timeline}, "timeline.parquet", Parquet(), *arguments)
    maker.folder("timeline", "results", run, "results/timeline.parquet", Parquet(), "export", "results", "--format", "chakra", "--out", "out")  # fmt: skip
    maker.add("chrome", "import", {"trace.json.gz": chrome}, "trace.json.gz", JSON_GZ, "import", "trace.json.gz", "--json")  # fmt: skip
    maker.add("packed", "chrome", {"trace.json.gz": chrome}, "trace.json.gz", Bytes(), "import", "trace.json.gz", "--json")  # fmt: skip


def _traces(maker: _Maker) -> None:
    """Traces of others: Kineto, PyTorch, Chakra, logs of nccl-tests."""
    kineto = {f"rank{rank}.json": json.dumps(kineto_trace(rank)) for rank in range(2)}
    for name, arguments in (
        ("import", ("import", "rank0.json", "rank1.json", "--json")),
        ("whole", ("import", "rank0.json", "rank1.json", "--whole", "--json", "--out", "out")),
        ("replay", ("replay", "rank0.json", "rank1.json", "--cluster", "dgx_a100_80", "--json")),
    ):
        maker.add("kineto", name, kineto, "rank0.json", JSON, *arguments)
    et = {"et_0.json": json.dumps(execution_trace())}
    maker.add("pytorch", "import", et, "et_0.json", JSON, "import", "et_0.json", "--json")
    chakra: dict[str, str | bytes] = {f"job.{rank}.et": chakra_trace() for rank in range(2)}
    maker.add("chakra", "import", chakra, "job.0.et", Bytes(), "import", "job.0.et", "job.1.et", "--json")
    maker.add("chakra", "replay", chakra, "job.0.et", Bytes(), "replay", "job.0.et", "job.1.et", "--cluster", "dgx_a100_80", "--json")  # fmt: skip
    log = {"all_reduce.log": NCCL_LOG}
    maker.add("nccl_log", "import", log, "all_reduce.log", Bytes(), "import", "all_reduce.log", "--json")
    maker.add("nccl_log", "fit", log, "all_reduce.log", Bytes(), "calibrate", "collectives", "all_reduce.log", "--cluster", "hgx_h200", "--out", "c.yaml")  # fmt: skip


def _command_lines(maker: _Maker) -> None:
    files: dict[str, str | bytes] = {"job.yaml": JOB, "model.yaml": MODEL, "rank0.json": json.dumps(kineto_trace(0))}
    for number, line in enumerate(COMMAND_LINES):
        maker.add("command", str(number), {**files, "arguments": line.replace(" ", "\n")}, "arguments", Arguments())


def _measured(maker: _Maker) -> None:
    """Results of a measured job."""
    folder = maker.root / "measured_run"
    _dlrmsim("measure", "criteo_small", "--ranks", "1", "--iterations", "3", "--out", str(folder))
    forms: Sequence[tuple[str, Form]] = (
        ("measured.json", JSON),
        ("iterations.parquet", Parquet()),
        ("scenario.resolved.yaml", YAML),
    )
    for file, form in forms:
        name = file.split(".", maxsplit=1)[0]
        maker.folder("measured", name, folder, f"results/{file}", form, "validate", "--measured", "results", "--json")


def _dlrmsim(*arguments: str) -> None:
    from dlrmsim.cli import main

    with redirect_stdout(io.StringIO()):
        code = main(arguments)
    if code:
        raise RuntimeError(f"dlrmsim {' '.join(arguments)} gives exit code {code}")


