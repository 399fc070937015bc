"""The manifest of public traces, and fetching them: from a server that runs here."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import threading
from functools import partial

import pytest

from dlrmsim.cli import main
from tests.trace_files import PUBLIC
from traces import public
from traces.public import PublicTrace, public_traces

CONTENT = b'{"traceEvents": []}'


def test_the_manifest_names_origin_licence_size_and_digest_of_every_trace():
    traces = public_traces()
    assert len({trace.file for trace in traces}) == len(traces) > 20
    for trace in traces:
        assert trace.licence in ("MIT", "Apache-2.0", "BSD-3-Clause")
        assert len(trace.sha256) == 64
        assert (trace.path is None) != (trace.folder is None)


def test_the_traces_that_are_here_are_those_of_the_manifest():
    present = [trace for trace in public_traces() if (PUBLIC / trace.file).exists()]
    if not present:
        pytest.skip(f"no public trace is in {PUBLIC}: `dlrmsim fetch-traces`, docs/reference/traces.md")
    for trace in present:
        data = (PUBLIC / trace.file).read_bytes()
        content = gzip.decompress(data) if trace.file.endswith(".gz") else data
        assert (len(content), hashlib.sha256(content).hexdigest()) == (trace.size_bytes, trace.sha256)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves one repository; the manifest has one trace of it and one to be got by hand."""
    root = tmp_path / "server"
    (root / "owner/name/HEAD/data").mkdir(parents=True)
    (root / "owner/name/HEAD/data/trace.json").write_bytes(CONTENT)
    own = {"about": "a trace", "repository": "owner/name", "licence": "MIT", "size_bytes": len(CONTENT)}
    digest = hashlib.sha256(CONTENT).hexdigest()
    traces = (
        PublicTrace(file="set/trace.json.gz", path="data/trace.json", sha256=digest, **own),
        PublicTrace(file="set/other.json.gz", folder="data", sha256="0" * 64, **own),
    )
    monkeypatch.setattr(public, "public_traces", lambda: traces)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", root
        running.shutdown()
        thread.join()


def test_traces_are_fetched_checked_and_kept(server, tmp_path, capsys):
    url, _ = server
    arguments = ["fetch-traces", "--out", str(tmp_path / "traces"), "--from", url]
    assert main(arguments) == 0
    assert gzip.decompress((tmp_path / "traces/set/trace.json.gz").read_bytes()) == CONTENT
    first = capsys.readouterr().out
    assert "fetched   set/trace.json.gz" in first
    assert "by hand   set/other.json.gz" in first
    assert main(arguments) == 0
    assert "present   set/trace.json.gz" in capsys.readouterr().out


def test_another_file_is_refused(server, tmp_path, capsys):
    url, root = server
    (root / "owner/name/HEAD/data/trace.json").write_bytes(b"something else")
    assert main(["fetch-traces", "--out", str(tmp_path / "traces"), "--from", url]) == 2
    assert "is another file than the manifest names" in capsys.readouterr().err
    assert not list((tmp_path / "traces").glob("**/*.gz"))


def test_no_access_is_one_message(server, tmp_path, capsys):
    url, _ = server
    assert main(["fetch-traces", "--out", str(tmp_path / "traces"), "--from", f"{url}/nothing"]) == 2
    assert "cannot be fetched" in capsys.readouterr().err


def test_a_download_is_not_read_beyond_what_the_manifest_says(server, tmp_path, capsys):
    """Neither as it comes nor unpacked: 40 MB of zeros in 40 KB of gzip."""
    url, root = server
    file = root / "owner/name/HEAD/data/trace.json"
    file.write_bytes(bytes(public.SLACK_BYTES + len(CONTENT) + 1))
    assert main(["fetch-traces", "--out", str(tmp_path / "got"), "--from", url]) == 2
    assert "is longer than the manifest says" in capsys.readouterr().err
    file.write_bytes(gzip.compress(bytes(40_000_000)))
    assert main(["fetch-traces", "--out", str(tmp_path / "got"), "--from", url]) == 2
    assert "is another file than the manifest names" in capsys.readouterr().err
