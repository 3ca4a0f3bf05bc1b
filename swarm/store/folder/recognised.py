"""Tells whether a root still holds the experiment that it held before, also when it was unmounted and mounted
meanwhile.

    the same folder by device and number ─▶ nothing is read
    another one ─▶ experiment.json as before? ─yes─▶ it was mounted again
                                              └no──▶ StoreError: nothing is read or written there

Under the mount point of a share that is away anybody may begin an experiment of the same name: a coordinator that is
started just then does. It is the later one of the two, so who began in it is `astray` once the share is back.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from swarm import forms
from swarm.errors import StoreError
from swarm.wire.keys import EXPERIMENT

LARGEST = 2**20
"""Bytes that are read of experiment.json."""


class _Begun(msgspec.Struct):
    created_at: float = 0.0


class Recognised:
    """One root, for one writer. Blocking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: tuple[int, int] | None = None
        self._begun = b""
        """experiment.json as this writer first saw it, empty before that."""

    def begins(self, data: bytes) -> None:
        """This writer itself has just written experiment.json, or removed it: b""."""
        self._begun = data

    def see(self) -> None:
        """Look at the root. Raises StoreError: it holds another experiment than before."""
        try:
            found = os.stat(self._root)
        except OSError:
            return  # it is away: whoever reads or writes finds out
        folder = found.st_dev, found.st_ino
        if self._begun and folder == self._folder:
            return
        begun = self._read()
        if self._begun and begun != self._begun:
            raise self._other(begun)
        self._begun, self._folder = begun, folder

    def _read(self) -> bytes:
        try:
            with open(self._root / EXPERIMENT, "rb", opener=_no_link) as file:
                return file.read(LARGEST)
        except OSError:
            return b""

    def _other(self, begun: bytes) -> StoreError:
        if not begun:
            return StoreError(
                f"{self._root} held an experiment and is another folder now; see that the shared folder is mounted"
            )
        astray = _created_at(begun) < _created_at(self._begun)
        return StoreError(
            f"{self._root} holds another experiment of this name than the one that this node began in; "
            + ("start the node anew" if astray else "see that the shared folder is mounted"),
            astray=astray,
        )


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _created_at(begun: bytes) -> float:
    try:
        return forms.decode(begun, _Begun).created_at
    except msgspec.MsgspecError:
        return 0.0
