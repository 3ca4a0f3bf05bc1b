"""When a model is pushed, and how often that is tried."""

from __future__ import annotations

from swarm.plugins.hub.push_machine import FIRST_PAUSE, Push, PushEnd, PushMachine, PushWait

LOOK = 2.0


def machine(every: int = 10, patience: float = 100.0) -> PushMachine:
    return PushMachine(every, look_every=LOOK, patience=patience)


def test_a_checkpoint_is_pushed_once_and_the_next_one_so_many_rounds_later() -> None:
    pusher = machine()
    assert pusher.look(0, False, 0) == PushWait(LOOK)
    assert pusher.look(5, False, 1) == PushWait(LOOK)
    assert pusher.look(13, False, 2) == Push(13)
    pusher.pushed(13)
    assert pusher.look(13, False, 3) == PushWait(LOOK)
    assert pusher.look(22, False, 4) == PushWait(LOOK)
    assert pusher.look(23, False, 5) == Push(23)


def test_at_the_end_the_last_one_is_pushed_whatever_came_before_it() -> None:
    pusher = machine(every=0)
    assert pusher.look(1000, False, 0) == PushWait(LOOK)
    assert pusher.look(1001, True, 1) == Push(1001)
    pusher.pushed(1001)
    assert pusher.look(1001, True, 2) == PushEnd(0)


def test_failures_are_tried_again_after_pauses_that_double_up_to_a_bound_and_success_forgets_them() -> None:
    pusher, now, pauses = machine(), 0.0, []
    for _ in range(8):
        assert pusher.look(10, False, now) == Push(10)
        pauses.append(pusher.failed(now))
        assert pusher.look(10, False, now) == PushWait(pauses[-1])
        now += pauses[-1]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]
    pusher.pushed(10)
    assert pusher.look(20, False, now) == Push(20)
    assert pusher.failed(now) == FIRST_PAUSE


def test_a_newer_checkpoint_takes_the_place_of_the_one_that_failed() -> None:
    pusher = machine()
    pusher.failed(0)
    assert pusher.look(20, False, FIRST_PAUSE) == Push(20)


def test_the_end_is_tried_at_once_and_until_patience_is_over() -> None:
    pusher = machine(patience=25)
    pusher.failed(0)
    assert pusher.look(10, True, 1) == Push(10)
    assert pusher.failed(1) == 20
    assert pusher.look(10, True, 21) == Push(10)
    assert pusher.failed(21) == 5
    assert pusher.look(10, True, 26) == PushEnd(10)


def test_at_the_end_nobody_waits_for_what_will_not_mend_itself() -> None:
    pusher = machine()
    assert pusher.look(10, True, 0) == Push(10)
    assert pusher.failed(0, lasting=True) == 0
    assert pusher.look(10, True, 0) == PushEnd(10)
