"""What a judge decides: whom to ask, what to score, what counts as missing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from swarm.judge.judge_machine import FORGOTTEN_AFTER, OVERDUE_AFTER, JudgeLook, JudgeMachine, Slot

ANNA_BEN = frozenset({"anna", "ben"})
A0 = Slot(0, "anna")


def look(round_: int = 0, *, live: frozenset[str] = ANNA_BEN, **more: Any) -> JudgeLook:
    return JudgeLook(**{"round": round_, "finished": False, "live": live, "max_rounds": 10, **more})


def test_every_live_worker_is_asked_for_the_open_round_and_the_next() -> None:
    assert JudgeMachine().look(look(3)).ask == [Slot(round_, node) for round_ in (3, 4) for node in ("anna", "ben")]


def test_nothing_is_asked_beyond_the_last_round() -> None:
    assert {slot.round for slot in JudgeMachine().look(look(9)).ask} == {9}
    machine, over = JudgeMachine(), look(10, finished=True)
    assert machine.look(over) == ([], [], [])
    assert machine.is_over(over)


def test_a_missing_answer_is_counted_once_and_still_counts_when_it_comes() -> None:
    machine, nobody = JudgeMachine([A0]), frozenset[str]()
    overdue = [machine.look(look(OVERDUE_AFTER + round_, live=nobody)).overdue for round_ in (-1, 0, 1)]
    assert overdue == [[], [A0], []]
    assert machine.look(look(OVERDUE_AFTER + 1, live=nobody, answers=frozenset({A0}))).score == [A0]


def test_after_many_rounds_nobody_looks_for_an_answer() -> None:
    machine = JudgeMachine([A0])
    for round_, awaited in ((FORGOTTEN_AFTER, [0]), (FORGOTTEN_AFTER + 1, [])):
        machine.look(look(round_, live=frozenset(), max_rounds=0))
        assert machine.awaited_rounds == awaited


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
