"""What a stranger with write access to the folder may put there: one function per attack, of files alone.

Each is called with the folder of a running experiment and how often it was called before, and writes as its attacker
does at one moment. Those on the round clock and on who waits for whom are in `coordination`. None looks at what the
nodes do with it; `python -m tests.adversaries.table` measures that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from swarm.types import RoundKey
from tests.adversaries import coordination
from tests.layout import Layout
from tests.objects import KINDS, put

BIG = 2 << 20
"""Characters of a completion."""
NAMES, JUNK = 60, 20_000
HOSTILE_NAME = "a\n\x1b[2J\u202e\u009b=cmd()"


class Target(NamedTuple):
    """What is attacked."""

    layout: Layout
    victim: str
    """The worker whose own keys are written over."""
    honest: str
    """What the names of all honest workers begin with."""


Attack = Callable[[Target, int], None]


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def rows_that_overflow(at: Target, tick: int) -> None:
    """Rows of a stranger whose rewards have no finite sum."""
    row = {"round": 0, "stage": 0, "node_id": "mallory", "my_reward": 1e308, "cumulative_reward": 1e308}
    _append(at.layout.metrics_file("mallory"), *(json.dumps(row | {"round": 3 * tick + i}) for i in range(3)))


def rows_for_a_node(at: Target, tick: int) -> None:
    """The same rows in a worker's own log."""
    row = {"round": 10**9 + tick, "stage": 0, "node_id": at.victim, "my_reward": 1e308, "cumulative_reward": -1e308}
    _append(at.layout.metrics_file(at.victim), json.dumps(row))


def events_that_are_odd(at: Target, tick: int) -> None:
    """Integers of 5,000 digits, control characters, direction marks, a million brackets."""
    event = '{"event":"round.opened","timestamp":1.0,"round":%s,"reason":"\\u202e\\u009b2J"}'
    _append(at.layout.events_file("mallory"), event % ("9" * 5000), "[" * 1_000_000, event % tick)


def rows_naming_peers(at: Target, tick: int) -> None:
    """22 MB of rows of a stranger, each of a thousand other peers; after that one a second."""
    path = at.layout.metrics_file("mallory")
    for number in range(540 if tick == 0 else 1):
        peers = {f"peer-{tick}-{number}-{'x' * 20}-{place}": 1 for place in range(1000)}
        row = _plain_row("mallory", at) | {"round": tick + number, "accepted_by_peer": peers}
        _append(path, json.dumps(row, separators=(",", ":")))


def logs_flooded(at: Target, tick: int) -> None:
    """Of twelve strangers 2 MB of the shortest lines and forty events of nearly a megabyte; after that one a second."""
    long = json.dumps({"event": "x", "level": "error", "timestamp": 1.0, "text": "x y " * 240_000})
    for number in range(12):
        lines = [*["{}"] * 700_000, *[long] * 40] if tick == 0 else [long]
        _append(at.layout.events_file(f"mallory{number}"), *lines)


def last_round_before_all(at: Target, tick: int) -> None:
    """A stranger's row of a round that nobody has begun, and a warning."""
    _append(at.layout.metrics_file("mallory"), json.dumps(_plain_row("mallory", at) | {"round": 10**6 + tick}))
    _append(at.layout.events_file("mallory"), json.dumps({"event": "x", "level": "warning", "timestamp": 1.0}))


def hollow_files(at: Target, tick: int) -> None:
    """Registrations of 60 MB, and a checkpoint of 250 GB, that nobody wrote."""
    for number in range(20):
        _hollow(at.layout.peer_file(f"hollow-{tick}-{number}"), 60 << 20)
    _hollow(at.layout.checkpoint(_next_checkpoint(at), f"hollow-{tick}") / "model.safetensors", 250 * 10**9)


def forged_starts(at: Target, tick: int) -> None:
    """Starts in a stranger's, a worker's and the coordinator's name, of other settings, of a million rounds behind."""
    for node, role in (("mallory", "worker"), (at.victim, "worker"), ("clock", "coordinator")):
        settings = {"external_groups": tick, "adaptive": False, "model": "../../etc", "tasks": [HOSTILE_NAME]}
        start = {"timestamp": 1.0, "node_id": node, "experiment": at.layout.experiment, "role": role}
        start |= {"incarnation": HOSTILE_NAME, "rounds_done": 10**6 + tick, "settings": settings}
        _append(_starts(at, node), json.dumps(start), json.dumps(start | {"machine": {"gpus": [HOSTILE_NAME]}}))


