"""Folders that studies keep."""

import pytest

from benchmarks.kept import ROWS, folder_of, kept_in
from inputs.errors import InputError


def test_what_is_not_kept_is_gone(tmp_path):
    with folder_of(None) as folder:
        (folder / "a").write_text("x", encoding="utf-8")
    assert not folder.exists()
    with folder_of(tmp_path / "kept") as folder:
        (folder / "a").write_text("x", encoding="utf-8")
    assert (tmp_path / "kept" / "a").read_text(encoding="utf-8") == "x"


def test_what_is_whole_is_found_by_its_number(tmp_path):
    for name in ("set_10", "set_2", "set_3", "others"):
        (tmp_path / name).mkdir()
    for name in ("set_10", "set_2"):  # in the third the study was stopped
        (tmp_path / name / ROWS).write_text("a\n1\n", encoding="utf-8")
    found = kept_in(tmp_path, "set_")
    assert list(found) == [2, 10]
    assert found[10] == tmp_path / "set_10"


def test_a_folder_in_which_nothing_was_kept_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing was kept"):
        kept_in(tmp_path, "set_")
