"""Transformations of shipped scenarios: against keys of families that do the same, by hand, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlrmsim.cli import main
from inputs.errors import InputError
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulation_of
from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise, Gemm, HostWork
from simulator.transform.pattern import NamePattern
from simulator.work import KernelSeries
from tests.law_runs import iteration_s

PAIR = ("nodes=null", "world_size=2")
SMALL = (*PAIR, "workload.sequences=8", "workload.micro_batch_size=4", "workload.model=bert_base")
NONE = "transform=null"
LAYERS = ("layer_*_forward_*", "layer_*_backward_elementwise")
ATTENTION = ("layer_*_forward*_attention", "layer_*_backward*_elementwise")


def prepared(*settings: str, name: str = "slapo_bert_8") -> Prepared:
    return prepare(load_scenario(name, settings), Silent())


def elementwise_bytes(job: Prepared, start: str) -> float:
    """Bytes of the element-wise kernels of tasks whose names begin so."""
    (program,) = job.graph.programs
    return sum(
        count * (kernel.read_bytes + kernel.write_bytes)
        for name, work in zip(program.names, program.work, strict=True)
        if name.startswith(start) and isinstance(work, KernelSeries)
        for count, kernel in work.kernels
        if isinstance(kernel, Elementwise)
    )


def launches(job: Prepared) -> float:
    return sum(work.launches for p in job.graph.programs for work in p.work if isinstance(work, HostWork))


@pytest.mark.parametrize("model", ["bert_base", "llama2_7b"])
@pytest.mark.parametrize("attention", ["unfused", "flash2"])
def test_fused_layers_move_the_bytes_that_a_compiler_moves(model: str, attention: str) -> None:
    """Chains of element-wise kernels, and launches, are those of ``compiled: true``."""
    job = (*PAIR, "cluster=dgx_a100_80", "precision.dense=bf16", "workload.sequence=512", "workload.sequences=1")
    job = (*job, f"workload.model={model}", f"workload.attention={attention}", "workload.parallel.tensor=2")
    job = (*job, "workload.micro_batch_size=1")
    eager, compiled = (prepared(*job, NONE, f"workload.compiled={value}") for value in ("false", "true"))
    fused = prepared(*job, 'transform=[{fuse: "*"}]')
    for part in ("layer_0_forward", "layer_0_backward"):
        assert elementwise_bytes(fused, part) == pytest.approx(elementwise_bytes(compiled, part), rel=1e-9)
        assert elementwise_bytes(fused, part) < elementwise_bytes(eager, part)
    assert launches(fused) == launches(compiled)
    assert launches(eager) - launches(fused) == fused.applied[0].changed.counts["launches_saved"]


@pytest.mark.parametrize(
    ("key", "patterns", "sequences"), [("full", LAYERS, 8), ("selective", ATTENTION, 8), ("selective", ATTENTION, 16)]
)
def test_layers_that_run_again_cost_and_free_as_much_as_the_familys_own_key(
    key: str, patterns: tuple[str, str], sequences: int
) -> None:
    """One micro-batch, or two, whose tasks have its number behind the pass; kernels take longer than their launches."""
    own = (*SMALL, f"workload.sequences={sequences}", "workload.framework.operator_s.value=1us")
    by_key = load_scenario("slapo_bert_8", [*own, NONE, f"workload.recompute={key}"])
    step = f'transform=[{{recompute: {{tasks: "{patterns[0]}", before: "{patterns[1]}"}}}}]'
    by_step = load_scenario("slapo_bert_8", [*own, step])
    assert iteration_s(by_step) == pytest.approx(iteration_s(by_key), rel=1e-4)
    one, other = (prepare(each, Silent()).memory.items("hbm") for each in (by_key, by_step))
    assert {name: held[0] for name, held in one.items()} == {name: held[0] for name, held in other.items()}


def test_sharded_products_are_divided_and_their_results_gathered() -> None:
    """One product by hand: [m, n] of 2 bytes put together from the columns of two ranks."""
    before = prepared(*SMALL, NONE)
    after = prepared(*SMALL, "transform=[{shard: {tasks: layer_3_forward_gemm, over: node}}]")
    (one,), (other,) = before.graph.programs, after.graph.programs
    whole = one.work[one.names.index("layer_3_forward_gemm")]
    parts = other.work[other.names.index("layer_3_forward_gemm")]
    call = other.work[other.names.index("layer_3_forward_gemm_all_gather")]
    assert isinstance(whole, KernelSeries)
    assert isinstance(parts, KernelSeries)
    assert isinstance(call, CollectiveCall)
    products = [kernel for _, kernel in whole.kernels if isinstance(kernel, Gemm)]
    assert [k.n for _, k in parts.kernels if isinstance(k, Gemm)] == [k.n / 2 for k in products]
    assert call.bytes * call.repeats == sum(2.0 * k.m * k.n for k in products)
    assert (call.op, call.repeats, call.communicator) == ("all_gather", 4, "node")


def test_a_sum_in_parts_begins_before_all_gradients_are_there() -> None:
    """Each quarter of a bucket waits for a quarter of the kernels before it, and all buckets move the same bytes."""
    job = prepared(*SMALL, "transform=[{decompose: {tasks: layer_5_backward_gradients, into: 4}}]")
    (program,) = job.graph.programs
    names = program.names
    for number in range(3):
        part = names.index(f"layer_5_backward_gradients_part_{number}")
        assert names.index(f"layer_5_backward_attention_part_{number}") in {t for t, _ in program.dependencies(part)}
    calls = [program.work[n] for n, name in enumerate(names) if name.startswith("layer_5_backward_gradients")]
    (whole,) = prepared(*SMALL, NONE).graph.programs
    before = whole.work[whole.names.index("layer_5_backward_gradients")]
    assert isinstance(before, CollectiveCall)
    assert sum(float(c.bytes) for c in calls if isinstance(c, CollectiveCall)) == pytest.approx(float(before.bytes))


WRONG = [
    ("{fuze: layer_*}", "transform[0].fuze: no such transformation", "did you mean 'fuse'?"),
    ("{fuse: lair_*}", "transform[0].fuse.tasks: no task matches; given 'lair_*'", "did you mean 'layer_0_"),
    ("{fuse: {section: forwrd}}", "transform[0].fuse.section: no section matches", "did you mean 'forward'?"),
    ("{fuse: {stream: devault}}", "transform[0].fuse.stream: no stream matches", "did you mean 'default'?"),
    ("{fuse: '*_gemm'}", "no two kernels can become one", "consecutive element-wise kernels"),
    ("{fuse: {tusks: layer_*}}", "transform[0].fuse.tusks: unknown key", "did you mean 'tasks'?"),
    ("{fuse: 'layer_[9-0]*'}", "transform[0].fuse: not a pattern of names", "ascending"),
    ("{fuse: null}", "transform[0].fuse: wrong type", "a mapping"),
    ("{fuse: a, move: b}", "a transformation has one name", "one of decompose, fuse"),
    ("3", "transform[0]: wrong type", "a mapping"),
    ("{move: {tasks: layer_*}}", "transform[0].move.to: the key is missing", "expected text"),
    (
        "{move: {tasks: layer_*_gemm, to: default}}",
        "no task that matches can move to default",
        "tasks of other streams",
    ),
    ("{decompose: {tasks: layer_*_gemm, into: 2}}", "no task that matches can be decomposed", "names of collectives"),
    ("{decompose: {tasks: '*', into: 1}}", "transform[0].decompose.into", "2 or more"),
    ("{recompute: {tasks: 'layer_*', before: 'lair_*'}}", "transform[0].recompute.before: no task", "names of tasks"),
    (
        "{shard: {tasks: layer_*, over: nods}}",
        "transform[0].shard.over: no such group of ranks",
        "did you mean 'node'?",
    ),
    ("{shard: {tasks: '*_attention', over: node}}", "no task that matches has a matrix product", "matrix products"),
]


@pytest.mark.parametrize(("step", "message", "expected"), WRONG)
def test_wrong_transformations_are_refused(step: str, message: str, expected: str) -> None:
    settings = (*SMALL, "workload.attention=flash2", "cluster=dgx_a100_80", f"transform=[{step}]")
    with pytest.raises(InputError) as found:
        prepared(*settings)
    assert message in str(found.value)
    assert expected in str(found.value)


@pytest.mark.parametrize(
    ("pattern", "name", "texts"),
    [
        ("layer_*_forward_*", "layer_3_forward_gemm", ("3", "gemm")),
        ("layer_?_x", "layer_3_x", ()),
        ("layer_[0-3]*", "layer_25", ("5",)),
        ("layer_[!0-3]", "layer_2", None),
        ("a.b", "axb", None),
        ("a[b", "a[b", ()),
        ("[\\^]", "^", ()),
    ],
)
def test_patterns_of_names(pattern: str, name: str, texts: tuple[str, ...] | None) -> None:
    assert NamePattern(pattern).texts(name) == texts


def test_a_pattern_of_a_file_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    shipped = Path(__file__).parents[2] / "scenarios" / "library" / "slapo_bert_8.yaml"
    text = shipped.read_text(encoding="utf-8").replace('fuse: {tasks: "*"}', "fuse: {tasks: lair_*}")
    file.write_text(text, encoding="utf-8")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "lair" in row)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    assert f"mine.yaml:{line}: transform[0].fuse.tasks: no task matches" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_changes_of_a_schedule_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In summary.json, on the terminal and on the page; the resolved scenario has them with all defaults."""
    command = ["run", "slapo_bert_8", "--no-levers", "--out", str(tmp_path / "out")]
    command += [part for setting in SMALL for part in ("--set", setting)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "kernels saved" in printed
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "12 tasks again" in page
    resolved = load_scenario(tmp_path / "out" / "scenario.resolved.yaml")
    fuse, again = resolved.to_dict()["transform"]
    assert fuse == {"fuse": {"tasks": "*"}}
    assert again["recompute"]["section"] == "*forward"
    assert changed(resolved, []).hash == resolved.hash


def test_memory_that_a_family_does_not_know_is_a_warning() -> None:
    """DLRMs do not say what a task keeps, and no family which weights it has."""
    dlrm = ("workload.rows_scaling=fit", 'transform=[{recompute: {tasks: "top_*"}}]')
    assert any("memory is that" in w for w in simulation_of(load_scenario("mlperf_dlrm_v1", dlrm), Silent()).warnings)
    one = ("transform=[{shard: {tasks: layer_3_forward_gemm, over: node}}]", *SMALL)
    assert any("whole weights" in w for w in simulation_of(load_scenario("slapo_bert_8", one), Silent()).warnings)
    kept = simulation_of(load_scenario("slapo_bert_8", SMALL), Silent()).warnings
    assert not [warning for warning in kept if "memory" in warning]
