"""A folder of the doctor's own on the file system in question, gone at the end."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm.wire.layout import Layout

PREFIX = "doctor-"


@contextmanager
def probe_folder(layout: Layout) -> Iterator[tuple[Path | None, str]]:
    """(the folder, "") or (None, why there is none).

    It lies in the experiment's `.tmp`, which nobody watches or counts; where that is not there (or is a link that leads
    elsewhere), in the shared folder; and where there is none yet, in the nearest one above, where it would be made.
    """
    own = layout.root / ".tmp"
    parent = own if os.path.isdir(own) and not os.path.islink(own) else nearest_existing(layout.path)
    probe = parent / f"{'' if parent == own else '.swarm-'}{PREFIX}{uuid.uuid4().hex}"
    try:
        try:
            probe.mkdir()
        except OSError as error:
            yield None, f"cannot write in {parent}: {error.strerror or error}"
            return
        yield probe, ""
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def file_server_skew(probe: Path, wall: Callable[[], float]) -> float:
    """Seconds by which a new file's time is ahead of a clock; half the time that the write takes is the error."""
    file = probe / "time.tmp"
    before = wall()
    file.write_bytes(b"now")
    after = wall()
    return file.stat().st_mtime - (before + after) / 2


def nearest_existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next((place for place in (path, *path.parents) if os.path.exists(place)), path)
