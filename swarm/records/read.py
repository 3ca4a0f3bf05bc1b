"""Read an experiment's folder while its nodes write it.

Half-written last lines wait for their newline, lines and files that are not what they should be are counted and not
fatal, and files that only grow are read on from where the last reading ended.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from swarm.errors import ExperimentError, ProtocolError, StoreError
from swarm.store.folder.beneath import is_folder
from swarm.store.folder.fetch import list_names, list_nodes, open_regular, read_bounded
from swarm.types import RoundKey
from swarm.wire.codec import decode
from swarm.wire.layout import EXPERIMENTS, Layout, is_node_id, node_of, round_of, stage_of
from swarm.wire.messages import SCHEMA_VERSION, ExamRow, MetricsRow, PeerFile, RewardFile, StateFile

Form = TypeVar("Form", bound=msgspec.Struct)
SMALL_FILE = 64 * 1024
"""Bytes that no state, reward or vote comes near."""
LARGEST_REGISTRATION = 8 * 1024
"""Bytes. One has some 500; all of them are held in memory, and anybody may add more."""
MOST_PEERS = 1000
"""Registrations read in one look: some 25 ms."""
LARGEST_EXAM = 16 * 2**20
"""Bytes."""
MOST_PER_LINE = 2**20
"""Bytes. Longer lines are junk; a metrics row has some 2 kB."""
MOST_PER_LOOK = 64 * 2**20
"""Bytes that one reading of a growing file takes in, in about 0.05 s; the next one goes on there. 30,000 rounds."""
MOST_ROWS = 100_000
"""Rows of one node that are held; rounds, that is."""
_HEAD = 256
"""Bytes at a file's start by which Tail knows it again: the first line's timestamp is among them."""


def experiments(path: Path) -> list[str]:
    """Names of the experiments in a shared folder, sorted."""
    folder = path / EXPERIMENTS
    return sorted(name for name in list_names(folder) if (folder / name).is_dir())


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
    return _read_of(layout, layout.state_file, StateFile, "")


def read_state_or_problem(layout: Layout) -> tuple[StateFile | None, str]:
    """The round clock for those who only look; None while there is none, and with what is wrong if it is torn."""
    try:
        return read_state(layout), ""
    except ProtocolError as error:
        return None, str(error)


def read_peer(layout: Layout, node: str) -> PeerFile | None:
    """A node's registration, or None where there is none that can be read, or one that speaks for another node."""
    try:
        peer = _read_of(layout, layout.peer_file(node), PeerFile, node, LARGEST_REGISTRATION)
    except ProtocolError:
        return None
    return peer if peer and peer.peer_id == node else None


def read_peers(layout: Layout, first: Collection[str] = ()) -> list[PeerFile]:
    """The registrations that can be read, at most MOST_PEERS of them.

    Args:
        first: nodes that are read before any other, such as those known to be alive, so that a flood of registrations
            costs a look some time and nobody the sight of its peers.
    """
    there = list_nodes(layout.peers)
    wanted = [*sorted(there & set(first)), *sorted(there - set(first))][:MOST_PEERS]
    return [peer for node in sorted(wanted) if (peer := read_peer(layout, node))]


def read_reward(layout: Layout, key: RoundKey, node: str) -> RewardFile | None:
    """A node's reward, or None where there is none. Raises ProtocolError as read_file does."""
    return _read_of(layout, layout.reward_file(key, node), RewardFile, node)


def _read_of(layout: Layout, path: Path, form: type[Form], author: str, limit: int = SMALL_FILE) -> Form | None:
    """As read_file, of a file that its author may have to have signed."""
    try:
        data = read_bounded(path, limit)
    except FileNotFoundError:
        return None
    layout.trust.check(data, layout.key(path))
    return decode(data, form, str(path))


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
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
    """All rows of one node, up to MOST_ROWS and MOST_PER_LOOK. A missing file has none."""
    tail = Tail(metrics_file)
    return _rows_among(islice(tail.read(), MOST_ROWS), tail)


def read_own_rows(metrics_file: Path) -> Rows:
    """As read_rows, but however many there are: a node that goes on must not miss the last of its own.

    They are brought to disk first, for what follows is built on them: a kill may have come between a row and its sync.
    """
    with suppress(OSError, ProtocolError), open(open_regular(metrics_file), "rb") as file:
        os.fsync(file.fileno())
    tail = Tail(metrics_file)
    return _rows_among(tail.read_to_the_end(), tail)


def _rows_among(lines: Iterator[bytes], tail: Tail) -> Rows:
    rows, junk = [], 0
    for line in lines:
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

    Strangers write such files: a reading takes in MOST_PER_LOOK bytes and leaves the rest to the next one, and holds no
    more than MOST_PER_LINE of them at a time.
    """

    def __init__(self, path: Path) -> None:
        self.torn = False
        """The last reading ended before a line without its newline."""
        self._path = path
        self._offset = 0
        self._head = b""
        self._in_long_line = False

    def read(self) -> Iterator[bytes]:
        """New whole lines without their newlines, b"" for one that is too long: nobody takes that for a record.

        What is not there (yet), or is no file, has none.
        """
        self.torn = False
        try:
            file = open(open_regular(self._path), "rb")  # noqa: SIM115 - closed below; reading may stop midway
        except (FileNotFoundError, ProtocolError):
            return
        with file:
            if not self._is_same(file.read(len(self._head)), os.fstat(file.fileno()).st_size):
                self._offset, self._head, self._in_long_line = 0, b"", False
            file.seek(self._offset)
            yield from self._lines(file)

    def read_to_the_end(self) -> Iterator[bytes]:
        """As `read`, in as many readings as it takes."""
        begun = -1
        while begun < self._offset:
            begun = self._offset
            yield from self.read()

    def _lines(self, file: BufferedReader) -> Iterator[bytes]:
        end = self._offset + MOST_PER_LOOK
        while self._offset < end:
            part = file.readline(MOST_PER_LINE + 1)
            ended = part.endswith(b"\n")
            if not ended and len(part) <= MOST_PER_LINE and not self._in_long_line:  # the end of the file
                self.torn = bool(part)
                return
            self._take(part)
            too_long, self._in_long_line = self._in_long_line, not ended
            if ended:
                yield b"" if too_long else part[:-1]
            elif len(part) <= MOST_PER_LINE:
                self.torn = True
                return

    def _take(self, part: bytes) -> None:
        self._offset += len(part)
        if len(self._head) < _HEAD:
            self._head = (self._head + part)[:_HEAD]

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
        if round_ is None or not is_folder(folder / round_name):
            counted.strays.append(folder / round_name)
            continue
        for stage_name in list_names(folder / round_name):
            stage = stage_of(stage_name)
            if stage is None or not is_folder(folder / round_name / stage_name):
                counted.strays.append(folder / round_name / stage_name)
                continue
            nodes, strays = count_stage(folder / round_name / stage_name)
            counted.nodes[RoundKey(round_, stage)] = nodes
            counted.strays.extend(strays)
    return counted


def count_stage(folder: Path) -> tuple[set[str], list[Path]]:
    """The nodes that have a file in one stage's folder, and the other names in it.

    What cannot be listed, such as a link that somebody put there, is itself a stray: those who only look go on.
    """
    try:
        names = list_names(folder)
    except StoreError:
        return set(), [folder]
    nodes = {node for name in names if (node := node_of(name))}
    return nodes, [folder / name for name in names if not node_of(name)]
