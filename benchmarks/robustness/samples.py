"""Valid files of every kind, each in a folder with all that it needs, and the commands that read them."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from benchmarks.robustness.chakra import Chakra
from benchmarks.robustness.lines import Arguments, Bytes
from benchmarks.robustness.small_files import (
    ARRIVING_JOBS,
    BLOCKS,
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
from hardware_specs.loader import load_cluster
from inputs.yaml_lines import parse_yaml
from validation.gpu.record import GpuJob, GpuRecord

ROOT = Path(__file__).parents[2]
YAML, JSON = Tree(yaml=True), Tree()
JSON_GZ = Tree(pack=gzip.compress, unpack=gzip.decompress)
RUN = "run job.yaml --no-report --no-levers --json --out out"
CHECK = "run job.yaml --check --json"
LARGE_MODELS = ("synthetic_jumbo", "zionex_a", "zionex_f")
"""Models whose plans take seconds; the other ones have the same keys."""
BIG = "--set cluster=zionex --set world_size=32 --set workload.global_batch_size=65536"
ARRIVALS = "advise jobs.yaml --arrivals --workers 1 --json"
COLLECTIVE = "collective cluster.yaml --op all_reduce --bytes 1KiB,1MiB --json --ranks"
RECORD_JOBS, RECORD_ROWS = 1, 40
"""Jobs and every how many-th row of the shipped record that the sample keeps: fitting all takes minutes."""
JOB_FILES = {"job.yaml": JOB, "model.yaml": MODEL}
INDICES = [0, 1, 2, 2, 3, 3, 3, 7, 9, 4, 1, 0]


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
        for make in (_machines, _parts, _hosts, _jobs, _models, _suites, _results, _traces, _command_lines):
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
        self,
        kind: str,
        name: str,
        files: Mapping[str, str] | Mapping[str, bytes] | Mapping[str, str | bytes],
        file: str,
        form: Form,
        command: str = "",
    ) -> None:
        """Write a sample of some files; its results, if any, are copied by `results`."""
        folder = self.root / kind / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)
        self.made.append(Sample(kind, folder, file, form, tuple(shlex.split(command))))

    def results(self, kind: str, name: str, source: Path, file: str, form: Form, command: str) -> None:
        """Make a sample whose folder ``results`` is a copy of ``source``, beside the files of the small job."""
        shutil.copytree(source, self.root / kind / name / "results")
        self.add(kind, name, JOB_FILES, f"results/{file}", form, command)


def _shipped(*parts: str) -> Iterator[tuple[str, str]]:
    for file in sorted(ROOT.joinpath(*parts).glob("*.yaml")):
        yield file.stem, file.read_text(encoding="utf-8")


def _machines(maker: _Maker) -> None:
    """Clusters and nodes."""
    for name, text in _shipped("hardware_specs", "clusters"):
        maker.add("cluster", name, {"cluster.yaml": text}, "cluster.yaml", YAML, f"{COLLECTIVE} 2")
        if name == "zionex":
            files = {**JOB_FILES, "cluster.yaml": text}
            maker.add("cluster", "job", files, "cluster.yaml", YAML, f"{RUN} --set cluster=cluster.yaml")
    for name, text in _shipped("hardware_specs", "nodes"):
        files = {"cluster.yaml": CLUSTER, "node.yaml": text}
        maker.add("node", name, files, "node.yaml", YAML, f"{COLLECTIVE} 2")


def _parts(maker: _Maker) -> None:
    """GPUs, NICs, CPUs and libraries in a node of DGX A100."""
    node = dict(_shipped("hardware_specs", "nodes"))["dgx_a100_80"]
    for kind, line in (("gpu", "gpu: a100_sxm4_80"), ("nic", "nic: connectx_6_hdr"), ("cpu", "cpu: epyc_7742")):
        changed = node.replace(line, f"{kind}: part.yaml")
        for name, text in _shipped("hardware_specs", f"{kind}s"):
            files = {**JOB_FILES, "cluster.yaml": CLUSTER, "node.yaml": changed, "part.yaml": text}
            maker.add(kind, name, files, "part.yaml", YAML, f"{RUN} --set cluster=cluster.yaml")
    for name, text in _shipped("hardware_specs", "libraries"):
        cluster = CLUSTER.replace("nccl_2_30", "library.yaml")
        files = {"cluster.yaml": cluster, "node.yaml": node, "library.yaml": text}
        maker.add("library", name, files, "library.yaml", YAML, f"{COLLECTIVE} 8,16")


def _hosts(maker: _Maker) -> None:
    """Hosts and the record that a host is fitted to."""
    for name, text in _shipped("hardware_specs", "hosts"):
        job = (ROOT / "scenarios/library/criteo_small.yaml").read_text(encoding="utf-8").replace(name, "host.yaml")
        maker.add("host", name, {"job.yaml": job, "host.yaml": text}, "host.yaml", YAML, RUN)
    record = json.loads(gzip.decompress((ROOT / "validation/hosts/zen5_2_cores.record.json.gz").read_bytes()))
    record |= {"rows": record["rows"][::RECORD_ROWS], "jobs": record["jobs"][:RECORD_JOBS]}
    file = "h.record.json.gz"
    packed = {file: gzip.compress(json.dumps(record).encode())}
    refit = f"calibrate host --record {file} --out h.yaml"
    maker.add("host_record", "zen5", packed, file, JSON_GZ, refit)
    maker.add("gpu_record", "dgx_h100", {file: _gpu_record()}, file, JSON_GZ, refit)


def _gpu_record() -> bytes:
    """A record of GPUs that were not timed, with a row of each kind, and jobs too few for a fit, which takes long."""
    timed = {"threads": 1, "ranks": 1, "evicted_bytes": 0, "times_s": [1e-4, 1.2e-4]}
    product = {"m": 512, "n": 512, "k": 512, "transposed": False}
    rows = [
        {"kind": "gemm", **product, **timed},
        {"kind": "batched", **product, "count": 16, **timed},
        {"kind": "stream", "read_bytes": 1e8, "write_bytes": 1e8, **timed},
        {"kind": "lookup", "rows": 100_000, "dim": 64, "bags": 4096, "lookups": 40_960, **timed},
        {"kind": "all_reduce", "bytes": 1 << 20, "threads": 1, "ranks": 2, "times_s": [1e-4]},
    ]
    job, model = (parse_yaml(text, Path()).data for text in (JOB, MODEL))
    workload = {"model": model, "global_batch_size": 512}
    scenario = job | {"cluster": None, "world_size": 1, "workload": workload, "run": {"iterations": 2}}
    jobs = [GpuJob(scenario, seconds) for seconds in (1e-3, 1.1e-3)]
    return GpuRecord("NVIDIA H100 80GB HBM3", load_cluster("dgx_h100"), "no measurement", rows, jobs).packed()


def _jobs(maker: _Maker) -> None:
    """Scenarios, resolved scenarios, plans, frameworks."""
    maker.add("scenario", "small", JOB_FILES, "job.yaml", YAML, RUN)
    maker.add("scenario", "every_key", {**JOB_FILES, "job.yaml": EVERY_KEY}, "job.yaml", YAML, RUN)
    for name, text in _shipped("scenarios", "library"):
        maker.add("scenario", name, {"job.yaml": text}, "job.yaml", YAML, CHECK)
    maker.add("jobs", "small", {**JOB_FILES, "jobs.yaml": ARRIVING_JOBS}, "jobs.yaml", YAML, ARRIVALS)
    blocks = "--set workload.model=alexnet --set workload.out_of_core=null --set workload.out_of_core_plan=blocks.yaml"
    karma = dict(_shipped("scenarios", "library"))["karma_resnet50"]
    maker.add("blocks", "alexnet", {"job.yaml": karma, "blocks.yaml": BLOCKS}, "blocks.yaml", YAML, f"{CHECK} {blocks}")
    resolved = (_small_run(maker) / "scenario.resolved.yaml").read_text(encoding="utf-8")
    maker.add("resolved", "small", {"job.yaml": resolved}, "job.yaml", YAML, RUN)
    _dlrmsim("plan", "small_files/job.yaml", "--out", "small_plan")
    planned = {**JOB_FILES, "plan.json": (maker.root / "small_plan" / "plan.json").read_text(encoding="utf-8")}
    maker.add("plan", "small", planned, "plan.json", JSON, f"{RUN} --set 'workload.sharding={{plan: plan.json}}'")
    for name, text in _shipped("workloads", "frameworks"):
        files = {**JOB_FILES, "f.yaml": text}
        maker.add("framework", name, files, "f.yaml", YAML, f"{RUN} --set workload.framework=f.yaml")


def _small_run(maker: _Maker) -> Path:
    """Folder of a run of the small job."""
    folder = maker.root / "small_run"
    if not folder.exists():
        files = maker.root / "small_files"
        files.mkdir()
        for name, text in JOB_FILES.items():
            (files / name).write_text(text, encoding="utf-8")
        _dlrmsim("run", str(files / "job.yaml"), "--no-report", "--no-levers", "--out", str(folder))
    return folder


def _models(maker: _Maker) -> None:
    """Models, table lists, reuse histograms, index files."""
    maker.add("model", "small", JOB_FILES, "model.yaml", YAML, RUN)
    for name, text in _shipped("workloads", "models"):
        if name not in LARGE_MODELS:
            files = {"job.yaml": JOB, "model.yaml": text}
            maker.add("model", name, files, "model.yaml", YAML, f"{CHECK} {BIG}")
    listed = re.sub("tables: .*", "table_list: t.csv", MODEL)
    maker.add("table_list", "small", {"job.yaml": JOB, "model.yaml": listed, "t.csv": TABLES}, "t.csv", Csv(), RUN)
    law = f"{RUN} --set 'workload.indices={{distribution: reuse, histogram: h.yaml}}'"
    for name, text in (*_shipped("workloads", "index_reuse"), ("small", REUSE)):
        maker.add("reuse", name, {**JOB_FILES, "h.yaml": text}, "h.yaml", YAML, law)
    for name, (data, form) in _index_files().items():
        law = f"{RUN} --set 'workload.indices={{distribution: measured, file: {name}}}'"
        texts = {key: text.encode() for key, text in JOB_FILES.items()}
        maker.add("indices", name.replace(".", "_"), {**texts, name: data}, name, form, law)


def _index_files() -> dict[str, tuple[bytes, Form]]:
    import numpy as np
    import pyarrow as pa

    values, out, zipped = np.array(INDICES), io.BytesIO(), io.BytesIO()
    np.save(out, values)
    np.savez(zipped, a=values)
    text = "index\n" + "\n".join(map(str, INDICES)) + "\n"
    parquet = Parquet().write(pa.table({"index": INDICES}))
    return {
        "i.npy": (out.getvalue(), Bytes()),
        "i.npz": (zipped.getvalue(), Bytes()),
        "i.csv": (text.encode(), Csv()),
        "i.parquet": (parquet, Parquet()),
    }


def _suites(maker: _Maker) -> None:
    """Suites and their tables, kernels and collectives to fit."""
    validate, suites = "validate suite.yaml --json --workers 1", ROOT / "validation/suites"
    for name in ("fdr_allreduce", "aries_alltoall", "omnipath_allreduce", "v100_nccl"):
        suite = (suites / f"{name}.yaml").read_text(encoding="utf-8")
        tables = {file.name: _thinned(file) for file in suites.glob("*.csv") if file.name in suite}
        files = {"suite.yaml": suite, **tables}
        maker.add("suite", name, files, "suite.yaml", YAML, validate)
        for table in tables:
            maker.add("suite_table", f"{name}_{table[:-4]}", files, table, Csv(), validate)
    maker.add("suite", "jobs", {**JOB_FILES, "suite.yaml": SUITE}, "suite.yaml", YAML, validate)
    kernels = {"rows.csv": _thinned(ROOT / "validation/kernels/v100_sxm2_16.csv")}
    fit = "calibrate kernels rows.csv --gpu v100_sxm2_16 --out gpu.yaml"
    maker.add("kernels", "v100", kernels, "rows.csv", Csv(), fit)
    fit = "calibrate collectives rows.csv --cluster deepbench_m40 --out c.yaml"
    maker.add("nccl_table", "m40", {"rows.csv": _thinned(suites / "fdr_m40.csv")}, "rows.csv", Csv(), fit)


def _thinned(file: Path, rows: int = 24) -> str:
    """Names and about so many rows of a CSV, from all over it."""
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join([head, *lines[:: max(1, len(lines) // rows)]]) + "\n"


def _results(maker: _Maker) -> None:
    """Files of a run: summary, record, timeline, Chrome trace."""
    run = _small_run(maker)
    maker.results("summary", "compare", run, "summary.json", JSON, "compare results results --json")
    maker.results("record", "compare", run, "run.json", JSON, "compare results results --json")
    maker.results("record", "run_again", run, "run.json", JSON, RUN.replace("--out out", "--out results"))
    export = "export results --format chakra --out out"
    maker.results("timeline", "results", run, "timeline.parquet", Parquet(), export)
    file = "timeline.parquet"
    timeline = {file: (run / file).read_bytes()}
    for command in (
        f"import {file} --json --out out",
        f"compare {file} {file} --json",
        f"export {file} --format chrome --out out",
    ):
        maker.add("timeline", command.split()[0], timeline, file, Parquet(), command)
    chrome = {"trace.json.gz": (run / "trace.json.gz").read_bytes()}
    maker.add("chrome", "import", chrome, "trace.json.gz", JSON_GZ, "import trace.json.gz --json")
    maker.add("packed", "chrome", chrome, "trace.json.gz", Bytes(), "import trace.json.gz --json")


def _traces(maker: _Maker) -> None:
    """Traces of others: Kineto, PyTorch, Chakra, logs of nccl-tests."""
    kineto = {f"rank{rank}.json": json.dumps(kineto_trace(rank)) for rank in range(2)}
    files = " ".join(kineto)
    for name, command in (
        ("import", f"import {files} --json"),
        ("whole", f"import {files} --whole --json --out out"),
        ("replay", f"replay {files} --cluster dgx_a100_80 --json"),
    ):
        maker.add("kineto", name, kineto, "rank0.json", JSON, command)
    et = {"et_0.json": json.dumps(execution_trace())}
    maker.add("pytorch", "import", et, "et_0.json", JSON, "import et_0.json --json")
    chakra = {f"job.{rank}.et": chakra_trace() for rank in range(2)}
    for form, name in ((Bytes(), "bytes"), (Chakra(), "nodes")):
        for verb in ("import", "replay --cluster dgx_a100_80"):
            maker.add("chakra", f"{name}_{verb[:6]}", chakra, "job.0.et", form, f"{verb} {' '.join(chakra)} --json")
    log = {"all_reduce.log": NCCL_LOG}
    maker.add("nccl_log", "import", log, "all_reduce.log", Bytes(), "import all_reduce.log --json")
    fit = "calibrate collectives all_reduce.log --cluster hgx_h200 --out c.yaml"
    maker.add("nccl_log", "fit", log, "all_reduce.log", Bytes(), fit)


def _command_lines(maker: _Maker) -> None:
    files = {**JOB_FILES, "rank0.json": json.dumps(kineto_trace(0))}
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
        maker.results("measured", name, folder, file, form, "validate --measured results --json")


def _dlrmsim(*arguments: str) -> None:
    from dlrmsim.cli import main

    with redirect_stdout(io.StringIO()):
        code = main(arguments)
    if code:
        raise RuntimeError(f"dlrmsim {' '.join(arguments)} gives exit code {code}")