def starts_of_22_megabytes(at: Target, tick: int) -> None:
    """Of other settings each, and lines that are none; after that one a second."""
    start = {"timestamp": 1.0, "node_id": "mallory", "experiment": at.layout.experiment, "role": "worker"}
    for number in range(440 if tick == 0 else 1):
        settings = {f"setting-{tick}-{number}-{place}": place for place in range(1500)}
        _append(_starts(at, "mallory"), json.dumps(start | {"settings": settings}), "{" * 1000)


def nested_900_deep(at: Target, tick: int) -> None:
    """Wherever JSON is read: starts, rows, events, judged rows, registrations, and what imports and rl-swarm leave."""
    del tick
    deep = '{"a":' * 900 + "1" + "}" * 900
    for node in ("mallory", at.victim):
        row = json.dumps(_plain_row(node, at))[:-1] + f',"odd":{deep}}}'
        event = f'{{"event":"node.ready","timestamp":1.0,"odd":{deep}}}'
        for path in (at.layout.metrics_file(node), at.layout.events_file(node), _starts(at, node)):
            _append(path, deep, row, event)
    _append(at.layout.judge_file, deep)
    for path in (at.layout.peer_file("deep"), at.layout.exam_file, *_of_other_readers(at)):
        _write(path, deep.encode())


def files_of_other_readers(at: Target, tick: int) -> None:
    """What joining, importing, listing and repeating look at: beside the experiment, where rl-swarm leaves files."""
    for path in _of_other_readers(at):
        _write(
            path, json.dumps({"round": 10**9 + tick, "stage": 0, "made_by": HOSTILE_NAME, "seed": "9" * 400}).encode()
        )
    for number in range(200 if tick == 0 else 1):
        beside = at.layout.root.parent / f"beside-{tick}-{number}"
        _write(
            beside / "experiment.json", json.dumps({"experiment_name": HOSTILE_NAME, "identity": {"seed": []}}).encode()
        )
        with suppress(OSError):
            (beside / "state").symlink_to("/usr")


def names_that_are_odd(at: Target, tick: int) -> None:
    """Names with line ends, controls, direction marks and formulas, and those that differ by case or normal form."""
    root = at.layout.root
    folders = [root / f for f in ("logs", "peers", "checkpoints", "state", "winners", "keys")]
    for folder in (root, root.parent, *folders, at.layout.rollouts_of(_open_round(at))):
        for name in ("a\nb", "\x1b[2J", "\u202eevil", "=cmd()", at.victim.upper(), "e\u0301", "\u00e9", " ", "x" * 250):
            _write(folder / f"{name}{tick}", b"{}")
            _write(folder / f"{name}.json", b"{}")
    _append(root / "logs" / f"{HOSTILE_NAME}{tick}" / "metrics.jsonl", "{}")


# ── rollouts ────────────────────────────────────────────────────────────────────────────────────────────────────────
def big_groups(at: Target, tick: int) -> None:
    """Two completions of two million characters, with one emoji each, under sixty names."""
    del tick
    key, text = _open_round(at), "\N{GRINNING FACE}" + "x" * (BIG - 1)
    entries = [{"prompt": "p", "response": text, "reward": 1.0}] * 2
    for number in range(NAMES):
        name = f"big{number}"
        file = {"peer_id": name, "round": key.round, "stage": key.stage, "timestamp": 1.0, "rollouts": {"0": entries}}
        _write(at.layout.rollout_file(key, name), json.dumps(file, ensure_ascii=False).encode())


def junk_names(at: Target, tick: int) -> None:
    """Twenty thousand files in the open round; after that a hundred a second."""
    folder = at.layout.rollouts_of(_open_round(at))
    for number in range(JUNK if tick == 0 else 100):
        _write(folder / f"junk{tick}-{number}.json", b"{}")


def no_files_among_rollouts(at: Target, tick: int) -> None:
    """A pipe, a socket, links, a sparse terabyte in the open round; a link in place of the next ones."""
    key = _open_round(at)
    folder = at.layout.rollouts_of(key)
    folder.mkdir(parents=True, exist_ok=True)
    for number, kind in enumerate(OBJECTS):
        _put(kind, at, folder / f"object{number}-{tick}.json")
    for ahead in (1, 2, 3):
        with suppress(OSError):
            (at.layout.rollouts / f"round_{key.round + ahead}").symlink_to("/usr")


