"""Versions of a node's adapter: a folder for the server, a name there, and when both go.

    put ─▶ {prefix}.{number}.{digest} ─▶ written ─▶ loaded ─▶ used ─▶ superseded, and used by nobody ─▶ unloaded, gone

A server keeps what it has computed of prompts by the adapter's name, so other weights never have a name again. A folder
stays as long as its name is loaded: a server may read it once more.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from swarm.errors import GenerationServerError

_DIGEST = 12


class PublishedAdapter(NamedTuple):
    """One version."""

    name: str
    folder: Path


class Adapters:
    """Keeps the adapters of one node in this life, on disk and in its memory; nothing here asks the server."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._versions: list[PublishedAdapter] = []
        self._digest = ""
        self._number = 0
        self._uses = Counter[str]()

    def put(self, digest: str, write: Callable[[Path], None]) -> PublishedAdapter:
        """Returns the version of these weights, written if it is not the last one's.

        Raises:
            GenerationServerError: the folder cannot be written.
        """
        if digest == self._digest:
            return self._versions[-1]
        name = f"{self._prefix}.{self._number}.{digest[:_DIGEST]}"
        version = PublishedAdapter(name, self._folder / name)
        try:
            if not self._number:
                shutil.rmtree(self._folder, ignore_errors=True)  # of a former life
            _write_whole(version.folder, write)
        except OSError as error:
            raise GenerationServerError(
                f"adapter folder {self._folder}: expected one that can be written, got {error}. Make room there, or "
                "set SWARM_ADAPTER_FOLDER"
            ) from error
        self._number += 1
        self._digest = digest
        self._versions.append(version)
        return version

    @contextmanager
    def using(self, version: PublishedAdapter) -> Iterator[None]:
        """Keeps a version within the block."""
        self._uses[version.name] += 1
        try:
            yield
        finally:
            self._uses[version.name] -= 1

    def superseded(self) -> list[PublishedAdapter]:
        """Versions that are of no use any more."""
        return [version for version in self._versions[:-1] if not self._uses[version.name]]

    def remove(self, version: PublishedAdapter) -> None:
        """The server has forgotten it."""
        if version in self._versions:
            self._versions.remove(version)
        shutil.rmtree(version.folder, ignore_errors=True)

    def of_former_lives(self, names: Iterable[str]) -> list[str]:
        """Returns those of these names that this node gave before it began anew."""
        given = re.compile(rf"{re.escape(self._prefix)}\.\d+\.[0-9a-f]{{{_DIGEST}}}")
        own = {version.name for version in self._versions}
        return [name for name in names if given.fullmatch(name) and name not in own]


def _write_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """The folder is there with all that it holds, or not at all."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.mkdir(parents=True)
    write(partial)
    os.replace(partial, folder)
