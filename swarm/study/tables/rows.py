"""What a run's folder holds, as rows of plain values: one reader per frame.

Reading works while nodes write and after they crashed: a last line without its newline waits, and lines and files that
are not what they should be are left out (`swarm validate` counts them). A node's name is that of its folder or file,
whatever its lines say. What a row lacks is None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from swarm.errors import ProtocolError
from swarm.records.read import Tail, count_files, nodes_with_logs, parse_line, read_file, read_metrics
from swarm.types import RoundKey
from swarm.wire.layout import Layout
from swarm.wire.messages import SCHEMA_VERSION, JudgedRow, RewardFile, RolloutFile

Row = dict[str, Any]
Keyed = TypeVar("Keyed", RolloutFile, RewardFile)
"""Files that say which node and stage they are of."""

_SLOT = re.compile(r"[0-9]{1,6}")
LARGEST_FILE = 1 << 30
"""Bytes. One file is held at a time, and none is refused for its size that nodes may have been allowed to take."""


def metrics_rows(layout: Layout) -> list[Row]:
    """One row per node and round, by round and node. A node that resumed may write a round again: the last counts.

    A row whose reward is no share of the full one is left out: one number without bounds would be the whole sum.
    """
    last = {(row.round, node): row for node, rows in read_metrics(layout).items() for row in rows}
    last = {key: row for key, row in last.items() if 0 <= row.my_reward <= 1}
    return [_plain(last[key]) | {"node_id": key[1], "experiment": layout.experiment} for key in sorted(last)]


def event_rows(layout: Layout) -> list[Row]:
    """Every event of every node by time; those of one time by node and as written."""
    rows = [row for node in nodes_with_logs(layout) for row in _events(layout, node)]
    return sorted(rows, key=lambda row: row["timestamp"])


class _Event(msgspec.Struct):
    timestamp: float
    event: str
    level: str = "info"


def _events(layout: Layout, node: str) -> Iterator[Row]:
    for line in Tail(layout.events_file(node)).read():
        if head := parse_line(line, _Event):
            fields: Row = msgspec.json.decode(line)
            rest = {name: value for name, value in fields.items() if name not in (*_Event.__struct_fields__, "node_id")}
            yield _plain(head) | {"node_id": node, "round": _whole(rest.pop("round", None)), "fields": rest}


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def rollout_rows(layout: Layout, rounds: Collection[int] | None = None) -> list[Row]:
    """Every completion that nodes published, by round, stage, node, slot and place in its group.

    Args:
        rounds: only these; None: all that the folder still has.
    """
    return [
        row
        for key, node in _by_key(layout.rollouts, rounds)
        if (file := _read_own(layout.rollout_file(key, node), RolloutFile, key, node))
        for row in _completions(file)
    ]


def _completions(file: RolloutFile) -> Iterator[Row]:
    for slot in sorted((name for name in file.rollouts if _SLOT.fullmatch(name)), key=int):
        info = file.groups.get(slot)
        for place, entry in enumerate(file.rollouts[slot]):
            yield {
                "round": file.round,
                "stage": file.stage,
                "peer_id": file.peer_id,
                "slot": int(slot),
                "completion": place,
                "task": info.task if info else "",
                "prompt": entry.prompt,
                "response": entry.response,
                "claimed_reward": entry.reward,
                "finished": entry.finished,
                "answer": (info and info.answer) or "",
                "model": file.policy.model,
                "timestamp": file.timestamp,
            }


def reward_rows(layout: Layout) -> list[Row]:
    """Every reward that nodes submitted, by round, stage and node."""
    keys = _by_key(layout.rewards)
    files = (_read_own(layout.reward_file(key, node), RewardFile, key, node) for key, node in keys)
    return [_plain(file) for file in files if file]


def _by_key(folder: Path, rounds: Collection[int] | None = None) -> list[tuple[RoundKey, str]]:
    """The files of rollouts/ or rewards/: which stage, and which node's."""
    counted = count_files(folder).nodes
    return sorted((key, node) for key in counted if rounds is None or key.round in rounds for node in counted[key])


def _read_own(file: Path, form: type[Keyed], key: RoundKey, node: str) -> Keyed | None:
    """A file, or None for one that is gone, cannot be read, or speaks for another node or round than its path."""
    try:
        found = read_file(file, form, LARGEST_FILE)
    except ProtocolError:
        return None
    return found if found and (found.round, found.stage, found.peer_id) == (*key, node) else None


def judge_rows(layout: Layout) -> list[Row]:
    """One row per node, round and judged question, in this order. Judged again after a crash, the last row counts."""
    lines = Tail(layout.judge_file).read()
    rows = [row for line in lines if (row := parse_line(line, JudgedRow)) and row.schema_version == SCHEMA_VERSION]
    last = {(row.round, row.node_id, row.question_id): row for row in rows}
    return [_plain(last[key]) for key in sorted(last)]


def _plain(struct: msgspec.Struct) -> Row:
    return {name: None if value is UNSET else value for name, value in msgspec.structs.asdict(struct).items()}
