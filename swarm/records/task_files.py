"""Files that a run's tasks are asked from, in its place: who joins needs nothing but the place.

    who begins the run: a task's `dataset` ─▶ tasks/{sha256} ─▶ who joins: a cache of this user's ─▶ `dataset`, a path

A file is what its SHA-256 in the experiment says, whoever put it there. Sources in Python are never put there or taken
from there: they are code. Nor are folders, and files above MOST_BYTES: these each node needs by itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from swarm.config.task_table import Parameters, foreign_files
from swarm.errors import AlreadyThereError, ConfigError, ProtocolError, StoreError
from swarm.store.base import Store
from swarm.tasks.definitions import sha256_of
from swarm.wire import keys

MOST_BYTES = 64 * 2**20
MOST_FETCHED = 2**29
"""Bytes of all files of a run together: many tasks may name one, under ever other names."""


def publish(store: Store, tasks: Mapping[str, Parameters]) -> list[str]:
    """Put the files of some tasks, as swarm.tasks.registry.complete gives them, where those that join find them.

    Returns:
        Names of tasks whose files are too large for that, or are folders.

    Raises:
        StoreError: the place does not take them.
    """
    alone = []
    for name, parameters in tasks.items():
        path = Path(parameters.get("dataset", ""))
        if "dataset" not in parameters:
            continue
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            alone.append(name)
            continue
        with suppress(AlreadyThereError):
            store.put(keys.task_file(parameters["sha256"]), path.read_bytes(), if_absent=True)
    return alone


def localised(store: Store, tasks: Mapping[str, Parameters], cache: Path) -> dict[str, dict[str, Any]]:
    """Returns the tasks of an experiment with paths of files on this machine; those that are not here are fetched.

    Args:
        cache: a folder of this user's.

    Raises:
        ConfigError: a file is neither here nor there, or all of them are too large.
    """
    found, left = dict[str, dict[str, Any]](), MOST_FETCHED
    for name, parameters in tasks.items():
        found[name] = dict(parameters)
        if "dataset" in parameters:
            file, fetched = _here(store, name, parameters, cache, left)
            found[name]["dataset"], left = str(file.absolute()), left - fetched
    return found


def _here(store: Store, name: str, parameters: Parameters, cache: Path, left: int) -> tuple[Path, int]:
    """Returns a task's file on this machine, and its bytes where it was fetched, now or before. Raises ConfigError."""
    if wrong := next(iter(foreign_files({name: parameters})), None):
        raise ConfigError(f"[tasks.{name}]: expected a file name and its SHA-256 in the experiment, got {wrong!r}")
    file, sha256 = Path(parameters["dataset"]), parameters["sha256"]
    if file.is_file() and sha256_of(file) == sha256:
        return file, 0
    cached = cache / sha256 / file
    data = None if cached.is_file() and sha256_of(cached) == sha256 else _fetched(store, name, file, sha256)
    size = cached.stat().st_size if data is None else len(data)
    if size > left:
        raise ConfigError(
            f"[tasks.{name}]: the files of the run have together more than the {MOST_FETCHED} bytes that a node "
            "fetches from a place: get the others from whoever began the run, and start in their folder"
        )
    if data is not None:
        _keep(name, cached, data)
    return cached, size


def _fetched(store: Store, name: str, file: Path, sha256: str) -> bytes:
    where = store.describe(keys.task_file(sha256))
    try:
        data = store.get(keys.task_file(sha256), MOST_BYTES).data
    except (FileNotFoundError, ProtocolError, StoreError) as error:
        raise ConfigError(
            f"[tasks.{name}]: the file {str(file)!r} with the SHA-256 {sha256} is neither in the working directory "
            f"nor at {where} ({error}): get it from whoever began the run, and start here"
        ) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ConfigError(f"[tasks.{name}]: {where} is not what its name says: somebody has changed it; do not use it")
    return data


def _keep(name: str, target: Path, data: bytes) -> None:
    """Write a file whole, whatever else writes it now. Raises ConfigError: this machine takes no more."""
    draft = target.with_name(f"{uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        os.replace(draft, target)
    except OSError as error:
        raise ConfigError(
            f"[tasks.{name}]: cannot keep its file of {len(data)} bytes at {target}: {error.strerror or error}; free "
            "space there, or set SWARM_KEY_FOLDER"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink()
