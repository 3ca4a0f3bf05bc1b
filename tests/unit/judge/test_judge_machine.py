"""What a judge decides: whom to ask, what to score, what to record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.judge import judge_machine as m
from swarm.judge.judge_machine import FORGOTTEN_AFTER, OVERDUE_AFTER, JudgeMachine, Slot

ANNA_BEN = frozenset({"anna", "ben"})
A0 = Slot(0, "anna")


def look(round_: int = 0, *, live: frozenset[str] = ANNA_BEN, **more: Any) -> m.JudgeLook:
    return m.JudgeLook(**{"round": round_, "finished": False, "live": live, "max_rounds": 10, **more})


def make_asked(*slots: Slot) -> JudgeMachine:
    """A machine whose questions lie in the folder."""
    return JudgeMachine(asked=slots)


def test_every_live_worker_is_asked_for_the_open_round_and_the_next() -> None:
    asks = JudgeMachine().handle(look(3))
    assert asks == [m.Ask(Slot(round_, node)) for round_ in (3, 4) for node in ("anna", "ben")]


def test_nothing_is_asked_beyond_the_last_round() -> None:
    assert {ask.slot.round for ask in JudgeMachine().handle(look(9))} == {9}
    assert JudgeMachine().handle(look(10, finished=True)) == [m.FinishRound()]


def test_a_missing_answer_is_counted_once_and_still_counts_when_it_comes() -> None:
    machine, nobody = make_asked(A0), frozenset[str]()
    assert machine.handle(look(OVERDUE_AFTER - 1, live=nobody)) == []
    assert machine.handle(look(OVERDUE_AFTER, live=nobody)) == [m.Overdue(A0)]
    assert machine.handle(look(OVERDUE_AFTER + 1, live=nobody)) == []
    assert machine.handle(look(OVERDUE_AFTER + 1, live=nobody, answers=frozenset({A0}))) == [m.ScoreAnswer(A0)]


def test_after_many_rounds_nobody_looks_for_an_answer() -> None:
    machine = make_asked(A0)
    machine.handle(look(FORGOTTEN_AFTER, live=frozenset(), max_rounds=0))
    assert machine.awaited_rounds == [0]
    machine.handle(look(FORGOTTEN_AFTER + 1, live=frozenset(), max_rounds=0))
    assert machine.awaited_rounds == []


def test_a_clock_that_went_back_asks_nothing_again() -> None:
    machine = JudgeMachine()
    asked = machine.handle(look(5, max_rounds=0))
    machine.handle(look(10**9, max_rounds=0, live=frozenset()))
    assert asked
    assert {*machine.handle(look(5, max_rounds=0))} <= {*asked}


@pytest.mark.parametrize("phase", ["asking", "scoring"])
def test_what_the_folder_did_not_allow_comes_again(phase: str) -> None:
    machine = JudgeMachine() if phase == "asking" else make_asked(A0, Slot(1, "anna"))
    seen = look(0, live=frozenset({"anna"}), answers=frozenset({A0}))
    (first, *_) = machine.handle(seen)
    assert machine.handle(seen) == []
    machine.handle(m.Failed(A0))
    assert machine.handle(seen) == [first]


def test_it_ends_when_no_live_worker_owes_an_answer() -> None:
    machine = make_asked(A0, Slot(0, "ben"))
    over = {"finished": True, "max_rounds": 1}
    assert machine.handle(look(1, **over)) == []
    assert machine.handle(look(1, **over, answers=frozenset({A0}), live=frozenset({"ben"}))) == [m.ScoreAnswer(A0)]
    assert machine.handle(look(1, **over, live=frozenset())) == [], "an answer is still being scored"
    assert machine.handle(m.Recorded(A0)) == (m.FinishRound(),)
    assert machine.handle(look(1, **over)) == (), "it is over"


class Folder:
    """What is on disk, whatever becomes of the judge; asserts that nothing gets there twice."""

    def __init__(self) -> None:
        self.questions: set[Slot] = set()
        self.answers: set[Slot] = set()
        self.rows: set[Slot] = set()
        self.machine = JudgeMachine()
        self.pending: list[m.Instruction] = []

    def restart(self) -> None:
        """Killed: what was not done is lost."""
        self.machine, self.pending = JudgeMachine(self.questions, self.rows), []

    def tell(self, event: m.Event) -> None:
        new = list(self.machine.handle(event))
        slots = [i.slot for i in self.pending if isinstance(i, m.Ask | m.ScoreAnswer)]
        for instruction in new:
            if isinstance(instruction, m.Ask | m.ScoreAnswer):
                assert instruction.slot not in slots, "one thing at a time for each question"
        self.pending += [i for i in new if isinstance(i, m.Ask | m.ScoreAnswer)]

    def carry_out(self, index: int, *, works: bool) -> None:
        if not self.pending:
            return
        instruction = self.pending.pop(index % len(self.pending))
        if not works:
            self.tell(m.Failed(instruction.slot))
            return
        match instruction:
            case m.Ask(slot):
                assert slot not in self.questions, "no question is asked twice"
                self.questions.add(slot)
                self.tell(m.QuestionWritten(slot))
            case m.ScoreAnswer(slot):
                assert slot in self.answers
                assert slot not in self.rows, "no row is written twice"
                self.rows.add(slot)
                self.tell(m.Recorded(slot))


steps = st.one_of(
    st.tuples(st.just("look"), st.integers(0, 2), st.sets(st.sampled_from(["anna", "ben"]))),
    st.tuples(st.just("answer"), st.integers(0, 50), st.none()),
    st.tuples(st.just("do"), st.integers(0, 50), st.booleans()),
    st.tuples(st.just("restart"), st.none(), st.none()),
)


@given(st.lists(steps, max_size=80))
def test_whatever_happens_no_question_and_no_row_comes_twice_and_every_answer_ends_as_a_row(script: list[Any]) -> None:
    folder, round_ = Folder(), 0
    for step, number, detail in script:
        if step == "look":
            round_ += number
            folder.tell(look(round_, live=frozenset(detail), answers=frozenset(folder.answers), max_rounds=0))
        elif step == "answer" and folder.questions:
            folder.answers.add(sorted(folder.questions)[number % len(folder.questions)])
        elif step == "do":
            folder.carry_out(number, works=detail)
        elif step == "restart":
            folder.restart()
    settle(folder, round_)
    in_time = {slot for slot in folder.answers if slot.round >= round_ - FORGOTTEN_AFTER}
    assert in_time <= folder.rows <= folder.answers
    assert folder.machine.finished


def settle(folder: Folder, round_: int) -> None:
    """The experiment ends, everybody leaves, and everything works."""
    while folder.pending:
        folder.carry_out(0, works=True)
    folder.tell(m.JudgeLook(round_, True, frozenset(), frozenset(folder.answers)))
    while folder.pending:
        folder.carry_out(0, works=True)
