"""Names and folders of the versions of one adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import GenerationServerError
from swarm.remote.server_adapters import Adapters


def write(folder: Path) -> None:
    (folder / "weights").write_bytes(b"x")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_other_weights_have_another_name_and_the_same_ones_the_same(tmp_path: Path) -> None:
    adapters = Adapters(tmp_path / "f", "run.a.0")
    first, again, second = (adapters.put(digest * 64, write) for digest in "aab")
    assert first is again
    assert [first.name, second.name] == ["run.a.0.0.aaaaaaaaaaaa", "run.a.0.1.bbbbbbbbbbbb"]
    back = adapters.put("a" * 64, write)
    assert back.name == "run.a.0.2.aaaaaaaaaaaa"
    assert (back.folder / "weights").read_bytes() == b"x"


def test_a_version_goes_once_a_later_one_is_there_and_nobody_uses_it(tmp_path: Path) -> None:
    adapters = Adapters(tmp_path / "f", "p")
    first = adapters.put("a" * 64, write)
    assert adapters.superseded() == []
    with adapters.using(first):
        second = adapters.put("b" * 64, write)
        assert adapters.superseded() == []
    assert adapters.superseded() == [first]
    adapters.remove(first)
    assert adapters.superseded() == []
    assert names(tmp_path / "f") == {second.name}


def test_what_a_killed_life_has_left_goes_from_disk_and_is_known_by_name(tmp_path: Path) -> None:
    (tmp_path / "f" / "p.7.aaaaaaaaaaaa.partial").mkdir(parents=True)
    adapters = Adapters(tmp_path / "f", "p")
    own = adapters.put("a" * 64, write)
    assert names(tmp_path / "f") == {own.name}
    there = [own.name, "p.7.aaaaaaaaaaaa", "p.b.7.aaaaaaaaaaaa", "pp.7.aaaaaaaaaaaa", "p.7.aaa", "base"]
    assert adapters.of_former_lives(there) == ["p.7.aaaaaaaaaaaa"]


def test_a_folder_that_was_not_written_whole_is_not_there(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write(folder)
        raise OSError("disk full")

    adapters = Adapters(tmp_path / "f", "p")
    with pytest.raises(
        GenerationServerError, match=r"expected one that can be written, got disk full.*SWARM_ADAPTER_FOLDER"
    ):
        adapters.put("a" * 64, fail)
    assert not (tmp_path / "f" / "p.0.aaaaaaaaaaaa").exists()
    assert adapters.put("a" * 64, write).name == "p.0.aaaaaaaaaaaa"
