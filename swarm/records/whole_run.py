"""A whole run as one file, and back: a gzipped tar that any tar unpacks to an ordinary place.

    manifest.json                     PackedRun: every other file with its size and SHA-256
    summary.txt, summary.json         what `swarm summary` says
    experiments/{experiment}/...      the files of the experiment
    archives/{experiment}/rollouts/   what was cleaned away of it

    folder ─ pack_run ─▶ file ─ unpack_run ─▶ folder

Unpacking takes from a file that anybody may have made: regular files alone, of names that nodes write, and no bytes but
those that the manifest names. `check_packed` reads all of it to its last byte, and writes nothing; then it is unpacked.
Broken off it goes on: what is there already as it should be is not written again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO

import msgspec

from swarm import forms
from swarm.config import EXPERIMENT_NAME
from swarm.errors import ProtocolError, StoreError
from swarm.records.packing import BLOCK, MOST_MEMBERS, PackedMember, PackWriter, members
from swarm.wire import keys

MANIFEST = "manifest.json"
SUMMARY = ("summary.txt", "summary.json")
VERSION = 1
LARGEST_MANIFEST = 64 * 2**20
"""Bytes."""
LEFT_FREE = 0.05
"""Share of the free space of a disk that unpacking leaves."""
_PART = re.compile(r"[\w.+=@~,][\w .+=@~,-]{0,254}", re.ASCII)
_ON_WINDOWS = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


class PackedFile(msgspec.Struct, frozen=True):
    """One file."""

    size: int
    sha256: str


class PackedRun(msgspec.Struct, kw_only=True):
    """Lists what a packed run holds, so that it can be told before anything is unpacked."""

    experiment: str
    packed_at: float
    """Unix seconds."""
    swarm: str
    """The version of this program."""
    files: dict[str, PackedFile]
    """By name; in the order in which they follow."""
    version: int = VERSION

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


def pack_run(folder: Path, experiment: str, out: IO[bytes], *, packed_at: float, swarm: str) -> PackedRun:
    """Write what lies in a folder, which has the form of a place, as one file; `unpackable` names are left out.

    Raises:
        ProtocolError: a file changed meanwhile.
        ValueError: a name is too long, or a file too large (8 GiB), for a tar.
    """
    found = {name: _measured(folder / name) for name in sorted(_names(folder)) if is_safe(name, experiment)}
    run = PackedRun(experiment=experiment, packed_at=packed_at, swarm=swarm, files=found)
    writer = PackWriter(out)
    writer.add(MANIFEST, msgspec.json.encode(run))
    for name, file in found.items():
        with open(folder / name, "rb") as source:
            writer.add_from(name, file.size, source)
    writer.close()
    return run


def unpackable(folder: Path, experiment: str) -> list[str]:
    """Returns names in a folder that no archive takes: some system takes them for something else, as `CON.json`."""
    return sorted(name for name in _names(folder) if not is_safe(name, experiment))


def _names(folder: Path) -> Iterator[str]:
    for at, _, files in os.walk(folder):
        prefix = Path(at).relative_to(folder).as_posix().removeprefix(".")
        if f"/{keys.DRAFTS}/" not in f"/{prefix}/":
            names = (f"{prefix}/{name}".removeprefix("/") for name in files)
            yield from (name for name in names if stat.S_ISREG(os.lstat(folder / name).st_mode))


def _measured(path: Path) -> PackedFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return PackedFile(file.tell(), digest)


def check_packed(file: IO[bytes]) -> PackedRun:
    """Read all of a packed run, and see that it is what its manifest says. Raises ProtocolError."""
    run, packed = _opened(file)
    for name, member in _as_named(run, packed):
        _take(name, run.files[name], member, lambda chunk: None)
    return run


def unpack_run(file: IO[bytes], folder: Path) -> PackedRun:
    """Write the files of a packed run below a folder that nobody else writes in; what else is there goes.

    Raises:
        ProtocolError: it is no packed run, or not what its manifest says. `check_packed` writes nothing.
        StoreError: the disk has no room for it.
        OSError: it cannot be written.
    """
    run, packed = _opened(file)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_others(run, folder)
    _refuse_folded(run, folder)
    _refuse_too_large(run, folder)
    for name, member in _as_named(run, packed):
        target, wanted = folder / name, run.files[name]
        if target.is_file() and target.stat().st_size == wanted.size and _measured(target) == wanted:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        half = folder / "half"
        with open(half, "wb") as out:
            _take(name, wanted, member, out.write)
            out.flush()
            os.fsync(out.fileno())
        os.replace(half, target)
    return run


def _remove_others(run: PackedRun, folder: Path) -> None:
    """Removes what the unpacking of another file of the same run left."""
    for path in folder.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in run.files:
            path.unlink()


def _refuse_folded(run: PackedRun, folder: Path) -> None:
    """See that no file takes another one's place where capitals do not count. Raises ProtocolError."""
    folded = set[str]()
    for name in run.files:
        if name.casefold() in folded and folds_case(folder):
            raise ProtocolError("misplaced", f"{name[:200]!r} is there twice, and capitals do not count in {folder}")
        folded.add(name.casefold())


