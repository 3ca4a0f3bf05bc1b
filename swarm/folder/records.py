"""Read an experiment's folder while its nodes write it.

Half-written last lines wait for their newline, lines and files that are not what they should be are counted and not
fatal, and files that only grow are read on from where the last reading ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from swarm.errors import ExperimentError, ProtocolError
from swarm.folder.fetch import list_names, list_nodes, open_regular, read_bounded
from swarm.protocol.codec import decode
from swarm.protocol.layout import Layout, is_node_id, node_of, round_of, stage_of
from swarm.protocol.messages import SCHEMA_VERSION, ExamRow, MetricsRow, PeerFile, StateFile
from swarm.types import RoundKey

Form = TypeVar("Form", bound=msgspec.Struct)
SMALL_FILE = 64 * 1024
"""Bytes that no state, registration, reward or vote comes near."""
LARGEST_EXAM = 16 * 2**20
"""Bytes."""
_HEAD = 256
"""Bytes at a file's start by which Tail knows it again: the first line's timestamp is among them."""


def experiments(path: Path) -> list[str]:
    """Names of the experiments in a shared folder, sorted."""
    return sorted(name for name in list_names(path / "experiments") if (path / "experiments" / name).is_dir())


def open_experiment(path: Path, name: str) -> Layout:
    """The paths of an experiment that is there.

    Raises:
        ExperimentError: there is none of that name; says which there are.
    """
    layout = Layout(path, name)
    if layout.root.is_dir():
        return layout
    there = experiments(path)
    known = f"there {'is' if len(there) == 1 else 'are'} {', '.join(there)}" if there else "there is none at all"
    raise ExperimentError(f"no experiment {name!r} in {path}: {known}; name one with --experiment, and --path")


def read_state(layout: Layout) -> StateFile | None:
    """The round clock, or None before the first state was written. Raises ProtocolError for a torn or foreign one."""
    return read_file(layout.state_file, StateFile)


def read_state_or_problem(layout: Layout) -> tuple[StateFile | None, str]:
    """The round clock for those who only look; None while there is none, and with what is wrong if it is torn."""
    try:
        return read_state(layout), ""
    except ProtocolError as error:
        return None, str(error)


def read_peer(layout: Layout, node: str) -> PeerFile | None:
    """A node's registration, or None where there is none that can be read, or one that speaks for another node."""
    try:
        peer = read_file(layout.peer_file(node), PeerFile)
    except ProtocolError:
        return None
    return peer if peer and peer.peer_id == node else None


def read_peers(layout: Layout) -> list[PeerFile]:
    """Every registration that can be read, by name."""
    return [peer for node in sorted(list_nodes(layout.peers)) if (peer := read_peer(layout, node))]


def read_file(path: Path, form: type[Form], limit: int = SMALL_FILE) -> Form | None:
    """One file of the folder, or None if it is not there.

    Raises:
        ProtocolError: it is not of that form, or larger than `limit` bytes, or no file at all.
    """
    try:
        return decode(read_bounded(path, limit), form, str(path))
    except FileNotFoundError:
        return None


def read_exam(layout: Layout) -> list[ExamRow]:
    """What an experiment's exam found; empty where it was not examined.

    Raises:
        ProtocolError: the file is there and is no list of such rows.
    """
    try:
        return msgspec.json.decode(read_bounded(layout.exam_file, LARGEST_EXAM), type=list[ExamRow])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise ProtocolError("malformed", f"{layout.exam_file} is no list of exam rows: {error}") from None


def nodes_with_logs(layout: Layout) -> list[str]:
    """Nodes that have a folder for logs, sorted."""
    return sorted(name for name in list_names(layout.logs) if is_node_id(name))


class Rows(NamedTuple):
    """What a metrics file holds."""

    rows: list[MetricsRow]
    junk: int
    """Whole lines that are no metrics row."""
    torn: bool
    """The last line has no newline: it is being written, or its writer was killed."""


def read_metrics(layout: Layout) -> dict[str, list[MetricsRow]]:
    """The metrics rows of every node that has any, in the order they were written."""
    found = {node: read_rows(layout.metrics_file(node)).rows for node in nodes_with_logs(layout)}
    return {node: rows for node, rows in found.items() if rows}


def read_rows(metrics_file: Path) -> Rows:
    """All rows of one node. A missing file has none."""
    tail = Tail(metrics_file)
    rows, junk = [], 0
    for line in tail.read():
        row = parse_line(line, MetricsRow)
        if row is not None and row.schema_version == SCHEMA_VERSION:
            rows.append(row)
        else:
            junk += 1
    return Rows(rows, junk, tail.torn)


def parse_line(line: bytes, form: type[Form]) -> Form | None:
    """One JSON line as a struct, or None for anything else."""
    try:
        return msgspec.json.decode(line, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Tail:
    """The whole lines of a file that grows, each exactly once, over any number of readings.

    A file that became shorter, or whose start is another one, is a new file and is read from its beginning. (Inode
    numbers are no help: network file systems change them under the same file.)
    """

    def __init__(self, path: Path) -> None:
        self.torn = False
        """The last reading ended before a line without its newline."""
        self._path = path
        self._offset = 0
        self._head = b""

    def read(self) -> Iterator[bytes]:
        """New whole lines without their newlines. What is not there (yet), or is no file, has none."""
        self.torn = False
        try:
            file = open(open_regular(self._path), "rb")  # noqa: SIM115 - closed below; reading may stop midway
        except (FileNotFoundError, ProtocolError):
            return
        with file:
            if not self._is_same(file.read(len(self._head)), os.fstat(file.fileno()).st_size):
                self._offset, self._head = 0, b""
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    self.torn = True
                    return
                self._offset += len(line)
                self._head = (self._head + line)[:_HEAD] if len(self._head) < _HEAD else self._head
                yield line[:-1]

    def _is_same(self, head: bytes, size: int) -> bool:
        return size >= self._offset and head == self._head


class Counted(NamedTuple):
    """A counted folder: which nodes have a file for which stage, and what else lies there."""

    nodes: dict[RoundKey, set[str]]
    strays: list[Path]
    """Temporary, conflicting and otherwise unexpected names."""


def count_files(folder: Path) -> Counted:
    """All of rollouts/ or rewards/."""
    counted = Counted({}, [])
    for round_name in list_names(folder):
        round_ = round_of(round_name)
        if round_ is None or not (folder / round_name).is_dir():
            counted.strays.append(folder / round_name)
            continue
        for stage_name in list_names(folder / round_name):
            stage = stage_of(stage_name)
            if stage is None or not (folder / round_name / stage_name).is_dir():
                counted.strays.append(folder / round_name / stage_name)
                continue
            nodes, strays = count_stage(folder / round_name / stage_name)
            counted.nodes[RoundKey(round_, stage)] = nodes
            counted.strays.extend(strays)
    return counted


def count_stage(folder: Path) -> tuple[set[str], list[Path]]:
    """The nodes that have a file in one stage's folder, and the other names in it."""
    names = list_names(folder)
    nodes = {node for name in names if (node := node_of(name))}
    return nodes, [folder / name for name in names if not node_of(name)]
