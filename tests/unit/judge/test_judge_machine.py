"""What a judge decides: whom to ask, what to score, what counts as missing, and what it takes for the clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.judge.judge_machine import FORGOTTEN_AFTER, NEAR, JudgeLook, JudgeMachine, Slot, SteadyClock
from tests.unit.node.factories import make_state

ANNA_BEN = frozenset({"anna", "ben"})
A0 = Slot(0, "anna")


def look(round_: int = 0, *, live: frozenset[str] = ANNA_BEN, **more: Any) -> JudgeLook:
    return JudgeLook(**{"round": round_, "finished": False, "live": live, "max_rounds": 10, **more})


def test_every_live_worker_is_asked_for_the_open_round_and_the_next() -> None:
    assert JudgeMachine().look(look(3)).ask == [Slot(round_, node) for round_ in (3, 4) for node in ("anna", "ben")]


def test_nothing_is_asked_beyond_the_last_round() -> None:
    assert {slot.round for slot in JudgeMachine().look(look(9)).ask} == {9}
    machine, over = JudgeMachine(), look(10, finished=True)
    assert machine.look(over) == ([], [])
    assert machine.is_over(over)


def test_an_answer_counts_when_it_comes_and_after_many_rounds_nobody_looks_for_it() -> None:
    machine = JudgeMachine([A0])
    late = machine.look(look(FORGOTTEN_AFTER, live=frozenset(), max_rounds=0, answers=frozenset({A0})))
    assert (late.score, machine.awaited_rounds) == ([A0], [0])
    machine.look(look(FORGOTTEN_AFTER + 1, live=frozenset(), max_rounds=0))
    assert machine.awaited_rounds == []


def test_it_is_over_when_no_live_worker_owes_an_answer_and_none_is_left() -> None:
    machine = JudgeMachine([A0, Slot(0, "ben")])
    over = {"finished": True, "max_rounds": 1}
    assert not machine.is_over(look(1, **over))
    there = look(1, **over, answers=frozenset({A0}), live=frozenset())
    assert machine.look(there).score == [A0]
    assert not machine.is_over(there), "its row could not be written, and is written later"
    machine.closed(A0)
    assert machine.is_over(there)


steps = st.one_of(
    st.tuples(st.just("look"), st.integers(0, 2), st.sets(st.sampled_from(["anna", "ben"]))),
    st.tuples(st.just("answer"), st.integers(0, 50), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
)


@given(st.lists(steps, max_size=80), st.randoms(use_true_random=False))
def test_whatever_fails_no_question_or_row_comes_twice_and_every_answer_is_a_row(script: list[Any], luck: Any) -> None:
    questions, answers, rows = set[Slot](), set[Slot](), set[Slot]()
    machine, round_ = JudgeMachine(), 0

    def carry_out(seen: JudgeLook, *, works: bool) -> None:
        due = machine.look(seen)
        assert not questions & set(due.ask), "no question is asked twice"
        assert not rows & set(due.score), "no row is written twice"
        for slots, there, done in ((due.ask, questions, machine.asked), (due.score, rows, machine.closed)):
            for slot in slots:
                if works or luck.random() < 0.5:
                    there.add(slot)
                    done(slot)

    for step, number, live in script:
        if step == "look":
            round_ += number
            carry_out(look(round_, live=frozenset(live), answers=frozenset(answers), max_rounds=0), works=False)
        elif step == "answer" and questions:
            answers.add(sorted(questions)[number % len(questions)])
        elif step == "restart":
            machine = JudgeMachine(questions, rows)
    last = JudgeLook(round_, True, frozenset(), frozenset(answers))
    carry_out(last, works=True)
    assert {slot for slot in answers if slot.round >= round_ - FORGOTTEN_AFTER} <= rows <= answers
    assert machine.is_over(last)


SETTLE = 3.0


def at(clock: SteadyClock, now: float, round_: int, *, finished: bool = False) -> tuple[int, bool]:
    rounds = round_ if finished else 10**9 + 1
    return taken(clock, now, round_, rounds, finished)


def taken(clock: SteadyClock, now: float, round_: int, rounds: int, finished: bool) -> tuple[int, bool]:
    state = clock.observe(make_state(round=round_, max_rounds=rounds, finished=finished), now)
    return (state.round, state.finished) if state else (-1, False)


@pytest.mark.parametrize(("round_", "finished"), [(10**9, False), (10, True), (6, True), (0, False)])
def test_what_somebody_wrote_once_is_not_taken_for_the_clock(round_: int, finished: bool) -> None:
    clock = SteadyClock(SETTLE)
    assert at(clock, 0.0, 5) == (5, False)
    assert at(clock, 1.0, round_, finished=finished) == (5, False)
    assert at(clock, 2.0, 6) == (6, False)  # the coordinator wrote over it
    assert at(clock, 9.0, round_, finished=finished) == (6, False)


@pytest.mark.parametrize(("round_", "finished"), [(50, False), (10, True), (0, False)])
def test_what_stays_is_taken(round_: int, finished: bool) -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    at(clock, 1.0, round_, finished=finished)
    assert at(clock, 1.0 + SETTLE, round_, finished=finished) == (round_, finished)


def test_a_clock_that_goes_on_while_it_is_doubted_is_taken_as_far_as_it_is() -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    assert [at(clock, 1.0 + step, 20 + step)[0] for step in range(4)] == [5, 5, 5, 23]
    assert at(clock, 5.0, 23 + NEAR) == (23 + NEAR, False)


def test_an_end_that_is_there_from_the_first_ends_nobody_at_once() -> None:
    clock = SteadyClock(SETTLE)
    assert clock.observe(None, 0.0) is None
    assert at(clock, 0.0, 10, finished=True) == (-1, False)
    assert at(clock, SETTLE, 10, finished=True) == (10, True)


def test_an_end_before_the_last_round_is_no_coordinators_however_long_it_stays() -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    assert {taken(clock, 1.0 + passed, 7, 10, True) for passed in (0.0, SETTLE, 10 * SETTLE)} == {(5, False)}
