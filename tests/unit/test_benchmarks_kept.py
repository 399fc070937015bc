"""Folders that studies keep."""

import pytest

from benchmarks.kept import folder_of, kept_in
from inputs.errors import InputError


def test_what_is_not_kept_is_gone(tmp_path):
    with folder_of(None) as folder:
        (folder / "a").write_text("x", encoding="utf-8")
    assert not folder.exists()
    with folder_of(tmp_path / "kept") as folder:
        (folder / "a").write_text("x", encoding="utf-8")
    assert (tmp_path / "kept" / "a").read_text(encoding="utf-8") == "x"


def test_launches_are_found_by_configuration_in_their_order(tmp_path):
    for name in ("measured_10_0", "measured_2_10", "measured_2_9", "config_2.yaml"):
        (tmp_path / name).mkdir()
    found = kept_in(tmp_path, "measured_")
    assert list(found) == [2, 10]
    assert [path.name for path in found[2]] == ["measured_2_9", "measured_2_10"]


def test_a_folder_in_which_nothing_was_kept_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing was kept"):
        kept_in(tmp_path, "measured_")
