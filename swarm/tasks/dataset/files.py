"""Finds where a dataset's rows lie, and the SHA-256 by which all nodes of a run know that they have the same.

A dataset is a file, or a folder (such as one fetched from the Hugging Face hub), of which `split` and `config` choose
files. A file's digest is that of its bytes. A folder's is that of the chosen files, in the order of their names: of
each its name in the folder, a zero byte, and the digest of its bytes.
A dataset of the Hugging Face hub is fetched once, by the node that begins the run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from swarm.extras import lacking
from swarm.spelling import did_you_mean
from swarm.tasks.dataset.definition import DatasetDefinition
from swarm.tasks.definitions import malformed, refuse_other, sha256_of

SUFFIXES = (".jsonl", ".csv", ".parquet")
BYTES_LIMIT = 2 * 2**30
"""Bytes of all files of one dataset."""
FILES_LIMIT = 1_000
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def files_of(definition: DatasetDefinition) -> list[Path]:
    """Returns the files of a dataset, in order. Raises ConfigError."""
    path = Path(definition.path)
    if not path.is_dir():
        if definition.split or definition.config:
            raise malformed(definition.name, f"split and config choose among a folder's files, and {path} is none")
        return [_one(definition.name, path)]
    found = sorted(_chosen(definition, path), key=lambda file: file.relative_to(path).as_posix())
    if not 0 < len(found) <= FILES_LIMIT:
        chosen = f" of config {definition.config or 'any'!r}, split {definition.split or 'any'!r}"
        raise malformed(
            definition.name, f"expected 1 to {FILES_LIMIT} files {_KINDS}{chosen} in {path}, got {len(found)}"
        )
    return found


_KINDS = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


def _one(name: str, path: Path) -> Path:
    if path.suffix.lower() not in SUFFIXES:
        raise malformed(name, f"expected a dataset {_KINDS}, got {path}")
    if not path.is_file():
        raise malformed(name, f"no file {path}{_alike(path)}")
    return path


def _alike(path: Path) -> str:
    """Returns which file of its folder a path may have meant, or what paths are relative to."""
    there = list[str]()
    with suppress(OSError):
        there = [file.name for file in path.parent.iterdir() if file.suffix in SUFFIXES]
    return did_you_mean(path.name, there, "; a path is relative to where it is typed, in a settings file to its folder")


def _chosen(definition: DatasetDefinition, folder: Path) -> Iterator[Path]:
    """Yields the files of a folder whose config and split are asked for."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in inside.parts):
            continue
        words = {*inside.parts[:-1], *re.split(r"[-_.]", inside.name)}
        if (not definition.config or definition.config in inside.parts) and (
            not definition.split or definition.split in words
        ):
            yield path


def digest(definition: DatasetDefinition) -> str:
    """Returns SHA-256 of the dataset. Raises ConfigError."""
    path, paths = Path(definition.path), files_of(definition)
    try:
        size = sum(file.stat().st_size for file in paths)
        if size > BYTES_LIMIT:
            raise malformed(definition.name, f"{path} has {size} bytes, more than {BYTES_LIMIT}; take a part")
        if paths == [path]:
            return sha256_of(path)
        whole = hashlib.sha256()
        for file in paths:
            whole.update(file.relative_to(path).as_posix().encode(errors="surrogateescape") + b"\0")
            whole.update(bytes.fromhex(sha256_of(file)))
        return whole.hexdigest()
    except OSError as error:
        raise malformed(definition.name, f"cannot read {definition.path}: {error}") from None


def require(definition: DatasetDefinition) -> None:
    """See that the dataset is the one that the run was begun with. Raises ConfigError."""
    refuse_other(definition.name, definition.path, definition.sha256, digest(definition))


# ── the Hugging Face hub ────────────────────────────────────────────────────────────────────────────────────────────
def is_id(text: str) -> bool:
    """Tells whether it may be a dataset of the hub, such as openai/gsm8k."""
    return _ID.fullmatch(text) is not None and Path(text).suffix.lower() not in SUFFIXES


def fetch(name: str, dataset: str, config: str = "") -> Path:
    """Returns the local folder of a dataset's files, fetched unless they are there; its name tells the dataset.

    Raises:
        ConfigError: the hub does not have it, or cannot be reached.
    """
    try:
        from huggingface_hub import constants, snapshot_download
    except ModuleNotFoundError:
        raise lacking(f"the dataset {dataset}", "huggingface_hub", "analysis") from None
    folder = Path(constants.HF_HOME) / "swarm" / dataset.replace("/", "--")
    wanted = [f"{config}/*{suffix}" if config else f"*{suffix}" for suffix in SUFFIXES]
    try:
        snapshot_download(dataset, repo_type="dataset", allow_patterns=wanted, local_dir=folder)
    except Exception as error:  # noqa: BLE001 - the boundary: the hub's client raises what its HTTP libraries raise
        raise malformed(
            name,
            f"no file {dataset} here, and the Hugging Face hub does not give a dataset of that name: {error!s:.300}; "
            "fetch it elsewhere (`hf download --repo-type dataset`) and name its folder",
        ) from None
    return folder
