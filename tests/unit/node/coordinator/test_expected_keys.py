"""Workers that are expected by their public keys: real keys and signed registrations in a real folder."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.node.base.context import NodeContext
from swarm.node.base.experiment import claim_experiment
from swarm.node.base.presence import names_and_keys
from swarm.node.coordinator.coordinator import Coordinator
from swarm.node.process.wiring import make_context
from swarm.records.files import PeerReader, id_of, read_peer
from swarm.signing.keys import load_key, make_key, public_text
from swarm.signing.known_keys import KnownKeys
from swarm.signing.trust import make_trust
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import make_peer, make_rollouts, make_settings, put
from tests.unit.node.nodes import running, until

pytestmark = pytest.mark.anyio


class Swarm:
    """A folder, a coordinator's machine, and users who have keys of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layout = Layout(path / "shared", "exp")

    def key(self, user: str) -> str:
        """A user's public key."""
        folder = self.path / user
        return public_text(load_key(folder) if folder.exists() else make_key(folder))

    def register(self, user: str, node: str) -> None:
        """A user says that a node of this name is alive."""
        self._put(user, keys.peer(node), encode(make_peer(node, last_seen=time.time(), incarnation=user)))

    def submit(self, user: str, node: str, round_: int) -> None:
        """A user says that this node has done a round."""
        key = RoundKey(round_)
        self._put(user, keys.rollout(key, node), encode(make_rollouts(node, key)))
        reward = {"round": round_, "stage": 0, "reward": 0.5, "peer_id": node, "submitted_at": 1.0}
        self._put(user, keys.reward(key, node), encode(reward))

    def _put(self, user: str, key: str, data: bytes) -> None:
        self.key(user)
        trust = make_trust("on", self.path / user, self.layout.path, "exp", partial(id_of, self.layout.run))
        put(self.layout.root / key, trust.seal(data, key))

    def context(self, *expected: str, signing: str = "require", **settings: Any) -> NodeContext:
        self.key("keeper")
        given = {"liveness_timeout": 60.0, "round_interval": 60.0, "key_folder": str(self.path / "keeper")} | settings
        made = make_settings(self.layout.path, role="coordinator", signing=signing, expected_workers=expected, **given)
        claim_experiment(make_context(made, "clock"))  # signatures name it
        return make_context(made, "clock")

    def pinned(self, node: str) -> str | None:
        return KnownKeys(self.path / "keeper", self.layout.path, "exp").of(node)


@pytest.fixture
def swarm(tmp_path: Path) -> Swarm:
    return Swarm(tmp_path)


def awaited(logs: list[Any]) -> list[tuple[list[str], list[str]]]:
    return [(log["present"], log["missing"]) for log in logs if log["event"] == "workers.awaited"]


@pytest.mark.parametrize("signing", ["on", "require"])
async def test_who_uses_the_name_with_another_key_is_not_counted_and_the_log_says_which_key_is_missing(
    swarm: Swarm, signing: str
) -> None:
    """And a stranger who was first under the name does not shut out whose key is expected."""
    anna = swarm.key("anna")
    context = swarm.context(anna, signing=signing)
    swarm.register("mallory", "worker")
    with capture_logs() as logs:
        async with running(Coordinator(context)):
            await until(lambda: (["worker"], [anna]) in awaited(logs))
            await until(lambda: (peer := read_peer(context.run, "clock")) and peer.beat > 5)
            assert not swarm.layout.state_file.exists()
            swarm.register("anna", "worker")
            await until(lambda: swarm.layout.state_file.exists())
    assert swarm.pinned("worker") == anna
    (told,) = (log for log in logs if log["event"] == "key.pinned" and log["public_key"] == anna)
    assert told["before"] == swarm.key("mallory")


def seen(context: NodeContext, reader: PeerReader) -> frozenset[str]:
    """What the nodes whose registrations are believed now are called."""
    return names_and_keys(context, [peer.peer_id for peer in reader.read().peers])


def test_a_name_stands_for_the_expected_key_and_for_no_other_that_comes_later(swarm: Swarm) -> None:
    anna, ben = swarm.key("anna"), swarm.key("ben")
    context = swarm.context(anna, ben)
    reader = PeerReader(context.run)
    swarm.register("anna", "worker")
    assert seen(context, reader) == {"worker", anna}
    swarm.register("mallory", "worker")
    assert seen(context, reader) == frozenset(), "the honest registration is overwritten, and the other not believed"
    swarm.register("ben", "worker")
    assert seen(context, reader) == frozenset(), "one expected key does not take the name of another"
    swarm.register("anna", "worker")
    swarm.register("ben", "other")
    assert seen(context, reader) == {"worker", anna, "other", ben}


def test_an_unsigned_registration_stands_for_no_key(swarm: Swarm) -> None:
    context = swarm.context(swarm.key("anna"), signing="on")
    put(swarm.layout.peer_file("worker"), encode(make_peer("worker")))
    assert seen(context, PeerReader(context.run)) == {"worker"}


async def test_the_rewards_of_strangers_move_no_clock_whose_workers_are_expected_by_key(swarm: Swarm) -> None:
    context = swarm.context(swarm.key("anna"), max_rounds=9)
    swarm.register("anna", "worker")
    with capture_logs() as logs:
        async with running(Coordinator(context)):
            await until(lambda: swarm.layout.state_file.exists())
            for number in range(3):
                swarm.register("mallory", f"fake-{number}")
                for round_ in range(7):
                    swarm.submit("mallory", f"fake-{number}", round_)
            await until(lambda: (peer := read_peer(context.run, "clock")) and peer.beat > 20)
            assert [log["round"] for log in logs if log["event"] == "round.opened"] == [0]
            swarm.submit("anna", "worker", 0)
            await until(lambda: len([log for log in logs if log["event"] == "round.opened"]) > 1)
    assert [log["round"] for log in logs if log["event"] == "round.opened"][:2] == [0, 1]
