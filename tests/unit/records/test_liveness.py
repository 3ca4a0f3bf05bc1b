"""Who is alive."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.records.liveness import ACTIVE, MOST_LIVES, STARTING, STOPPED, Liveness
from swarm.wire.messages import PeerFile
from tests.unit.node.factories import make_peer

TIMEOUT = 15.0
DAY = 86400.0
WALL = 1_700_000_000.0


def live(liveness: Liveness, now: float) -> set[str]:
    return set(liveness.live(now, role="worker"))


def see(liveness: Liveness, now: float, node: str = "bob", **more: Any) -> None:
    """Its registration, at a moment at which it has been written."""
    liveness.observe(make_peer(node, last_seen=WALL, **more), now, WALL)


def test_the_ghost_of_a_killed_run_is_not_waited_for() -> None:
    liveness = Liveness(TIMEOUT)
    liveness.observe(make_peer("bob", last_seen=WALL - 3600), 100.0, WALL)
    assert live(liveness, 100.0) == set()
    liveness.observe(make_peer("bob", last_seen=WALL - 3600), 101.0, WALL + 1)
    assert live(liveness, 101.0) == set(), "seeing the same file again is no sign of life"


@pytest.mark.parametrize("skew", [-DAY, DAY])
def test_a_clock_that_is_a_day_off_does_not_matter_after_one_beat(skew: float) -> None:
    liveness = Liveness(TIMEOUT)
    liveness.observe(make_peer("bob", last_seen=WALL + skew, beat=1), 100.0, WALL)
    assert live(liveness, 100.0) == set()
    liveness.observe(make_peer("bob", last_seen=WALL + skew + 1, beat=2), 101.0, WALL + 1)
    assert live(liveness, 101.0) == {"bob"}


def test_a_heartbeat_that_stops_moving_is_a_death() -> None:
    liveness = Liveness(TIMEOUT)
    for beat in range(3):
        see(liveness, 100.0 + beat, beat=beat)
    for later in range(20):
        liveness.observe(make_peer("bob", last_seen=WALL, beat=2), 102.0 + later, WALL + later)
    assert live(liveness, 102.0 + TIMEOUT - 0.1) == {"bob"}
    assert live(liveness, 102.0 + TIMEOUT) == set()


def test_a_peer_that_comes_back_is_alive_again_at_its_first_beat() -> None:
    liveness = Liveness(TIMEOUT)
    see(liveness, 100.0, beat=7, incarnation="first")
    assert live(liveness, 500.0) == set()
    see(liveness, 500.0, beat=7, incarnation="second")
    assert live(liveness, 500.0) == {"bob"}


def test_stopped_is_believed_at_once() -> None:
    liveness = Liveness(TIMEOUT)
    see(liveness, 100.0, beat=1)
    see(liveness, 100.1, beat=2, status=STOPPED)
    assert live(liveness, 100.1) == set()


def test_a_node_that_is_still_loading_its_model_is_not_waited_for() -> None:
    liveness = Liveness(TIMEOUT)
    see(liveness, 100.0, status=STARTING)
    assert live(liveness, 100.0) == set()
    assert liveness.live(100.0, role="worker", statuses=(STARTING, ACTIVE)) == {"bob"}


def test_a_role_is_what_a_node_says_and_not_guessed_from_its_name() -> None:
    """A coordinator was once guessed from the node's name."""
    liveness = Liveness(TIMEOUT)
    liveness.observe(make_peer("coordinator", last_seen=WALL, node_role="worker"), 100.0, WALL)
    assert live(liveness, 100.0) == {"coordinator"}
    assert liveness.live(100.0, role="coordinator") == frozenset()


def test_an_old_file_that_is_put_back_neither_ends_a_peer_nor_keeps_it_alive() -> None:
    liveness = Liveness(10.0)
    for beat in (1, 2, 3):
        see(liveness, 0.0, "alice", beat=beat, status=ACTIVE)
    see(liveness, 5.0, "alice", beat=2, status=STOPPED)
    assert live(liveness, 6.0) == {"alice"}
    assert live(liveness, 11.0) == set()
    see(liveness, 11.0, "alice", beat=1, status=ACTIVE, incarnation="second")
    assert live(liveness, 12.0) == {"alice"}


def test_two_old_files_of_a_peer_that_died_twice_do_not_keep_it_alive_by_turns() -> None:
    """A cache that gives now this and now that version made a dead coordinator look alive, and nobody went on alone."""
    liveness = Liveness(10.0)
    for incarnation, beat in (("first", 7), ("second", 3)):
        see(liveness, 0.0, "alice", beat=beat, incarnation=incarnation)
    for now in (5.0, 10.0, 15.0):
        see(liveness, now, "alice", beat=7, incarnation="first")
        see(liveness, now + 1, "alice", beat=3, incarnation="second")
    assert live(liveness, 16.0) == set()
    see(liveness, 17.0, "alice", beat=4, incarnation="second")
    assert live(liveness, 17.0) == {"alice"}


