"""The records of a run as rows of plain values: one reader per frame.

Reading works while nodes write and after they crashed. A node's name is that of its folder or file, whatever its lines
say. What a row lacks is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from swarm.errors import ProtocolError
from swarm.records.archives import LARGEST_FILE
from swarm.records.files import read_form
from swarm.records.groups import slots_of
from swarm.records.growing import parse_line
from swarm.records.listing import count_files, entries, rounds_in
from swarm.records.made_by import made_by, unknown_columns
from swarm.records.rollouts import RolloutFiles
from swarm.records.rows import read_judged, read_metrics
from swarm.records.stream import EventStream
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import RewardFile, RolloutFile

Row = dict[str, Any]


def metrics_rows(run: Run) -> Iterator[Row]:
    """Yields one row per node, round and stage, by round, stage and node."""
    unknown = dict.fromkeys(unknown_columns(run))
    found = [((row.round, row.stage), node, row) for node, rows in read_metrics(run).items() for row in rows]
    found.sort(key=lambda one: one[:2], reverse=True)
    while found:  # what has been taken need not be held beside what is made of it
        _, node, row = found.pop()
        yield _plain(row) | {"node_id": node, "experiment": run.experiment} | unknown


class _Event(msgspec.Struct):
    timestamp: float
    event: str
    level: str = "info"


def event_rows(run: Run) -> list[Row]:
    """Returns every event of every node by time; those of one time by node and as written."""
    return [row for said in EventStream(run).read() if (row := _event(said.node, said.line))]


def _event(node: str, line: bytes) -> Row | None:
    head = parse_line(line, _Event)
    if head is None:
        return None
    fields = parse_line(line, dict[str, Any])
    if fields is None:  # an integer that no number of this machine holds, in a place that the head has none for
        fields = {"line": line.decode("utf-8", "replace")}
    rest = {name: value for name, value in fields.items() if name not in (*_Event.__struct_fields__, "node_id")}
    return _plain(head) | {"node_id": node, "round": _whole(rest.pop("round", None)), "fields": rest}


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def rollout_rows(run: Run, rounds: Collection[int] | None = None) -> Iterator[Row]:
    """Yields every completion that nodes published, by round, stage, node, slot and place in its group.

    Args:
        rounds: only these; None: all that the folder and its archive have.
    """
    unknown = {"finished": None} if made_by(run) else {}
    files = RolloutFiles(run, rounds)
    return (row | unknown for key, node in files for row in _completions(_published(files, key, node)))


def _published(files: RolloutFiles, key: RoundKey, node: str) -> RolloutFile | None:
    """Reads what a node published, wherever it lies; None if it is gone, or cannot be taken."""
    with suppress(ProtocolError):
        return files.decoded(key, node, LARGEST_FILE)
    return None


def _completions(file: RolloutFile | None) -> Iterator[Row]:
    if file is None:
        return
    for slot in slots_of(file):
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
                "earlier_turns": [{"response": t.response, "reply": t.reply} for t in entry.turns or ()],
                "model": file.policy.model,
                "timestamp": file.timestamp,
            }


def rollout_file_rows(run: Run) -> list[Row]:
    """Lists how many rollout files each node has for each stage, and how large they are, by round, stage and node."""
    found: dict[tuple[int, int, str], list[int]] = {}
    for number in rounds_in(run.store, keys.ROLLOUTS):
        place = f"{keys.ROLLOUTS}/round_{number}"
        for of_stage in entries(run.store, place):
            if of_stage.kind is not Kind.PREFIX or keys.stage_of(of_stage.name) is None:
                continue
            for entry in entries(run.store, f"{place}/{of_stage.name}", tags=True):
                if published := keys.published_in(f"{place}/{of_stage.name}/{entry.name}"):
                    (_, stage), node = published
                    found.setdefault((number, stage, node), []).append(entry.size)
    return [
        {"round": number, "stage": stage, "peer_id": node, "files": len(sizes), "bytes": sum(sizes)}
        for (number, stage, node), sizes in sorted(found.items())
    ]


def reward_rows(run: Run) -> list[Row]:
    """Returns every reward that nodes submitted, by round, stage and node."""
    there = count_files(run.store, keys.REWARDS).files
    files = (_read_own(run, keys.reward(key, node), key, node) for key, node in there)
    return [_plain(file) for file in files if file]


def _read_own(run: Run, file: str, key: RoundKey, node: str) -> RewardFile | None:
    """Returns a file, or None if it is gone, cannot be read, or speaks for another node or round than its path."""
    try:
        found = read_form(run.store, file, RewardFile)
    except ProtocolError:
        return None
    return found if found and (found.round, found.stage, found.peer_id) == (*key, node) else None


def judge_rows(run: Run) -> list[Row]:
    """Returns one row per round, node and judged question, in this order."""
    return [_plain(row) for row in read_judged(run)]


def _plain(struct: msgspec.Struct) -> Row:
    return {name: None if value is UNSET else value for name, value in msgspec.structs.asdict(struct).items()}