# ── the clock, and who is there ─────────────────────────────────────────────────────────────────────────────────────
def _of_coordination(attack: coordination.Attack) -> Attack:
    return lambda at, tick: attack(at.layout)


# ── objects in the way ──────────────────────────────────────────────────────────────────────────────────────────────
OBJECTS = [kind for kind in KINDS if kind not in ("file", "hard link")]


def _put(kind: str, at: Target, path: Path) -> None:
    outside = at.layout.path / "outside"
    with suppress(OSError):  # the node may be in the way
        outside.mkdir(exist_ok=True)
        (outside / "precious").touch()
        put(kind, path, outside)


PLACES: dict[str, Callable[[Target], Path]] = {
    "metrics": lambda at: at.layout.metrics_file(at.victim),
    "events": lambda at: at.layout.events_file(at.victim),
    "stdout": lambda at: at.layout.stdout_file(at.victim),
    "registration": lambda at: at.layout.peer_file(at.victim),
    "next rollouts": lambda at: at.layout.rollout_file(_next_round(at), at.victim),
    "next reward": lambda at: at.layout.reward_file(_next_round(at), at.victim),
    "state": lambda at: at.layout.state_file,
    "experiment": lambda at: at.layout.experiment_file,
    "temporary files": lambda at: at.layout.path / ".tmp" / at.victim,
    "next checkpoint": lambda at: at.layout.checkpoint(_next_checkpoint(at), at.victim),
}


def _in_the_way(place: Callable[[Target], Path], kind: str) -> Attack:
    return lambda at, tick: _put(kind, at, place(at))


def _each_in_turn(place: Callable[[Target], Path]) -> Attack:
    return lambda at, tick: _put(OBJECTS[tick % len(OBJECTS)], at, place(at))


OF_FILES: dict[str, Attack] = {
    **coordination.by_name(
        rows_that_overflow,
        rows_for_a_node,
        events_that_are_odd,
        rows_naming_peers,
        logs_flooded,
        last_round_before_all,
        hollow_files,
        forged_starts,
        starts_of_22_megabytes,
        nested_900_deep,
        files_of_other_readers,
        names_that_are_odd,
        big_groups,
        junk_names,
        no_files_among_rollouts,
    ),
    **{name: _of_coordination(attack) for name, attack in coordination.ATTACKS.items()},
}
ONCE: dict[str, Attack] = OF_FILES | {
    f"{what}: {kind}": _in_the_way(place, kind) for what, place in PLACES.items() for kind in OBJECTS
}
"""Written once."""
EVERY_SECOND: dict[str, Attack] = OF_FILES | {
    f"{what}: each kind in turn": _each_in_turn(place) for what, place in PLACES.items()
}
"""Written again every second."""


# ── how ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
def _open_round(at: Target) -> RoundKey:
    """The newest round of which an honest worker has rollouts, whatever the clock has been made to say."""
    rounds = [int(name[6:]) for name in os.listdir(at.layout.rollouts) if name[6:].isdigit()]
    return RoundKey(max((number for number in rounds if _is_honest(at, number)), default=0))


def _is_honest(at: Target, number: int) -> bool:
    with suppress(OSError):
        return any(name.startswith(at.honest) for name in os.listdir(at.layout.rollouts_of(RoundKey(number))))
    return False


def _next_round(at: Target) -> RoundKey:
    return RoundKey(_open_round(at).round + 2)


def _next_checkpoint(at: Target) -> int:
    return (_open_round(at).round // 10 + 1) * 10


def _starts(at: Target, node: str) -> Path:
    return at.layout.metrics_file(node).with_name("starts.jsonl")


def _of_other_readers(at: Target) -> list[Path]:
    root = at.layout.root
    tops = ("import.json", "progress_mallory.json", "progress_w0.json", "settings.json", "SUMMARY.json")
    return [
        *(root / name for name in tops),
        root / "logs" / "node_1" / "metrics.jsonl",
        root.parent / "experiment.json",
    ]


def _plain_row(node: str, at: Target) -> dict[str, object]:
    own = {"timestamp": 1.0, "round": 0, "stage": 0, "node_id": node, "experiment": at.layout.experiment}
    return own | {"my_reward": 0.5, "total_agents": 1}


def _write(path: Path, data: bytes) -> None:
    """Whole, as everybody may who can write there; what is in the way stays."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.x")
        temporary.write_bytes(data)
        temporary.replace(path)


def _hollow(path: Path, size: int) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)


def _append(path: Path, *lines: str) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.writelines(line.encode() + b"\n" for line in lines)
