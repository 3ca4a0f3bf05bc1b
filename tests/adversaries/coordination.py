"""Attacks on the round clock and on who waits for whom: each writes once, and may be called again each second.

None of them holds a key: where signatures are required, what they write is not signed. `python -m
tests.adversaries.table --attacks KIND` writes one into a running swarm.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from swarm.errors import ProtocolError, StoreError
from swarm.records.files import read_peers, read_state
from swarm.records.liveness import ACTIVE
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile, RewardFile, RolloutFile, StateFile
from tests.layout import Layout

Attack = Callable[[Layout], None]
Named = TypeVar("Named", bound=Callable[..., None])
FAR = 10**6
FLOOD = 5000
SYBILS = 8
"""More than the honest workers of a small swarm."""
_number = itertools.count()
"""So that each call has names and beats of its own."""


def _put(layout: Layout, file: Path, data: bytes) -> None:
    with suppress(StoreError):
        layout.put(file, data, "stranger", durable=False)


def _register(layout: Layout, name: str, **more: object) -> None:
    now = time.time()
    fields = {"peer_id": name, "registered_at": now, "node_role": "worker", "last_seen": now, "status": ACTIVE}
    peer = msgspec.convert({**fields, "beat": next(_number), "incarnation": name, **more}, PeerFile)
    _put(layout, layout.peer_file(name), encode(peer))


def _open_state(layout: Layout) -> StateFile | None:
    with suppress(ProtocolError):
        return read_state(layout.run)
    return None


def new_name(layout: Layout) -> None:
    """A name that was never there registers, and never publishes."""
    _register(layout, f"a-stranger-{time.time_ns()}")


def silent_worker(layout: Layout) -> None:
    """One name beats, and never publishes."""
    _register(layout, "a-silent-worker", incarnation="one")


def five_thousand_names(layout: Layout) -> None:
    """They register at once, and come before all others by name."""
    for number in range(FLOOD):
        _register(layout, f"0-stranger-{number}")


def starting_for_ever(layout: Layout) -> None:
    """A name that loads its model, and another one each time."""
    _register(layout, f"a-starter-{time.time_ns()}", status="starting")


def _write_state(layout: Layout, **more: object) -> None:
    if state := _open_state(layout):
        _put(layout, layout.state_file, encode(msgspec.structs.replace(state, **more)))


def huge_round(layout: Layout) -> None:
    """The clock says a round that nobody has come near."""
    _write_state(layout, round=FAR, max_rounds=2 * FAR)


def last_round(layout: Layout) -> None:
    """The clock says the last round but one that the experiment has."""
    if state := _open_state(layout):
        _write_state(layout, round=max(state.round, state.max_rounds - 1))


def finished(layout: Layout) -> None:
    """The clock says that all rounds are done, which are fewer than were announced."""
    if state := _open_state(layout):
        _write_state(layout, finished=True, max_rounds=state.round)


def finished_at_the_end(layout: Layout) -> None:
    """The clock says that all rounds are done, as many as were announced."""
    if state := _open_state(layout):
        _write_state(layout, finished=True, round=state.max_rounds)


def malformed_rewards(layout: Layout) -> None:
    """Fakes beat, and have reward files that hold `x` for many rounds to come."""
    _sybils(layout, lambda key, name: b"x")


def bare_rewards(layout: Layout) -> None:
    """Fakes beat, and have well-formed rewards without rollouts for many rounds to come."""
    _sybils(layout, _reward)


def forged_rounds(layout: Layout) -> None:
    """Fakes beat, and have well-formed rewards and rollout files for many rounds to come: they do what earns a say."""
    for key, name in _sybils(layout, _reward):
        file = RolloutFile(peer_id=name, round=key.round, stage=key.stage, timestamp=time.time(), rollouts={})
        _put(layout, layout.rollout_file(key, name), encode(file))


def _reward(key: RoundKey, name: str) -> bytes:
    reward = RewardFile(round=key.round, stage=key.stage, reward=1.0, peer_id=name, submitted_at=time.time())
    return encode(reward)


def _sybils(layout: Layout, content: Callable[[RoundKey, str], bytes]) -> list[tuple[RoundKey, str]]:
    names = [f"sybil-{number}" for number in range(SYBILS)]
    state = _open_state(layout)
    first = state.round if state else 0
    for name in names:
        _register(layout, name, incarnation="one")
    done = [(RoundKey(round_), name) for round_ in range(first, first + 40) for name in names]
    for key, name in done:
        _put(layout, layout.reward_file(key, name), content(key, name))
    return done


def older_claims(layout: Layout) -> None:
    """In the place of every registration lies another incarnation's, which claims to be older and does not beat."""
    for peer in read_peers(layout.run):
        claim = msgspec.structs.replace(peer, registered_at=0.0, incarnation="older", host="elsewhere", pid=1, beat=7)
        _put(layout, layout.peer_file(peer.peer_id), encode(claim))


def highest_beats(layout: Layout) -> None:
    """Every registration has the highest beat that there is, so that the node's own look old."""
    for peer in read_peers(layout.run):
        _put(layout, layout.peer_file(peer.peer_id), encode(msgspec.structs.replace(peer, beat=2**53 - 1)))


def older_coordinator(layout: Layout) -> None:
    """A coordinator with the older claim that does not beat, and a state that names it."""
    _register(layout, "an-older-one", node_role="coordinator", registered_at=0.0, incarnation="older", beat=7)
    _write_state(layout, updated_by="an-older-one")


def by_name(*attacks: Named) -> dict[str, Named]:
    """Attacks by the names that people type."""
    return {attack.__name__.replace("_", "-"): attack for attack in attacks}


ATTACKS: dict[str, Attack] = by_name(
    new_name,
    silent_worker,
    five_thousand_names,
    starting_for_ever,
    huge_round,
    last_round,
    finished,
    finished_at_the_end,
    malformed_rewards,
    bare_rewards,
    forged_rounds,
    older_claims,
    highest_beats,
    older_coordinator,
)
"""`forged-rounds` earns what nobody promises to withhold."""
