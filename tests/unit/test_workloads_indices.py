"""Laws of indices and bag lengths as people write them, and files of indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from inputs.errors import InputError
from scenarios.resolve import load_scenario
from tests.planning_jobs import scenario
from workloads.dlrm.laws.counted_rows import count_rows
from workloads.dlrm.laws.index_files import read_counts
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.laws.pooling import FIXED, PoolingSpread, lengths

SAMPLES = 1_000_000.0


def saved(folder: Path, kind: str, indices: np.ndarray) -> Path:
    """The indices of a table ``clicks`` in a file of a kind, with another table beside where it can have one."""
    file = folder / f"indices{kind}"
    if kind == ".npy":
        np.save(file, indices)
    elif kind == ".npz":
        np.savez(file, clicks=indices, other=np.arange(3))
    elif kind == ".csv":
        pd.DataFrame({"clicks": pd.array(indices, dtype="Int64"), "other": pd.array(indices % 3)}).to_csv(
            file, index=False
        )
    else:
        pd.DataFrame({"clicks": indices.reshape(-1, 2).tolist()}).to_parquet(file)
    return file


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".parquet"])
def test_every_kind_of_file_gives_the_same_counts(tmp_path: Path, kind: str) -> None:
    indices = np.minimum(np.random.default_rng(2).geometric(0.01, 20_000) - 1, 4_999)
    expected = count_rows(*np.unique(indices, return_counts=True))
    assert read_counts(saved(tmp_path, kind, indices), "clicks") == expected


def test_a_measured_law_has_the_lookups_and_the_places_of_its_file() -> None:
    """Drawn from a known law: distinct rows of a fresh draw to 3 %, shares of eight blocks to 1 %, unseen rows too."""
    draw, rows = np.random.default_rng(5), 50_000
    chance = 1.0 / np.arange(1.0, rows + 1)
    where = draw.permutation(rows)
    indices = where[draw.choice(rows, 400_000, p=chance / chance.sum())]
    law = count_rows(*np.unique(indices, return_counts=True)).popularity(rows)
    assert law.rows == rows
    assert law.share.sum() == pytest.approx(1.0)
    again = where[draw.choice(rows, 200_000, p=chance / chance.sum())]
    assert float(law.distinct(200_000)) == pytest.approx(len(np.unique(again)), rel=0.03)
    edges = np.linspace(0, rows, 9).astype(np.int64)
    assert law.block_shares(edges) == pytest.approx(np.histogram(again, edges)[0] / len(again), abs=0.01)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "clicks\n", "no indices"),
        ("a.csv", "clicks\n3\n-4\n", "out of range"),
        ("a.csv", "clicks\n3\nx\n", "cannot be read"),
        ("a.csv", "other,more\n3,4\n", "no indices of this table"),
        ("a.npy", "nothing", "cannot be read"),
        ("a.npz", "nothing", "cannot be read"),
        ("a.parquet", "nothing", "cannot be read"),
        ("a.txt", "1", "not a file of indices"),
        ("b.csv", None, "no such file"),
    ],
)
def test_a_bad_file_of_indices_is_refused(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_counts(file, "clicks")


def test_fractions_are_no_indices(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([0.5]))
    with pytest.raises(InputError, match="whole numbers"):
        read_counts(tmp_path / "a.npy", "clicks")


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"indices": {"distribution": "zipf", "exponent": -1.0}}, "exponent"),
        ({"indices": {"distribution": "zipf"}}, "needs one of exponent, unique_ratio"),
        ({"indices": {"distribution": "zipf", "exponent": 1.0, "unique_ratio": 0.5}}, "needs one of"),
        ({"indices": {"distribution": "uniform", "exponent": 1.0}}, "another distribution than uniform"),
        ({"indices": {"distribution": "uniform", "order": "popularity"}}, "another distribution than uniform"),
        ({"indices": {"distribution": "measured", "file": "missing.npy"}}, "no such file"),
        ({"pooling_spread": {"distribution": "lognormal"}}, "deviation"),
        ({"pooling_spread": {"distribution": "poisson", "deviation": 1.0}}, "another distribution than poisson"),
        ({"pooling_spread": {"distribution": "histogram", "lengths": [1], "weights": [1.0, 2.0]}}, "as many weights"),
        ({"pooling_spread": {"distribution": "histogram", "lengths": [1], "weights": [0.0]}}, "sum to 0"),
    ],
)
def test_a_wrong_law_is_refused_where_it_stands(workload: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        scenario(**workload)
    assert caught.value.key.startswith(f"workload.{next(iter(workload))}")


HISTOGRAM = {
    "name": "mine", "title": "mine", "source": "tests", "samples": 100, "lookups": 1000, "distinct_rows": 100,
    "bins": [{"above": 0, "row_share": 0.5, "lookup_share": 0.1}, {"above": 1, "row_share": 0.5, "lookup_share": 0.9}],
}  # fmt: skip


def test_a_histogram_of_ones_own_is_read_and_written_out(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(HISTOGRAM), encoding="utf-8")
    resolved = scenario(indices=str(file))
    law = make_law(resolved.model.index_reuse.value)
    file.unlink()
    assert law.distinct(np.array([1e9]), np.array([1000.0]), 100.0, 100.0) == pytest.approx([100.0])
    assert "mine" in resolved.to_yaml()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"distinct_rows": 2000}, "more rows than lookups"),
        ({"samples": 0}, "samples"),
        ({"bins": HISTOGRAM["bins"][:1]}, "sums to"),  # type: ignore[index]
        ({"bins": HISTOGRAM["bins"][::-1]}, "ascending"),  # type: ignore[index]
        ({"bins": []}, "bins"),
    ],
)
def test_a_wrong_histogram_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(HISTOGRAM | change), encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        scenario(indices={"distribution": "reuse", "histogram": str(file)})
    assert caught.value.file == str(file)


def test_an_unknown_histogram_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="unknown index reuse histogram") as caught:
        scenario(indices="dlrm_datasets_21")
    assert (caught.value.key, caught.value.nearest) == ("workload.indices", "dlrm_datasets_2021")


def test_a_file_of_rows_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    """The smallest table of the job has 7 rows."""
    np.save(tmp_path / "a.npy", np.array([7]))
    with pytest.raises(InputError, match="a row that the table lacks") as caught:
        scenario(indices={"distribution": "measured", "file": str(tmp_path / "a.npy")})
    assert (caught.value.given, caught.value.expected) == (7, "0 to 6, the table has 7 rows")


def test_a_resolved_scenario_has_its_measured_indices_written_out(tmp_path: Path) -> None:
    """Read again, without the file, it is the same scenario."""
    np.save(tmp_path / "a.npy", np.arange(7))
    resolved = scenario(
        indices={"distribution": "measured", "file": str(tmp_path / "a.npy")},
        pooling_spread={"distribution": "geometric"},
    )
    (tmp_path / "a.npy").unlink()
    (tmp_path / "again.yaml").write_text(resolved.to_yaml(), encoding="utf-8")
    again = load_scenario(tmp_path / "again.yaml")
    assert again.hash == resolved.hash
    tables = again.model.tables
    assert tables is not None
    assert all(group.indices is not None for group in tables.value)


def test_a_unique_ratio_gives_that_many_distinct_rows() -> None:
    """Of a global batch; a tenth of it touches more of them per lookup."""
    law = make_law(make_law("uniform").indices.model_copy(update={"distribution": "zipf", "unique_ratio": 0.25}))
    rows, lookups = np.array([1e6]), np.array([SAMPLES])
    whole = law.distinct(rows, lookups, SAMPLES, SAMPLES)[0]
    part = law.distinct(rows, lookups / 10, SAMPLES / 10, SAMPLES)[0]
    assert whole == pytest.approx(250_000, rel=1e-6)
    assert 0.25 < part / 100_000 < 1.0


@pytest.mark.parametrize(
    ("spread", "variance"),
    [
        (FIXED, 0.25),
        (PoolingSpread(distribution="poisson"), 15.5),
        (PoolingSpread(distribution="geometric"), 15.5 * 16.5),
        (PoolingSpread(distribution="lognormal", deviation=0.8), (0.8 * 15.5) ** 2),
        (PoolingSpread(distribution="histogram", lengths=(1, 30), weights=(1.0, 1.0)), 14.5**2),
    ],
)
def test_bag_lengths_have_their_mean_and_variance(spread: PoolingSpread, variance: float) -> None:
    """Closed forms (a lognormal rounded to whole lengths varies by at most 1/4 more), and a draw of 200,000."""
    chance = spread.probabilities(15.5)
    assert chance @ np.arange(len(chance)) == pytest.approx(15.5, rel=1e-5)
    assert spread.variance(15.5) == pytest.approx(variance, abs=0.26, rel=1e-4)
    drawn = lengths(chance, np.random.default_rng(3).random(200_000))
    assert drawn.mean() == pytest.approx(15.5, abs=5 * np.sqrt(variance / 200_000) + 1e-3)


def test_a_histogram_with_another_mean_is_refused() -> None:
    spread = PoolingSpread(distribution="histogram", lengths=(1, 3), weights=(1.0, 1.0))
    with pytest.raises(InputError, match="another mean"):
        spread.probabilities(5.0)
