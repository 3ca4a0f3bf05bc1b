"""Whoever dies while writing, at any call of the system: readers find what was there or what was to be, whole."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from swarm.errors import StoreError
from swarm.store.folder.store import FolderStore
from tests.conformance.promises import BUNDLE, KEY, LOG, content, filled, reading
from tests.patience import PATIENCE

CALLS = ("open", "mkdir", "write", "fsync", "close", "replace", "link", "unlink", "rmdir", "ftruncate")
OLD, NEW = b"old " * 1000, b"new " * 1000


class Death(BaseException):
    """No error that anybody handles."""


class Deadly:
    """Counts this process's calls of the system, and lets the one with this number be the last; 0: before the first.

    What a process leaves that dies before a call is what it leaves after the one before.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: float, *, die: Callable[[], None]) -> None:
        self.made: list[str] = []
        self._at, self._die = at, die
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not self._at:
                self._die()
            self.made.append(name)
            mine = len(self.made) == self._at
            try:
                return call(*args, **kwargs)
            finally:
                if mine:
                    self._die()

        return counted


def die_by_exception() -> None:
    raise Death


def die_at_once() -> None:
    os._exit(9)


def put_bundle(data: bytes) -> Callable[[FolderStore], None]:
    return lambda store: store.put_bundle(BUNDLE, filled(weights=data))


def bundle(store: FolderStore) -> object:
    with suppress(FileNotFoundError):
        return content(store, BUNDLE)
    return None


def file(store: FolderStore) -> object:
    return reading(store, KEY)


def whole(data: bytes) -> object:
    return {"weights": data, "model/weights": data}


class Case(NamedTuple):
    """A write, and what readers may find when its writer died."""

    do: Callable[[FolderStore], None]
    look: Callable[[FolderStore], object]
    before: object
    after: object
    prepare: Callable[[FolderStore], None] = lambda _: None
    again: bool = True
    """It may simply be done again."""


CASES = {
    "a new file": Case(lambda s: s.put(KEY, NEW), file, None, NEW),
    "a file in the place of another": Case(lambda s: s.put(KEY, NEW), file, OLD, NEW, lambda s: s.put(KEY, OLD)),
    "a first file": Case(lambda s: s.put(KEY, NEW, if_absent=True), file, None, NEW, again=False),
    "a new bundle": Case(put_bundle(NEW), bundle, None, whole(NEW)),
    "a bundle in the place of another": Case(put_bundle(NEW), bundle, whole(OLD), whole(NEW), put_bundle(OLD)),
    "a bundle that goes": Case(lambda s: s.remove_prefix(BUNDLE), bundle, whole(OLD), None, put_bundle(OLD)),
    "records": Case(
        lambda s: s.append_records(LOG, [b"two", b"three"], durable=True),
        lambda s: s.read_records(LOG).records,
        [b"one"],
        [b"one", b"two", b"three"],
        lambda s: s.append_records(LOG, [b"one"], durable=True),
    ),
}


def prepared(folder: Path, case: Case) -> FolderStore:
    store = FolderStore(folder, "anna")
    store.put("peers/anna.json", b"{}", durable=False)
    case.prepare(store)
    return store


def calls_of(folder: Path, case: Case) -> list[str]:
    store = prepared(folder, case)
    with pytest.MonkeyPatch.context() as patch:
        deadly = Deadly(patch, math.inf, die=die_by_exception)
        case.do(store)
    return deadly.made


def expect_whole(folder: Path, case: Case) -> None:
    """Of a dead writer: what it wrote is as it was or as it was to be, and nothing else lies where anybody looks."""
    life = FolderStore(folder, "anna")
    life.recover()
    assert case.look(FolderStore(folder)) in (case.before, case.after)
    assert life.list(".tmp/anna").entries == []
    if case.again:
        case.do(life)
        assert case.look(life) == case.after


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing is counted and not done: who dies alone loses nothing by it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("name", ["a file in the place of another", "a first file", "records"])
def test_an_exception_at_any_call_leaves_what_was_there_or_what_was_to_be(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    for at in range(len(calls_of(tmp_path / "counted", case)) + 1):
        store = prepared(tmp_path / f"{at}", case)
        with pytest.MonkeyPatch.context() as patch:
            Deadly(patch, at, die=die_by_exception)
            with pytest.raises(Death):
                case.do(store)
        expect_whole(tmp_path / f"{at}", case)


@pytest.mark.usefixtures("quick_disk")
def test_a_process_that_dies_at_any_call_leaves_what_was_there_or_what_was_to_be(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.unit.store.folder.test_deaths", str(tmp_path)]
    dead = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert dead.returncode == 0, dead.stderr
    for (name, case), deaths in zip(CASES.items(), map(int, dead.stdout.split()), strict=True):
        assert deaths > len(calls_of(tmp_path / name / "counted", case)) > 0
        for number in range(deaths):
            expect_whole(tmp_path / name / f"{number}", case)


def die_everywhere(folder: Path, case: Case) -> int:
    """Fork (this process has one thread) and die before the first call and after each; how many died."""
    deaths = len(calls_of(folder / "a life", case)) + 1
    for at in range(deaths):
        store = prepared(folder / f"{at}", case)
        if not (child := os.fork()):
            with pytest.MonkeyPatch.context() as patch:
                Deadly(patch, at, die=die_at_once)
                case.do(store)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    return deaths


def test_what_was_acknowledged_was_renamed_after_its_content_was_on_disk(tmp_path: Path) -> None:
    made = calls_of(tmp_path, CASES["a new file"])
    renamed = made.index("replace")
    assert made[:renamed].count("fsync") == 1
    assert made.index("write") < made.index("fsync") < renamed
    assert made[renamed:].count("fsync") == 4  # the stage's folder, the round's, all rollouts', the experiment's


# ── file systems that say one thing and do another ──────────────────────────────────────────────────────────────────
def test_a_rename_that_failed_though_it_was_done_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.replace

    def done_but_lost(*args: Any, **kwargs: Any) -> None:
        rename(*args, **kwargs)
        raise OSError(errno.ENOENT, "No such file or directory")  # the server heard it twice

    monkeypatch.setattr(os, "replace", done_but_lost)
    FolderStore(tmp_path, "anna").put("anna.json", NEW)
    assert (tmp_path / "anna.json").read_bytes() == NEW
    assert list((tmp_path / ".tmp" / "anna").iterdir()) == []


@pytest.mark.parametrize("there", [None, OLD, NEW + b"more", NEW[:-1]])
def test_a_rename_that_failed_is_an_error_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bytes | None
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if there is not None:
        (tmp_path / "anna.json").write_bytes(there)
    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(StoreError, match="Input/output error"):
        FolderStore(tmp_path, "anna").put("anna.json", NEW)
    assert list((tmp_path / ".tmp" / "anna").iterdir()) == []


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
        FolderStore(tmp_path, "anna").put("anna.json", NEW)
    else:
        with pytest.raises(StoreError, match=os.strerror(code)):
            FolderStore(tmp_path, "anna").put("anna.json", NEW)
    assert (tmp_path / "anna.json").read_bytes() == NEW


def test_a_write_that_takes_only_a_part_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    FolderStore(tmp_path, "anna").put("anna.json", NEW)
    assert (tmp_path / "anna.json").read_bytes() == NEW


if __name__ == "__main__":
    os.fsync = lambda _: None
    dead = [die_everywhere(Path(sys.argv[1]) / name, case) for name, case in CASES.items()]
    sys.stdout.write(" ".join(map(str, dead)))
