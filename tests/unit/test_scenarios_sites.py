"""Scenarios on sites: wrong input with its key, the searched order, and plans."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from dlrmsim.cli import main
from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulate
from tests.network_machines import sites

NAME = "fusionllm_gpt2_xl_48"
PLACES = ["berlin", "boston", "chicago", "paris", "seoul", "singapore", "tokyo", "zurich"]
PACKED = "workload.compression"
CLUSTER = CATALOGS["cluster"].find("geo_consumer_48")

WRONG_SETTINGS = {
    "a ratio of 0": ([f"{PACKED}.activations.ratio=0"], f"{PACKED}.activations.ratio", "1.0 or more"),
    "a ratio below 1": ([f"{PACKED}.gradients.ratio=0.5"], f"{PACKED}.gradients.ratio", "1.0 or more"),
    "more bits than there are": (
        ["workload.compression.activations={format: quantize, ratio: 17}"],
        "workload.compression.activations.ratio", "1 to 16",
    ),
    "nothing to compress": (
        ["workload.compression={where: everywhere}"], "workload.compression", "activations, gradients, or both",
    ),
    "no pipeline": (
        ["workload.parallel.pipeline=1", "site_order=null"], "workload.compression", "a pipeline of 2 or more",
    ),
    "nothing to search": (
        ["workload.parallel.pipeline=1", "workload.compression=null"], "site_order", "an order of berlin",
    ),
    "one site": (["cluster=a40", "nodes=1", "site_order=null"], "workload.compression.where", "everywhere"),
    "no sites to order": (["cluster=a40", "nodes=1"], "site_order", "a cluster with `sites`"),
    "an unknown site": ([f"site_order=[{', '.join([*PLACES[:-1], 'zuerich'])}]"], "site_order[7]", "zurich"),
    "a site that is left out": ([f"site_order=[{', '.join(PLACES[1:])}]"], "site_order", "each of berlin"),
    "a site twice": ([f"site_order=[{', '.join([*PLACES, 'paris'])}]"], "site_order", "once"),
    "ranks on no site": (["nodes=32"], "nodes", "at most 24"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_SETTINGS)
def test_wrong_settings_are_refused_with_their_key(case):
    settings, key, expected = WRONG_SETTINGS[case]
    with pytest.raises(InputError) as refused:
        load_scenario(NAME, settings)
    found = refused.value
    assert found.file is not None
    assert found.key == key
    assert expected in f"{found.expected} {found.nearest}"


def test_the_nearest_site_is_named_on_the_command_line(capsys):
    order = f"site_order=[{', '.join([*PLACES[:-1], 'zuerich'])}]"
    assert main(["run", NAME, "--check", "--set", order]) == 2
    assert "did you mean 'zurich'?" in capsys.readouterr().err


WRONG_SITES = {
    "a site without nodes": (("sites", 2, "nodes"), 0, "sites[2].nodes", "from 1"),
    "two sites of one name": (("sites", 1, "name"), "berlin", "sites[1].name", "each name once"),
    "an unknown site in a pair": (
        ("site_links", "pairs", 0, "between"), ["berlin", "pariss"], "site_links.pairs[0].between[1]", "paris",
    ),
    "a pair twice": (
        ("site_links", "pairs", 1, "between"), ["paris", "berlin"], "site_links.pairs[1].between", "each pair once",
    ),
    "a site linked with itself": (
        ("site_links", "pairs", 0, "between"), ["paris", "paris"], "site_links.pairs[0].between", "different sites",
    ),
    "pairs without a link": (("site_links", "default"), None, "site_links.pairs", "berlin and boston"),
    "more nodes than the sites have": (("max_nodes", "value"), 25, "max_nodes.value", "24"),
    "sites without links": (("site_links",), None, "site_links", "site_links"),
    "links without sites": (("sites",), None, "sites", "sites"),
    "a link without a rate": (
        ("site_links", "default", "bytes_per_s"), "0 Mb/s", "site_links.default.bytes_per_s", "from 1 kB/s",
    ),
    "shared up-links": (
        ("fabric", "spine_oversubscription", "value"), 2.0, "fabric.spine_oversubscription.value", "not modelled",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_SITES)
def test_wrong_sites_are_refused_with_file_line_and_key(case, tmp_path):
    path, value, key, expected = WRONG_SITES[case]
    data = load_yaml(CLUSTER).data
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(InputError) as refused:
        load_cluster(file)
    found = refused.value
    assert (Path(found.file).name, found.key.removesuffix(".value") == key.removesuffix(".value")) == (file.name, True)
    assert expected in f"{found.expected} {found.nearest}"
    assert found.line or value is None


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """Four sites of two GPUs, and a stage of GPT-2 on each; good is b, d, a, c or the other way."""
    fast = {("b", "d"): ("80 Mb/s", "5 ms"), ("d", "a"): ("40 Mb/s", "5 ms"), ("a", "c"): ("20 Mb/s", "5 ms")}
    geo = load_cluster("geo_consumer_48")
    cluster = sites(geo, {"a": 1, "b": 1, "c": 1, "d": 1}, "1 Mb/s", "50 ms", fast).to_dict()
    workload = {
        "kind": "transformer", "model": {"layers": 4, "hidden": 320, "heads": 5, "ffn": 1280, "vocabulary": 1000,
        "sequence": 255, "name": "tiny", "title": "tiny"}, "sequences": 8, "parallel": {"pipeline": 4},
        "compression": {"activations": {"ratio": 20}},
    }  # fmt: skip
    file = tmp_path_factory.mktemp("sites") / "small.yaml"
    file.write_text(
        yaml.safe_dump({"schema": 1, "name": "small", "cluster": cluster, "nodes": 4, "workload": workload})
    )
    return file


UNPACKED = "only messages between stages are compressed"
DATA, TIED = "gradients that data-parallel ranks sum", "the first and the last stage share"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((), []),
        (("workload.model.tied=true",), [TIED]),
        (("workload.parallel.pipeline=2",), [DATA]),
        (
            ("workload.parallel={pipeline: 2, sharding: hybrid, shard_size: 2}", "workload.model.tied=true"),
            [DATA, TIED],
        ),
        (("workload.parallel={pipeline: 2, sharding: optimizer}", "nodes=2"), []),
        (("placement=random", "variation.seed=1"), [DATA]),
        (("workload.parallel={pipeline: 2}", "workload.compression=null"), []),
    ],
)
def test_a_note_says_which_sums_of_gradients_cross_sites_as_they_are(small, settings, said):
    """A site has two GPUs, so data-parallel groups of four, or of two that are placed at random, have several sites."""
    done = simulate(load_scenario(small, settings), Silent())
    notes = [note for note in done.warnings if UNPACKED in note]
    assert len(notes) == bool(said)
    assert [words for words in (DATA, TIED) if notes and words in notes[0]] == said


def test_a_plan_takes_the_fastest_of_all_orders(small, capsys):
    """The search of `plan` ends with each order of four sites, as runs of them one by one."""
    assert main(["plan", str(small), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = next(row for row in found["compared"] if row["iteration_time_s"] == found["iteration_time_s"])
    alike = [row for row in found["compared"] if _division(row) == _division(best)]
    assert {tuple(row["site_order"]) for row in alike} >= set(permutations("abcd")) or best["pipeline"] == 1
    assert found["plan"]["site_order"] == best["site_order"]
    assert all(row["least_time_s"] <= row["iteration_time_s"] for row in found["compared"])
    again = changed(load_scenario(small), best["settings"])
    assert simulate(again, Silent()).analysis.iteration.seconds == pytest.approx(best["iteration_time_s"])


def _division(row):
    return [row[key] for key in ("tensor", "pipeline", "context", "data", "virtual_stages", "micro_batch", "sharding")]


def test_the_bound_of_a_run_over_slow_links_is_the_site_class(small):
    """Links between sites are a class of the bound; on one site there is no such class, nor a run for it."""
    outcome = simulate(load_scenario(small, ["workload.compression=null"]), Silent())
    gains = {gain.resource_class: gain.gain for gain in outcome.bound.gains}
    assert max(gains, key=gains.get) == "site"
    assert gains["site"] > 0.05
    alone = simulate(
        load_scenario(small, ["nodes=1", "workload.parallel.pipeline=2", "workload.compression=null"]), Silent()
    )
    assert "site" not in {gain.resource_class for gain in alone.bound.gains}


def test_a_resolved_scenario_has_the_order_that_was_found_and_reads_back(small):
    found = load_scenario(small, ["site_order=search"])
    assert set(found.site_order) == set("abcd")
    assert changed(found, []).hash == found.hash


def test_a_collective_over_sites_prints_its_table(tmp_path, capsys):
    assert main(["collective", "geo_consumer_48", "--op", "all_reduce", "--ranks", "12", "--bytes", "1MiB..4MiB"]) == 0
    assert "over_sites" in capsys.readouterr().out
