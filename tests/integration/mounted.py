"""A shared folder on a mount of its own, for tests, without privileges: in a user and mount namespace.

holder   unshare -rm: owns the namespace, in which the folder is a small tmpfs or can be made read-only
nodes    nsenter into it, and see the folder at its path
test     sees the same through /proc/{holder}/root
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.swarms import eventually
from tests.patience import PATIENCE

BLOCK = 4096


class Mounted:
    """The namespace of one test."""

    def __init__(self, holder: subprocess.Popen[bytes], folder: Path) -> None:
        self._holder = holder
        self.folder = folder
        """Its path inside."""
        self.seen = Path(f"/proc/{holder.pid}/root{folder}")
        """Its path from outside."""

    @property
    def enter(self) -> list[str]:
        """Goes before a command that is to run inside."""
        return ["nsenter", "-t", str(self._holder.pid), "-U", "-m", "--preserve-credentials", f"--wd={Path.cwd()}"]

    def _do(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True, capture_output=True, timeout=PATIENCE)

    @contextmanager
    def full(self) -> Iterator[None]:
        """A stranger takes every block that there is, and every one that becomes free."""
        over = threading.Event()
        hoard = self.seen / "hoard"

        def take() -> None:
            with hoard.open("wb", buffering=0) as file:
                while not over.wait(0.01):
                    with suppress(OSError):
                        while file.write(b"x" * BLOCK):
                            pass

        thread = threading.Thread(target=take)
        thread.start()
        try:
            eventually(lambda: not os.statvfs(self.seen).f_bavail, "a full disk")
            yield
        finally:
            over.set()
            thread.join()
            hoard.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """A read-only mount lies over the folder.

        Made read-only aside and moved there in one step: a mount that is in use, a file of it open for writing, cannot
        be made read-only (EBUSY).
        """
        aside = self.folder.with_name("read-only")
        aside.mkdir(exist_ok=True)
        self._do("mount", "--bind", str(self.folder), str(aside))
        self._do("mount", "-o", "remount,bind,ro", str(aside))
        self._do("mount", "--move", str(aside), str(self.folder))
        try:
            yield
        finally:
            self._do("umount", "--lazy", str(self.folder))  # a process may have a file of it open just now


@contextmanager
def mounted(folder: Path, mount: Sequence[str]) -> Iterator[Mounted]:
    """A namespace in which `mount` has been run on the folder; skips where the machine allows none."""
    folder.mkdir()
    script = 'mount "$@" && echo ready && exec sleep 3600'
    try:
        holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", script, "sh", *mount, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        pytest.skip(f"no unshare on this machine: {error}")
    assert holder.stdout is not None
    assert holder.stderr is not None
    with holder:
        try:
            if holder.stdout.readline() != b"ready\n":
                pytest.skip(f"no mount namespaces without privileges here: {holder.stderr.read().decode().strip()}")
            yield Mounted(holder, folder)
        finally:
            holder.kill()
