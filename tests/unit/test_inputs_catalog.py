"""Shipped files by name, the user's own by path."""

from pathlib import Path

import pytest

from inputs.catalog import Catalog
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml, parse_yaml


@pytest.fixture
def catalog(tmp_path, monkeypatch) -> Catalog:
    """A package with three files, as an installed one looks."""
    folder = tmp_path / "catalog_under_test" / "clusters"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name in ("zionex", "dgx_h100", "dgx_a100_40"):
        (folder / f"{name}.yaml").write_bytes(f"# {name}\r\nname: {name}\n".encode())
    (folder / "README.md").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Catalog("cluster", "catalog_under_test", "clusters")


def test_names_are_sorted_and_hold_only_yaml(catalog):
    assert catalog.names() == ["dgx_a100_40", "dgx_h100", "zionex"]


def test_a_name_finds_the_shipped_file(catalog):
    assert load_yaml(catalog.find("zionex")).data == {"name": "zionex"}


def test_a_path_is_found_from_here(catalog, tmp_path):
    (tmp_path / "mine.yml").write_text("name: mine")
    assert catalog.find("mine.yml").read_text() == "name: mine"
    assert catalog.find("./mine.yml") == Path("mine.yml")
    assert catalog.find(tmp_path / "mine.yml") == tmp_path / "mine.yml"


def test_a_path_in_a_file_starts_at_that_file_and_one_from_an_option_starts_here(catalog, tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "mine.yaml").write_text("name: jobs")
    (tmp_path / "mine.yaml").write_text("name: here")
    document = parse_yaml("cluster: mine.yaml", jobs / "job.yaml")
    assert catalog.find("mine.yaml", origin=document, key="cluster") == jobs / "mine.yaml"
    overridden = document.set("cluster", "mine.yaml")
    assert catalog.find("mine.yaml", origin=overridden, key="cluster") == Path("mine.yaml")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("zionx", "unknown cluster; given 'zionx'; expected one of dgx_a100_40, dgx_h100, zionex, or the path"),
        ("DGX-H100", "did you mean 'dgx_h100'?"),
        ("zionex.yaml", "no such cluster file; given 'zionex.yaml'"),
        ("zionex.yaml", "did you mean 'zionex'?"),
        ("./nothing", "no such cluster file"),
        ("~nobody-at-all/x.yaml", "no such cluster file"),
        ("x" * 5000 + ".yaml", "no such cluster file"),
        ("", "unknown cluster; given ''"),
        ("README", "unknown cluster"),
    ],
)
def test_what_is_not_there_is_refused_with_the_nearest_name(catalog, wrong, message):
    with pytest.raises(InputError) as caught:
        catalog.find(wrong)
    assert message in str(caught.value)


def test_a_wrong_name_in_a_file_is_reported_with_its_line_and_key(catalog):
    document = parse_yaml("name: a\ncluster: zionx", Path("job.yaml"))
    with pytest.raises(InputError, match=r"^job\.yaml:2: cluster: unknown cluster; given 'zionx'.*mean 'zionex'"):
        catalog.find("zionx", origin=document, key="cluster")


def test_a_folder_is_called_a_folder(catalog, tmp_path):
    with pytest.raises(InputError, match="this is a folder"):
        load_yaml(catalog.find(f"{tmp_path}/"))
