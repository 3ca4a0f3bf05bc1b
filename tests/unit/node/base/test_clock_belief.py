"""What a worker believes of the state file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.node.base.clock_belief import ClockBelief, Sighting
from swarm.records.liveness import ACTIVE, STOPPED
from tests.unit.node.factories import make_peer, make_state

SETTLE = 3.0


def sighting(
    round_: int,
    now: float = 0.0,
    *,
    vouches: int | None = None,
    beat: int | None = None,
    coordinator: str = "alive",
    **more: Any,
) -> Sighting:
    """A look at round `round_`; the coordinator says of itself that it is at `vouches`, and beats once per second."""
    writer = make_peer(
        "coordinator",
        node_role="coordinator",
        round=round_ if vouches is None else vouches,
        beat=int(now) if beat is None else beat,
        status=STOPPED if coordinator == "left" else ACTIVE,
    )
    alive = coordinator == "alive"
    last = 40 if more.get("finished") else max(40, round_ + 1)
    state = make_state(round=round_, **{"max_rounds": last, **more})
    return Sighting(state, writer, now, alive, not alive)


def belief_at(round_: int = 5) -> ClockBelief:
    belief = ClockBelief(SETTLE)
    assert belief.believes(sighting(round_), round_, traces=True)
    return belief


def after_a_while(belief: ClockBelief, *looks: Sighting, done: int = 5, traces: bool = False) -> bool:
    """Whether the last of these looks is believed."""
    return [belief.believes(look, done, traces=traces) for look in looks][-1]


def every_second(round_: int, seconds: int = 4, **more: Any) -> list[Sighting]:
    return [sighting(round_, float(second), **more) for second in range(seconds)]


@pytest.mark.parametrize("round_", [5, 6])
def test_the_own_next_round_is_believed_at_once(round_: int) -> None:
    assert belief_at().believes(sighting(round_, vouches=-1), done=round_, traces=False)


@pytest.mark.parametrize(("vouches", "traces", "believed"), [(9, True, True), (5, True, False), (9, False, False)])
def test_a_jump_is_believed_at_once_of_a_coordinator_that_says_so_itself_where_rewards_bear_it_out(
    vouches: int, traces: bool, believed: bool
) -> None:
    assert belief_at().believes(sighting(9, vouches=vouches), done=5, traces=traces) is believed


NOTHING: dict[str, Any] = {}
DEAD: dict[str, Any] = {"coordinator": "dead"}


@pytest.mark.parametrize(
    ("round_", "seconds", "traces", "more", "believed"),
    [
        (900, 4, False, NOTHING, True),
        (900, 3, False, NOTHING, False),
        (900, 99, False, {"beat": 7}, False),
        (900, 99, False, {"vouches": 5}, False),
        (900, 99, False, DEAD, False),
        (9, 4, True, DEAD, True),
        (9, 1, True, DEAD, False),
        (9, 99, True, DEAD | {"vouches": 5}, False),
    ],
    ids=[
        *("it stays", "not long enough", "a file that lies there beats not", "it says that it is elsewhere"),
        *("nobody is there", "rewards bear it out", "not for one write", "its writer's last words do not name it"),
    ],
)
def test_a_jump_is_believed_when_it_stays_and_its_coordinator_beats_or_without_one_rewards_bear_it_out(
    round_: int, seconds: int, traces: bool, more: dict[str, Any], believed: bool
) -> None:
    assert after_a_while(belief_at(), *every_second(round_, seconds, **more), traces=traces) is believed


@pytest.mark.parametrize("held", [False, True])
def test_a_jump_that_is_contradicted_meanwhile_is_not_believed_by_a_clock_that_is_held_neither(held: bool) -> None:
    """An end written before the coordinator came, and seen once more in a stale read, once ended a worker."""
    belief = belief_at()
    for second in range(60):
        assert not belief.believes(sighting(900, second + 0.1), 5, traces=False)
        assert belief.believes(sighting(5, second + 0.9, held=held), 5, traces=False) is not held


@pytest.mark.parametrize(("coordinator", "vouches"), [("dead", 7), ("dead", 5), ("left", 8)])
def test_without_a_coordinator_an_end_needs_a_writer_that_said_goodbye_there(coordinator: str, vouches: int) -> None:
    """While the coordinator was paused, one write that said `finished` once ended every worker."""
    end = {"finished": True, "max_rounds": 7}
    belief, looks = belief_at(), every_second(7, seconds=99, coordinator=coordinator, vouches=vouches, **end)
    assert not any(belief.believes(look, 7, traces=True) for look in looks)
    assert after_a_while(belief_at(), *every_second(7, coordinator="left", **end), traces=True, done=7)


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_end_is_believed_at_once_by_who_has_done_all_rounds_that_were_announced() -> None:
    assert belief_at().believes(sighting(40, finished=True, vouches=-1), done=40, traces=False)


@pytest.mark.parametrize("round_", [5, 6, 40])
def test_another_end_is_not_believed_for_one_write(round_: int) -> None:
    assert not belief_at().believes(sighting(round_, finished=True, max_rounds=round_), done=5, traces=True)


@pytest.mark.parametrize(
    ("finished", "round_", "max_rounds"), [(False, 5, 5), (True, 0, 12), (True, 0, 0), (True, 5, 6)]
)
@pytest.mark.parametrize("coordinator", ["alive", "left"])
def test_neither_an_end_before_its_own_last_round_nor_a_round_beyond_it_is_ever_believed(
    coordinator: str, finished: bool, round_: int, max_rounds: int
) -> None:
    """A worker that had done nothing once ended for a forged end of round 0 beside a forged goodbye."""
    looks = every_second(round_, 99, finished=finished, max_rounds=max_rounds, coordinator=coordinator)
    assert not after_a_while(ClockBelief(SETTLE), *looks, done=round_, traces=True)


def test_an_end_is_not_announced_nearer_by_one_write_and_then_reached_by_another() -> None:
    belief = belief_at()
    assert belief.believes(sighting(5, max_rounds=6), done=5, traces=True)
    assert not belief.believes(sighting(6, finished=True, max_rounds=6), done=6, traces=True)
    assert belief.announced == 40


@pytest.mark.parametrize(
    ("coordinator", "traces", "done", "believed"),
    [("left", True, 5, True), ("left", False, 40, True), ("left", False, 5, False), ("alive", True, 5, True)],
)
def test_an_end_that_stays_is_believed(coordinator: str, traces: bool, done: int, believed: bool) -> None:
    looks = every_second(40, finished=True, coordinator=coordinator)
    assert after_a_while(ClockBelief(SETTLE), *looks, traces=traces, done=done) == believed


# ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("terms", [{"max_rounds": 10**6}, {"max_rounds": 6}, {"round_interval": 1e12}])
def test_how_long_and_how_often_is_not_said_by_one_write_beside_the_right_round(terms: dict[str, Any]) -> None:
    """A huge number of rounds once kept nodes without a coordinator going for ever; a huge interval, waiting."""
    belief = belief_at()
    before = belief.announced, belief.interval
    for second in range(60):
        assert belief.believes(sighting(5, second + 0.1, **terms), 5, traces=True)
        assert belief.believes(sighting(5, second + 0.9), 5, traces=True)
        assert (belief.announced, belief.interval) == before
    after_a_while(belief, *every_second(5, seconds=99, coordinator="dead", **terms))
    assert (belief.announced, belief.interval) == before
    after_a_while(belief, *every_second(5, **terms))
    assert (belief.announced, belief.interval) == tuple(
        {"max_rounds": before[0], "round_interval": before[1], **terms}.values()
    )


# ── back ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_who_was_misled_comes_back_when_the_coordinator_keeps_saying_otherwise() -> None:
    belief = ClockBelief(SETTLE)
    assert after_a_while(belief, *every_second(900))
    back = [belief.believes(sighting(6, 10.0 + second), 5, traces=True) for second in range(5)]
    assert back == [False, False, False, True, True]
    assert belief.believes(sighting(7, 15.0), 7, traces=True)


def test_a_stale_read_of_its_writers_registration_does_not_put_off_an_end() -> None:
    """Every other read of a registration gave an older one, and a worker stood still for two minutes."""
    end = {"finished": True, "max_rounds": 10}
    last = every_second(10, coordinator="left", beat=34, **end)
    last[1:3] = [sighting(10, float(second), coordinator="dead", vouches=8, beat=30, **end) for second in (1, 2)]
    assert after_a_while(ClockBelief(SETTLE), *last, done=0, traces=True)
    alive = [replace(look, alive=True, nobody=False) for look in last]
    assert not after_a_while(ClockBelief(SETTLE), *alive, done=0, traces=True), "one that lives has other words"


def test_a_stale_copy_of_the_file_takes_nobody_back() -> None:
    assert not after_a_while(belief_at(9), *every_second(6, seconds=99, vouches=9), done=9, traces=True)
    assert not after_a_while(belief_at(9), *every_second(6, seconds=99, coordinator="dead"), done=9, traces=True)


def test_an_end_with_fewer_rounds_is_believed_after_half_the_time_of_who_has_done_them() -> None:
    """As where a coordinator was started again with fewer: in a bucket the whole time is three minutes."""
    for done, seconds, believed in ((8, 2, False), (8, 3, True), (7, 3, False), (7, 4, True)):
        looks = every_second(8, seconds, finished=True, max_rounds=8)
        assert after_a_while(belief_at(), *looks, done=done) is believed, (done, seconds)