def folds_case(folder: Path) -> bool:
    """Tells whether capitals do not count in the names of a folder, which nobody else writes in."""
    (folder / "case").touch()
    try:
        return (folder / "CASE").exists()
    finally:
        (folder / "case").unlink()


def _refuse_too_large(run: PackedRun, folder: Path) -> None:
    free = int(shutil.disk_usage(folder).free * (1 - LEFT_FREE))
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if run.bytes - there > free:
        raise StoreError(
            f"{folder}: unpacked the run has {run.bytes} bytes, and the disk has room for {free}: free some, or "
            "restore it into a place on another disk"
        )


def _opened(file: IO[bytes]) -> tuple[PackedRun, Iterator[PackedMember]]:
    first = next(members(file, LARGEST_MANIFEST + 2 * BLOCK), None)
    if first is None or first.name != MANIFEST:
        raise ProtocolError("malformed", f"it does not begin with {MANIFEST}: it is no archive of a run")
    try:
        run = forms.decode(first.data(LARGEST_MANIFEST), PackedRun)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"{MANIFEST}: {error}") from None
    if run.version != VERSION:
        raise ProtocolError("wrong_version", f"{MANIFEST} has version {run.version}, this program reads {VERSION}")
    _refuse_names(run)
    file.seek(0)
    blocks = sum(2 * BLOCK + one.size for one in run.files.values())
    packed = members(file, LARGEST_MANIFEST + 4 * BLOCK + blocks)
    next(packed)
    return run, packed


def _refuse_names(run: PackedRun) -> None:
    """Refuses names that nodes do not write, or of another experiment than it says it is. Raises ProtocolError."""
    if not EXPERIMENT_NAME.fullmatch(run.experiment):
        raise ProtocolError("misplaced", f"{run.experiment[:100]!r} is no name of an experiment")
    if len(run.files) > MOST_MEMBERS:
        raise ProtocolError("oversized", f"it names {len(run.files)} files, the limit is {MOST_MEMBERS}")
    for name, file in run.files.items():
        if file.size < 0 or not is_safe(name, run.experiment):
            raise ProtocolError("misplaced", f"{name[:200]!r} is no file of the run {run.experiment!r}")


def is_safe(name: str, experiment: str) -> bool:
    """Tells whether a name is that of a file of a run, below a place and on any system."""
    parts = name.split("/")
    if not all(map(_is_plain, parts)):
        return False
    if name in SUMMARY:
        return True
    if parts[:2] == ["archives", experiment]:
        return parts[2:3] == [keys.ROLLOUTS] and len(parts) == 4 and keys.archived_round(parts[3]) is not None
    key = "/".join(parts[2:])
    return parts[:2] == ["experiments", experiment] and parts[2:3] != [keys.DRAFTS] and keys.owner_of(key) is not None


@lru_cache(4096)
def _is_plain(part: str) -> bool:
    """Tells whether every system takes this for the name of a file or folder, and for nothing else."""
    return bool(_PART.fullmatch(part)) and part[-1] not in ". " and not _ON_WINDOWS.fullmatch(part)


def _as_named(run: PackedRun, packed: Iterator[PackedMember]) -> Iterator[tuple[str, PackedMember]]:
    """Yields the files in the order of the manifest: none is missing, and there is no other. Raises ProtocolError."""
    for name, file in run.files.items():
        member = next(packed, None)
        if member is None or (member.name, member.size) != (name, file.size):
            raise ProtocolError("malformed", f"expected {name} of {file.size} bytes, got {member and member.name!r}")
        yield name, member
    if next(packed, None) is not None:
        raise ProtocolError("malformed", f"it holds files that {MANIFEST} does not name")


def _take(name: str, wanted: PackedFile, member: PackedMember, write: Callable[[bytes], object]) -> None:
    digest = hashlib.sha256()

    def both(chunk: bytes) -> None:
        digest.update(chunk)
        write(chunk)

    member.copy_to(both)
    if digest.hexdigest() != wanted.sha256:
        raise ProtocolError("malformed", f"{name} is not what {MANIFEST} says of it")