def test_of_however_many_lives_a_peer_had_old_files_do_not_bring_it_back_nor_end_it() -> None:
    liveness, lives = Liveness(10.0), 3 * MOST_LIVES

    def old(life: int, **more: Any) -> PeerFile:
        return make_peer("alice", beat=1, incarnation=f"life {life}", registered_at=WALL + life, last_seen=WALL, **more)

    for life in range(lives):
        liveness.observe(old(life), float(life), WALL)
    assert live(liveness, float(lives)) == {"alice"}
    for life in range(lives - 1):
        liveness.observe(old(life, status=STOPPED), float(lives), WALL)
    assert live(liveness, float(lives)) == {"alice"}
    for turn in range(3):
        for life in range(lives - 1):
            liveness.observe(old(life), 1000.0 + 9.0 * turn * lives + life, WALL)
    assert live(liveness, 1000.0 + 27.0 * lives) == set()


def test_a_beat_that_a_stranger_wrote_in_its_name_does_not_silence_a_peer() -> None:
    """The highest that there is, put there once, and written over before its owner had seen it."""
    liveness = Liveness(10.0)
    for now, beat in enumerate((1, 2, 2**53 - 1, 3, 4, 5)):
        see(liveness, float(now), "alice", beat=beat)
    assert live(liveness, 13.0) == set(), "three beats may be files that somebody puts back"
    see(liveness, 13.0, "alice", beat=6)
    assert live(liveness, 14.0) == {"alice"}


def test_lives_that_a_stranger_made_up_in_its_name_do_not_silence_a_peer() -> None:
    liveness = Liveness(10.0)
    see(liveness, 0.0, "alice", beat=1, registered_at=WALL)
    for life in range(2 * MOST_LIVES):
        made_up = make_peer("alice", beat=1, incarnation=f"{life}", registered_at=1e300, last_seen=WALL)
        liveness.observe(made_up, 0.0, WALL)
    for now in range(11, 20):
        see(liveness, float(now), "alice", beat=now, registered_at=WALL)
    assert live(liveness, 20.0) == {"alice"}


def test_names_and_incarnations_that_a_stranger_makes_up_take_little_memory() -> None:
    liveness = Liveness(10.0)
    liveness.observe(make_peer("zoe", beat=1, last_seen=WALL), 0.0, WALL)
    tracemalloc.start()
    for number in range(2000):
        if number % 1000 == 0:
            liveness.observe(make_peer("zoe", beat=2 + number, last_seen=WALL), 1.0, WALL)
        for life in range(3):
            peer = make_peer(f"made-up-{number}", beat=1, incarnation=f"{life}" * 7000, last_seen=WALL)
            liveness.observe(peer, 1.0, WALL)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10 * 2**20
    assert "zoe" in liveness.moving(2.0), "who moves is not forgotten for those who do not"


def test_a_registration_that_is_written_again_is_a_sign_of_life_of_whoever_was_seen_to_beat() -> None:
    """Where each request is paid for, registrations of those who work are not read at every beat."""
    liveness = Liveness(10.0)
    for beat in (1, 2):
        see(liveness, float(beat), "alice", beat=beat)
    liveness.observe(make_peer("bob", beat=1, last_seen=WALL), 2.0, WALL)
    liveness.stir(["alice", "bob", "nobody"], 9.0)
    assert live(liveness, 15.0) == {"alice"}, "of bob nothing was seen but what may be a recorded file"
    see(liveness, 15.0, "alice", beat=1)
    liveness.stir(["alice"], 16.0)
    assert live(liveness, 20.0) == set(), "an old file lay there when it was read"


NODES = st.sampled_from(["alice", "bob"])
SEEN = st.tuples(NODES, st.integers(0, 4), st.sampled_from([ACTIVE, ACTIVE, STARTING, STOPPED]))
LOOK = st.tuples(st.sampled_from([0.0, 1.0, 6.0, 11.0]), st.one_of(SEEN, NODES, st.none()))
"""Seconds that pass; then a beat that is read, a changed tag, or nothing new."""


@given(st.lists(LOOK, max_size=20), st.floats(0.0, 5.0))
def test_who_is_asked_at_every_look_gives_the_same_answers_as_who_is_asked_once(
    looks: list[tuple[float, tuple[str, int, str] | str | None]], ago: float
) -> None:
    often, now = Liveness(10.0), 0.0
    for count, (passed, found) in enumerate(looks):
        now += passed
        note(often, now, found)
        once, then = Liveness(10.0), 0.0
        for earlier, before in looks[: count + 1]:
            then += earlier
            note(once, then, before)
        assert live(often, now) == live(once, now)
        assert live(often, now - ago) == live(once, now - ago), "by what was seen until then"


def note(liveness: Liveness, now: float, found: tuple[str, int, str] | str | None) -> None:
    if isinstance(found, str):
        liveness.stir([found], now)
    elif found:
        node, beat, status = found
        see(liveness, now, node, beat=beat, status=status)
