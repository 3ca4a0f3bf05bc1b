"""Permissions that count for root as well, as they do for everybody else; for tests of files that cannot be read."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_VERSION_3 = 0x20080522
_OVERRIDING = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: to open what permissions close."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def permissions_count() -> Iterator[None]:
    """Who is root gives up its right to open anything: in this thread, and in those that it starts in the block."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("here root opens whatever there is")
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    _call("capget", header, sets)
    before = sets[0].effective
    sets[0].effective = before & ~_OVERRIDING
    _call("capset", header, sets)
    try:
        yield
    finally:
        sets[0].effective = before
        _call("capset", header, sets)


def _call(name: str, header: _Header, sets: ctypes.Array[_Sets]) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(ctypes.byref(header), sets):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def close(place: Path) -> None:
    """Let nobody read or write a file, or look into a folder; what is closed can still be renamed or removed."""
    place.chmod(0)


def reopen(root: Path) -> None:
    """Undo all closing below a folder, so that it can be removed."""
    for folder, below, files in os.walk(root):
        for name in (*below, *files):
            place = Path(folder, name)
            if not place.is_symlink() and not place.stat().st_mode & 0o700:
                place.chmod(0o700)
