"""The steps in which the real code writes, taken down while it writes into a folder of its own.

So a write that forgets to sync is simulated as what it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

from swarm.lines import append_json_line
from swarm.store.folder.publish import publish

Steps = tuple[str, ...]
"""Of `write`, `sync`, `rename`, `sync_folder`."""


class WriteSteps(NamedTuple):
    """How each kind of file is written."""

    publish: Steps
    """A file that is there whole or not at all."""
    append: Steps
    """A line at the end of a file."""


def taken_down(writer: Callable[..., None] = publish) -> WriteSteps:
    """Let the real code write one file and one line, and note what it asks of the system."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "there").mkdir()
        with _noting() as published:
            writer(folder / "there" / "file", b"content", folder / "temporary", durable=True)
        with _noting() as appended:
            append_json_line(folder / "lines", b"{}", fsync=True)
    return WriteSteps(("write", *published), ("write", *appended))


@contextmanager
def _noting() -> Iterator[list[str]]:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noting_fsync(descriptor: int) -> None:
        steps.append("sync_folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync")
        fsync(descriptor)

    def noting_rename(*arguments: Any, **folders: Any) -> None:
        steps.append("rename")
        rename(*arguments, **folders)

    with mock.patch.object(os, "fsync", noting_fsync), mock.patch.object(os, "rename", noting_rename):
        yield steps
