"""Wrong traces: one message that names the file and the byte, line or event, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b85decode, b85encode
from pathlib import Path

import pytest

from dlrmsim.cli import main
from tests.trace_files import KinetoRank, chakra_bytes, chakra_iteration, two_ranks
from traces import json_array, source


def good() -> KinetoRank:
    return two_ranks(world_size=1)[0]


def refused(capsys, tmp_path: Path, *files: Path) -> str:
    """The message, after checking that importing leaves nothing behind."""
    before = sorted(tmp_path.iterdir())
    assert main(["import", *map(str, files), "--out", str(tmp_path / "out")]) == 2
    assert sorted(tmp_path.iterdir()) == before
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "Traceback" not in message
    return message


def changed(tmp_path: Path, change) -> Path:
    own = good()
    change(own)
    return own.write(tmp_path / "trace.json")


def event(own: KinetoRank, name: str) -> dict:
    return next(e for e in own.events if e["name"] == name)


def test_a_truncated_gzip(capsys, tmp_path):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(good().text().encode())[:-20])
    message = refused(capsys, tmp_path, file)
    assert "trace.json.gz: byte" in message
    assert "cut off" in message


def test_a_broken_gzip(capsys, tmp_path):
    file = tmp_path / "trace.json.gz"
    packed = bytearray(gzip.compress(good().text().encode()))
    packed[40:60] = b"\xff" * 20
    file.write_bytes(packed)
    assert "byte" in refused(capsys, tmp_path, file)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.999])
def test_half_a_json(capsys, tmp_path, share):
    file, text = tmp_path / "trace.json", good().text()
    file.write_text(text[: int(len(text) * share)])
    message = refused(capsys, tmp_path, file)
    assert "trace.json: byte" in message


def test_a_wrong_byte_in_the_middle_is_found(capsys, tmp_path):
    file, text = tmp_path / "trace.json", good().text()
    at = text.index('"gemm"') + 7
    file.write_text(text[:at] + "?" + text[at + 1 :])
    message = refused(capsys, tmp_path, file)
    assert abs(int(message.split("byte ")[1].split(":")[0]) - at) <= 2


def test_no_profiler_step(capsys, tmp_path):
    file = changed(tmp_path, lambda own: own.events.pop(0))
    assert "or --whole: the trace as one step" in refused(capsys, tmp_path, file)


def test_a_negative_duration(capsys, tmp_path):
    file = changed(tmp_path, lambda own: event(own, "gemm").update(dur=-4))
    message = refused(capsys, tmp_path, file)
    assert "event 3 ('gemm') has a negative duration" in message


@pytest.mark.parametrize("key", ["ts", "dur"])
def test_an_event_without_a_time(capsys, tmp_path, key):
    file = changed(tmp_path, lambda own: event(own, "gemm").pop(key))
    assert f"event 3 ('gemm') has no {key}" in refused(capsys, tmp_path, file)


def test_an_event_with_a_time_that_is_no_number(capsys, tmp_path):
    file = changed(tmp_path, lambda own: event(own, "gemm").update(ts="soon"))
    assert "element 3 of traceEvents" in refused(capsys, tmp_path, file)


def test_operators_that_overlap_without_nesting(capsys, tmp_path):
    file = changed(tmp_path, lambda own: own.op("aten::odd", 8.0, 10.0))
    assert "overlap without one being inside the other" in refused(capsys, tmp_path, file)


def test_a_step_that_starts_before_the_one_before_it(capsys, tmp_path):
    file = changed(tmp_path, lambda own: own.step(2, -500.0, 400.0))
    assert "ProfilerStep#2 starts before ProfilerStep#1 has ended: the clock went back" in refused(
        capsys, tmp_path, file
    )


def test_work_long_before_its_launch(capsys, tmp_path):
    file = changed(tmp_path, lambda own: event(own, "gemm").update(ts=-5000.0))
    assert "the clock went back" in refused(capsys, tmp_path, file)


def test_a_stream_that_runs_in_another_order_than_it_was_given(capsys, tmp_path):
    def swap(own):
        event(own, "gemm")["args"]["correlation"], event(own, "adam")["args"]["correlation"] = (
            event(own, "adam")["args"]["correlation"],
            event(own, "gemm")["args"]["correlation"],
        )
        event(own, "gemm")["ts"] += 0.5

    assert "launched in the other: the clock went back" in refused(capsys, tmp_path, changed(tmp_path, swap))


def test_ranks_that_disagree(capsys, tmp_path):
    ranks = two_ranks()
    next(e for e in ranks[1].events if "nccl" in e["name"])["args"]["Collective name"] = "broadcast"
    files = [own.write(tmp_path / f"rank{n}.json") for n, own in enumerate(ranks)]
    message = refused(capsys, tmp_path, *files)
    assert "rank1.json" in message
    assert "rank0.json" in message


def test_two_files_of_one_rank(capsys, tmp_path):
    files = [two_ranks()[1].write(tmp_path / name) for name in ("a.json", "b.json")]
    assert "is of rank 1, and so is" in refused(capsys, tmp_path, *files)


def test_an_empty_file(capsys, tmp_path):
    file = tmp_path / "trace.json"
    file.touch()
    assert "trace.json: is empty (0 bytes)" in refused(capsys, tmp_path, file)


def test_a_folder_without_traces(capsys, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "notes.md").write_text("none here")
    assert "is a folder without traces" in refused(capsys, tmp_path, folder)


def test_a_file_that_is_not_there(capsys, tmp_path):
    assert "cannot be read: No such file" in refused(capsys, tmp_path, tmp_path / "missing.json")


def test_something_else(capsys, tmp_path):
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    assert "is no trace we know" in refused(capsys, tmp_path, file)


@pytest.mark.parametrize("text", ['{"traceEvents": 3}', '{"other": []}', "[1, 2, 3]", '{"traceEvents": [[]]}', "{}"])
def test_json_that_is_no_trace(capsys, tmp_path, text):
    file = tmp_path / "trace.json"
    file.write_text(text)
    assert "trace.json" in refused(capsys, tmp_path, file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"traceEvents": [{"ph": "M"} x, {"ph": "M"}]}', "byte 29"),
        ('{"traceEvents": [{"ph": "M"}, 5]}', "element 1 of traceEvents"),
        ('{"traceEvents": [{"ph": "M"},]}', "byte"),
        ('{"traceEvents": [{"ph": "M"}}', "byte"),
        ('{"traceEvents": [{"ph": "M"}]', "byte"),
        ('[{"ph": "M"}] {}', "something follows the array"),
    ],
)
def test_nothing_between_events_is_passed_over(capsys, tmp_path, text, said):
    file = tmp_path / "trace.json"
    file.write_text(text)
    assert said in refused(capsys, tmp_path, file)


def test_an_event_longer_than_the_limit_on_any_line(capsys, tmp_path, monkeypatch):
    """The limit of 256 MiB, with a smaller one: what counts is that memory stays bounded by it."""
    for module in (source, json_array):
        monkeypatch.setattr(module, "MAX_ITEM_BYTES", 1 << 20)
    file = changed(tmp_path, lambda own: own.op("x" * (9 << 20), 150.0, 10.0))
    message = refused(capsys, tmp_path, file)
    assert "is longer than 1 MiB" in message


def test_traces_of_different_formats(capsys, tmp_path):
    chakra = tmp_path / "job.0.et"
    chakra.write_bytes(chakra_bytes(chakra_iteration()))
    message = refused(capsys, tmp_path, good().write(tmp_path / "trace.json"), chakra)
    assert "do not go together" in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda nodes: nodes[1].update(data_deps=[4]), "waits for itself"),
        (lambda nodes: nodes[1].update(id=1), "has the id 1 of another node"),
        (lambda nodes: nodes[1]["attrs"].update(comm_type=77), "comm_type 77"),
        (lambda nodes: nodes[0].update(type=42), "node type 42"),
        (lambda nodes: nodes.clear(), "has no nodes"),
    ],
)
def test_chakra_nodes_that_make_no_sense(capsys, tmp_path, change, said):
    nodes = chakra_iteration()
    change(nodes)
    file = tmp_path / "job.0.et"
    file.write_bytes(chakra_bytes(nodes))
    message = refused(capsys, tmp_path, file)
    assert said in message
    assert "job.0.et" in message


def test_a_chakra_file_that_is_cut_off(capsys, tmp_path):
    file = tmp_path / "job.0.et"
    file.write_bytes(chakra_bytes(chakra_iteration())[:-5])
    assert "a message is cut off" in refused(capsys, tmp_path, file)


def test_chakra_ranks_that_disagree(capsys, tmp_path):
    nodes = chakra_iteration()
    for rank in range(2):
        (tmp_path / f"job.{rank}.et").write_bytes(chakra_bytes(nodes))
        nodes[1]["attrs"]["comm_size"] = 5
    message = refused(capsys, tmp_path, tmp_path / "job.0.et", tmp_path / "job.1.et")
    assert "job.1.et: rank 1 and rank 0" in message


def test_a_chakra_file_without_a_rank(capsys, tmp_path):
    file = tmp_path / "job.et"
    file.write_bytes(chakra_bytes(chakra_iteration()))
    assert "does not say its rank" in refused(capsys, tmp_path, file)


def test_a_parquet_file_of_somebody_else(capsys, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "timeline.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), file)
    assert "has no programs in its metadata" in refused(capsys, tmp_path, file)
    file.write_bytes(b"PAR1 and no more")
    assert "is no Parquet file" in refused(capsys, tmp_path, file)


def test_an_execution_trace_of_a_rank_without_kineto_trace(capsys, tmp_path):
    node = {"id": 2, "name": "aten::relu", "parent": 1, "inputs": [[1, 1, 0, 8, 4, "cuda:0"]], "outputs": []}
    et = tmp_path / "et_5.json"
    et.write_text(json.dumps({"schema": "1.0.1", "nodes": [{"id": 1, "name": "root", "parent": 0}, node]}))
    message = refused(capsys, tmp_path, good().write(tmp_path / "rank0.json"), et)
    assert "et_5.json: is of rank 5, which has no Kineto trace" in message


def exported(tmp_path: Path, form: str) -> list[Path]:
    sources = [own.write(tmp_path / f"rank{n}.json") for n, own in enumerate(two_ranks())]
    assert main(["export", *map(str, sources), "--format", form, "--out", str(tmp_path / form)]) == 0
    return sorted((tmp_path / form / form).iterdir())


def test_two_exported_traces_of_one_rank(capsys, tmp_path):
    first, _ = exported(tmp_path, "chrome")
    again = tmp_path / "again.json.gz"
    again.write_bytes(first.read_bytes())
    assert "is of rank 0, and so is" in refused(capsys, tmp_path, first, again)


def test_an_exported_trace_that_lost_events(capsys, tmp_path):
    first, _ = exported(tmp_path, "chrome")
    trace = json.loads(gzip.decompress(first.read_bytes()))
    trace["traceEvents"] = [event for event in trace["traceEvents"] if "adam" not in event["name"]]
    file = tmp_path / "lost.json"
    file.write_text(json.dumps(trace))
    assert "lost.json: has other tasks on rank 0 than its programs" in refused(capsys, tmp_path, file)


def test_an_exported_trace_of_another_version(capsys, tmp_path):
    first, _ = exported(tmp_path, "chrome")
    trace = json.loads(gzip.decompress(first.read_bytes()))
    about = json.loads(zlib.decompress(b85decode(trace["dlrmsim"])))
    trace["dlrmsim"] = b85encode(zlib.compress(json.dumps(about | {"version": 1}).encode())).decode()
    file = tmp_path / "old.json"
    file.write_text(json.dumps(trace))
    message = refused(capsys, tmp_path, file)
    assert "old.json: has programs of another version; given 1; expected 3" in message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--delay", "3"], "--delay: is no delay; given '3'"),
        (["--delay", "3=2"], "--delay: the unit is missing"),
        (["--delay", "9=2ms"], "--delay: no such rank in the job; given 9"),
        (["--collective-precision", "bp16"], "did you mean 'fp16'?"),
        (["--collective-precision", "all_to_all=fp16"], "--collective-precision: no such collective"),
        (["--overlap", "non"], "did you mean 'none'?"),
        (["--absent", "clone"], "did you mean 'clones'?"),
        (["--world-size", "4"], "--world-size: needs a network"),
        (["--world-size", "4", "--cluster", "zionex"], "does not say which tables"),
        (["--world-size", "4", "--cluster", "zionex", "--absent", "late"], "--absent: does not go with --world-size"),
        (["--gpu", "h100_sxm5_80"], "--from-gpu: is needed"),
        (["--local-batch", "8"], "--from-gpu: is needed"),
        (["--local-batch", "8", "--from-gpu", "v100_sxm2_32"], "does not say its batch"),
        (["--gpu", "h100", "--from-gpu", "v100_sxm2_32"], "h100"),
        (["--cluster", "zionx"], "did you mean 'zionex'?"),
        (["--ranks", "7"], "no trace is of these ranks"),
    ],
)
def test_changes_of_a_replay_that_make_no_sense(capsys, tmp_path, arguments, said):
    files = [str(own.write(tmp_path / f"rank{n}.json")) for n, own in enumerate(two_ranks())]
    before = sorted(tmp_path.iterdir())
    assert main(["replay", *files, *arguments, "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_replay_into_a_folder_of_others(capsys, tmp_path):
    trace = str(good().write(tmp_path / "trace.json"))
    assert main(["replay", trace, "--out", str(tmp_path)]) == 2
    assert "holds files that dlrmsim did not write" in capsys.readouterr().err


def test_a_cluster_without_the_ranks_that_have_no_trace(capsys, tmp_path):
    trace = str(two_ranks()[0].write(tmp_path / "rank0.json"))
    assert main(["replay", trace, "--cluster", "zionex", "--absent", "none"]) == 2
    assert "has rank 1, which no program has" in capsys.readouterr().err


def test_exports_that_make_no_sense(capsys, tmp_path):
    trace = str(good().write(tmp_path / "trace.json"))
    log = tmp_path / "other"
    log.mkdir()
    (log / "mine.txt").write_text("mine")
    for arguments, said in (
        ([trace, "--format", "kineto", "--out", str(tmp_path / "out")], "--format: no such format"),
        ([str(log), "--format", "chrome", "--out", str(tmp_path / "out")], "is a folder without traces"),
        ([trace, "--format", "chrome", "--out", str(log)], "holds files that dlrmsim did not write"),
    ):
        assert main(["export", *arguments]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
