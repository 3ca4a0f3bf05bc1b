"""Whoever dies while publishing, at any call of the system: readers see the old file or the new one, whole."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import StoreError
from swarm.store.folder.publish import publish
from swarm.types import RoundKey
from swarm.wire.layout import Layout

CALLS = ("open", "mkdir", "write", "fsync", "close", "rename", "unlink")
OLD, NEW = b"old " * 1000, b"new " * 1000
KEY = RoundKey(3)


class Death(BaseException):
    """No error that anybody handles."""


class Deadly:
    """Counts this process's calls of the system, and lets one of them be the last, before it or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool, die: Callable[[], None]) -> None:
        self.made: list[str] = []
        self._at, self._after, self._die = at, after, die
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.made.append(name)
            mine = len(self.made) == self._at
            if mine and not self._after:
                self._die()
            try:
                return call(*args, **kwargs)
            finally:
                if mine and self._after:
                    self._die()

        return counted


def die_by_exception() -> None:
    raise Death


def die_at_once() -> None:
    os._exit(9)


def prepared(folder: Path, *, new_round: bool) -> tuple[Layout, Path]:
    """An experiment, and a target in a folder that is there and holds an old one, or that has to be made."""
    layout = Layout(folder, "demo")
    target = layout.rollout_file(KEY, "anna")
    publish(layout.peer_file("anna"), b"{}", layout.temporary("anna"), durable=False)
    if not new_round:
        publish(target, OLD, layout.temporary("anna"), durable=False)
    return layout, target


def expect_whole(layout: Layout, target: Path, *, new_round: bool) -> None:
    """The target is as it was or as it was to be, and nothing else lies in any folder that is watched or counted."""
    before = None if new_round else OLD
    assert (target.read_bytes() if target.exists() else None) in (before, NEW)
    temporary = layout.temporary("anna")
    others = {file for file in layout.root.rglob("*") if file.is_file()} - {target, layout.peer_file("anna")}
    assert all(file.is_relative_to(temporary) and file.suffix == ".tmp" for file in others)


def calls_of_one_publish(tmp_path: Path, *, new_round: bool) -> list[str]:
    layout, target = prepared(tmp_path / "counted", new_round=new_round)
    with pytest.MonkeyPatch.context() as patch:
        deadly = Deadly(patch, 0, after=False, die=die_by_exception)
        publish(target, NEW, layout.temporary("anna"))
    return deadly.made


@pytest.mark.parametrize("new_round", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_an_exception_at_any_call_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, new_round: bool, after: bool
) -> None:
    made = calls_of_one_publish(tmp_path, new_round=new_round)
    assert {"open", "write", "fsync", "rename", "close"} <= {*made}
    for at in range(1, len(made) + 1):
        layout, target = prepared(tmp_path / f"{at}", new_round=new_round)
        with pytest.MonkeyPatch.context() as patch:
            Deadly(patch, at, after=after, die=die_by_exception)
            with pytest.raises(Death):
                publish(target, NEW, layout.temporary("anna"))
        expect_whole(layout, target, new_round=new_round)
        publish(target, NEW, layout.temporary("anna"))
        assert target.read_bytes() == NEW


@pytest.mark.parametrize("new_round", [False, True])
def test_a_process_that_dies_at_any_call_leaves_the_old_file_or_the_new_one(tmp_path: Path, new_round: bool) -> None:
    command = [sys.executable, "-m", "tests.unit.store.test_publish_deaths", str(tmp_path), str(int(new_round))]
    dead = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert dead.returncode == 0, dead.stderr
    deaths = int(dead.stdout)
    assert deaths >= 2 * len(calls_of_one_publish(tmp_path, new_round=new_round))
    for number in range(deaths):
        layout = Layout(tmp_path / f"{number}", "demo")
        expect_whole(layout, layout.rollout_file(KEY, "anna"), new_round=new_round)


def die_everywhere(folder: Path, *, new_round: bool) -> int:
    """Fork (this process has one thread) and die at each call, before it and after it; how many died."""
    deaths = 0
    for after in (False, True):
        for at in range(1, len(calls_of_one_publish(folder / f"{after}", new_round=new_round)) + 1):
            layout, target = prepared(folder / f"{deaths}", new_round=new_round)
            if not (child := os.fork()):
                with pytest.MonkeyPatch.context() as patch:
                    Deadly(patch, at, after=after, die=die_at_once)
                    publish(target, NEW, layout.temporary("anna"))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
            deaths += 1
    return deaths


def test_what_was_acknowledged_was_renamed_after_its_content_was_on_disk(tmp_path: Path) -> None:
    made = calls_of_one_publish(tmp_path, new_round=True)
    renamed = made.index("rename")
    assert made[:renamed].count("fsync") == 1
    assert made.index("write") < made.index("fsync") < renamed
    assert made[renamed:].count("fsync") == 4  # the stage's folder, the round's, all rollouts', the experiment's


# ── file systems that say one thing and do another ──────────────────────────────────────────────────────────────────
def test_a_rename_that_failed_though_it_was_done_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def done_but_lost(*args: Any, **kwargs: Any) -> None:
        rename(*args, **kwargs)
        raise OSError(errno.ENOENT, "No such file or directory")  # the server heard it twice

    monkeypatch.setattr(os, "rename", done_but_lost)
    publish(tmp_path / "anna.json", NEW, tmp_path / "tmp")
    assert (tmp_path / "anna.json").read_bytes() == NEW
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("there", [None, OLD, NEW + b"more", NEW[:-1]])
def test_a_rename_that_failed_is_an_error_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bytes | None
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if there is not None:
        (tmp_path / "anna.json").write_bytes(there)
    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(StoreError, match="Input/output error"):
        publish(tmp_path / "anna.json", NEW, tmp_path / "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "acknowledged"),
    [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EPERM, True), (errno.EIO, False), (errno.ENOSPC, False)],
)
def test_a_folder_that_cannot_be_synced_is_no_error_and_one_that_was_lost_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, acknowledged: bool
) -> None:
    fsync = os.fsync

    def only_files(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    if acknowledged:
        publish(tmp_path / "anna.json", NEW, tmp_path / "tmp")
    else:
        with pytest.raises(StoreError, match=os.strerror(code)):
            publish(tmp_path / "anna.json", NEW, tmp_path / "tmp")
    assert (tmp_path / "anna.json").read_bytes() == NEW


def test_a_write_that_takes_only_a_part_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    publish(tmp_path / "anna.json", NEW, tmp_path / "tmp")
    assert (tmp_path / "anna.json").read_bytes() == NEW


if __name__ == "__main__":
    sys.stdout.write(str(die_everywhere(Path(sys.argv[1]), new_round=bool(int(sys.argv[2])))))
