"""What watches a campaign of kills has to see what it watches for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import MetricsRow, NodeState, RewardFile
from tests.chaos.audit import audit
from tests.chaos.watcher import Watcher
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import make_peer, make_rollouts, make_state, put


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    return Watcher(Layout(tmp_path, "exp"))


def put_round(layout: Layout, round_: int, cumulative: float, *, reward: float = 0.5, node: str = "a") -> None:
    """One whole round of a node whose every round made an update."""
    key = RoundKey(round_)
    row = MetricsRow(
        timestamp=0.0,
        round=round_,
        stage=0,
        node_id=node,
        experiment="exp",
        my_reward=0.5,
        total_agents=1,
        cumulative_reward=cumulative,
    )
    put(layout.rollout_file(key, node), encode(make_rollouts(node, key)))
    sent = RewardFile(round=round_, stage=0, reward=reward, peer_id=node, submitted_at=0.0)
    put(layout.reward_file(key, node), encode(sent))
    with layout.metrics_file(node).open("ab") if layout.metrics_file(node).exists() else _new(layout, node) as file:
        file.write(msgspec.json.encode(row) + b"\n")


def _new(layout: Layout, node: str) -> Any:
    put(layout.metrics_file(node), b"")
    return layout.metrics_file(node).open("ab")


def put_checkpoint(layout: Layout, rounds: int, **more: Any) -> None:
    fields = {"rounds_done": rounds, "rounds_trained": rounds, "cumulative_reward": 0.5 * rounds, **more}
    state = NodeState(node_id="a", seed=1, model="m", **fields)
    put(layout.checkpoint(rounds, "a") / "node.json", encode(state))


def put_run(layout: Layout) -> None:
    for number in range(3):
        put_round(layout, number, 0.5 * (number + 1))
    put_checkpoint(layout, 3)
    for log in (layout.events_file("a"), layout.stdout_file("a")):
        put(log, b'{"event":"node.starting","timestamp":1.0}\n')
    put(layout.peer_file("coordinator"), encode(make_peer("coordinator", node_role="coordinator")))
    put(layout.state_file, encode(make_state(round=2)))


def found(watcher: Watcher) -> list[str]:
    watcher.look(everything=True)
    return [*watcher.violations, *audit(watcher.layout, ["a"], watcher)]


def test_a_run_in_order_has_no_violation(watcher):
    put_run(watcher.layout)
    assert found(watcher) == []


def change_an_acknowledged_file(layout: Layout) -> None:
    put(layout.rollout_file(RoundKey(0), "a"), encode(make_rollouts("a", RoundKey(0), seed=8)))


def lose_an_acknowledged_file(layout: Layout) -> None:
    layout.reward_file(RoundKey(1), "a").unlink()


def turn_the_clock_back(layout: Layout) -> None:
    put(layout.state_file, encode(make_state(round=1)))


def tear_the_state(layout: Layout) -> None:
    put(layout.state_file, layout.state_file.read_bytes()[:20])


def do_a_round_again(layout: Layout) -> None:
    put_round(layout, 2, 2.0)


def tear_a_row(layout: Layout) -> None:
    put(layout.metrics_file("a"), layout.metrics_file("a").read_bytes()[:-9])


def count_a_reward_twice(layout: Layout) -> None:
    put_round(layout, 3, 2.5)
    put_checkpoint(layout, 4, cumulative_reward=2.5)


def submit_another_reward(layout: Layout) -> None:
    put_round(layout, 3, 2.0, reward=0.25)
    put_checkpoint(layout, 4)


def save_too_few_updates(layout: Layout) -> None:
    put_round(layout, 3, 2.0)
    put_checkpoint(layout, 4, rounds_trained=3)


def save_no_last_checkpoint(layout: Layout) -> None:
    put_round(layout, 3, 2.0)


def write_groups_with_an_older_policy(layout: Layout) -> None:
    put_round(layout, 3, 2.0)
    put_checkpoint(layout, 4)
    rollouts = make_rollouts("a", RoundKey(3))
    policy = msgspec.structs.replace(rollouts.policy, rounds_trained=2)
    put(layout.rollout_file(RoundKey(3), "a"), encode(msgspec.structs.replace(rollouts, policy=policy)))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (change_an_acknowledged_file, "holds something else now"),
        (lose_an_acknowledged_file, "was there and is gone"),
        (turn_the_clock_back, "the clock went back"),
        (tear_the_state, "the state file was not whole"),
        (do_a_round_again, "a row for round 2 after that for round 2"),
        (tear_a_row, "torn at the end: True"),
        (count_a_reward_twice, "cumulative reward in round 3"),
        (submit_another_reward, "its row says 0.5"),
        (save_too_few_updates, "and 3 updates"),
        (save_no_last_checkpoint, "no checkpoint after its last round, 3"),
        (write_groups_with_an_older_policy, "after 2 updates, its rows say 3"),
    ],
)
def test_a_broken_promise_is_seen(watcher, damage, said):
    put_run(watcher.layout)
    watcher.look()
    damage(watcher.layout)
    assert any(said in violation for violation in found(watcher)), watcher.violations


def test_a_watcher_that_fails_does_not_pass_for_peace(watcher, monkeypatch):
    seen = threading.Event()

    def fail(**_: object) -> None:
        seen.set()
        raise OSError("the folder is gone")

    monkeypatch.setattr(watcher, "look", fail)
    with watcher:
        assert seen.wait(PATIENCE)
    assert any("the folder is gone" in violation for violation in watcher.violations)
