"""Whatever object a stranger puts in a node's way, the node goes on, and is never deaf to SIGTERM."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest

from swarm.types import RoundKey
from swarm.wire import keys
from tests.integration.swarms import LIGHT, Daemon, daemons, environment, eventually, layout
from tests.layout import Layout
from tests.objects import KINDS, put

pytestmark = pytest.mark.engine

NODE = "anna"


def first_keys() -> list[str]:
    return [keys.events(NODE), keys.stdout(NODE), keys.metrics(NODE), keys.peer(NODE), f"{keys.DRAFTS}/{NODE}"]


def round_keys(number: int) -> list[str]:
    return [
        keys.rollout(RoundKey(number), NODE),
        keys.reward(RoundKey(number), NODE),
        keys.completions(number, NODE),
        keys.winners(number, NODE),
        keys.checkpoint(number + 1, NODE),
    ]


def kind_at(place: int) -> str:
    return KINDS[place % len(KINDS)]


@pytest.mark.parametrize("first", [0, 5])
def test_a_node_goes_on_past_objects_at_each_of_its_keys(tmp_path: Path, first: int) -> None:
    """Before it starts, and in rounds to come while it runs: there each key has each kind, one a round."""
    shared, outside = tmp_path / "shared", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious\n")
    place = layout(shared)

    def spoil(spoilt: list[str], since: int) -> None:
        for number, key in enumerate(spoilt, start=since):
            if not (kind_at(number) == "file" and key.startswith((keys.LOGS, keys.PEERS))):
                put(kind_at(number), place.root / key, outside)

    spoil([*first_keys(), *round_keys(0), *round_keys(1)], first)
    env = environment(
        shared, NODE_ID=NODE, MAX_ROUNDS=100_000, SWARM_CLOCK="own", SWARM_EXPECTED_WORKERS=1, CHECKPOINT_INTERVAL=1
    )
    with daemons() as start:
        node = start(LIGHT, env)
        eventually(lambda: len(done(shared)) >= 3, "rounds past the objects it began with")
        soon = done(shared)[-1] + 3
        ahead = range(soon, soon + len(KINDS))
        for number in ahead:
            spoil(round_keys(number), number)
        eventually(lambda: done(shared)[-1] > ahead[-1], "rounds past those with objects in the way")
        for kind in KINDS[:-1]:
            put(kind, place.root / keys.peer(NODE), outside)
            eventually(lambda: beats(place), f"a heartbeat in the place of a {kind}")
        ended_by_sigterm(node)
    numbers = done(shared)
    assert numbers == sorted(set(numbers))
    for number in ahead:
        assert json.loads(place.rollout_file(RoundKey(number), NODE).read_bytes())["peer_id"] == NODE
        assert json.loads(place.reward_file(RoundKey(number), NODE).read_bytes())["peer_id"] == NODE
    assert (outside / "precious").read_bytes() == b"precious\n"
    assert b'"obstacle.removed"' in place.events_file(NODE).read_bytes()


def done(shared: Path) -> list[int]:
    """The rounds with a row; other lines are a stranger's."""
    file = layout(shared).metrics_file(NODE)
    if not is_the_nodes_own(file):
        return []
    with file.open("rb") as opened:
        if file.stat().st_size >= 1 << 40:  # what was written behind the hole
            opened.seek(1 << 40)
        lines = opened.read().split(b"\n")
    return [json.loads(line)["round"] for line in lines if line.startswith(b"{") and line.endswith(b"}")]


def is_the_nodes_own(file: Path) -> bool:
    """A regular file with no other name; any other would keep the one who looks waiting as well."""
    try:
        found = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def beats(place: Layout) -> bool:
    """The heartbeat is there again."""
    file = place.peer_file(NODE)
    return is_the_nodes_own(file) and file.stat().st_size < 10_000 and file.read_bytes().startswith(b"{")


def ended_by_sigterm(node: Daemon) -> None:
    node.signal(signal.SIGTERM)
    assert node.wait() == 143, node.output
