"""Memory of the machine, or of the container that this runs in."""

from scenarios import host_memory


def limits(folder, limit, used):
    files = folder / "max", folder / "current"
    for file, text in zip(files, (limit, used), strict=True):
        file.write_text(text, encoding="ascii")
    return (files,)


def test_a_containers_limit_counts_where_it_is_lower(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "CGROUPS", limits(tmp_path, "3000000\n", "1000000\n"))
    assert host_memory.physical_memory_bytes() == 3_000_000
    assert host_memory.free_memory_bytes() == 2_000_000


def test_without_a_limit_the_machine_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "CGROUPS", limits(tmp_path, "max\n", "1000000\n"))
    whole = host_memory.physical_memory_bytes()
    assert whole > 2**28
    assert 0 < host_memory.free_memory_bytes() <= whole


def test_more_used_than_the_limit_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "CGROUPS", limits(tmp_path, "5\n", "9\n"))
    assert host_memory.free_memory_bytes() == 0
