"""What a person is asked, what counts as an answer, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.plugins.person.session import Event, RoundOpened, RoundOver, Session, TypedLine, TypingOver

LONGEST = 100
ASKED = RoundOpened(7, ("1 + 1?", "2 + 2?"), 2)


def asked(*lines: str, event: RoundOpened = ASKED) -> Session:
    session = Session(LONGEST)
    session.handle(event)
    for line in lines:
        session.handle(TypedLine(line))
    return session


def test_a_question_is_shown_with_its_round_and_number_and_nothing_that_a_terminal_obeys() -> None:
    shown = "\n".join(Session(LONGEST).handle(RoundOpened(7, ("a\x1b[2Jb\nc",), 2)))
    assert "round 7, question 1 of 1" in shown
    assert "\x1b" not in shown
    assert "b\nc" in shown


def test_answers_get_their_tags_and_each_question_its_group() -> None:
    session = asked("2", "3", "<answer>4</answer>", " 5 ")
    assert not session.open
    assert session.groups == [
        ("<answer>2</answer>", "<answer>3</answer>"),
        ("<answer>4</answer>", "<answer>5</answer>"),
    ]


def test_an_answer_of_several_lines_is_taken_whole_with_blank_ones_and_commands_in_it() -> None:
    session = asked('"""', "one", "", "skip", '"""', "two", event=RoundOpened(0, ("?",), 2))
    assert session.groups == [("<answer>one\n\nskip</answer>", "<answer>two</answer>")]


def test_a_question_that_is_left_out_has_no_answers_and_the_next_one_is_asked() -> None:
    session = asked("2", "skip")
    assert session.groups == [()]
    assert session.open


@pytest.mark.parametrize("line", ["x" * (LONGEST + 1), "x" * (LONGEST - 5), f"<answer>{'x' * LONGEST}</answer>"])
def test_an_answer_that_peers_would_refuse_is_asked_for_once_more(line: str) -> None:
    session = asked()
    said = session.handle(TypedLine(line))
    assert "too long" in said[0]
    assert said[-1] == "answer 1 of 2:"


def test_lines_without_end_are_not_kept() -> None:
    session = asked('"""')
    said = [line for _ in range(LONGEST) for line in session.handle(TypedLine("x" * 10))]
    assert "too long" in said[0]


def test_a_round_that_is_over_drops_what_was_answered_and_says_so() -> None:
    session = asked("2", "3", "4")
    assert session.handle(RoundOver()) == (
        "round 7 is over: what you answered (3) came too late, and is not published",
    )
    assert not session.open
    assert session.groups == [(), ()]
    assert session.handle(RoundOver()) == ()


def test_who_did_nothing_is_told_that_the_round_went_on() -> None:
    assert asked().handle(RoundOver()) == ("round 7 is over: it went on without you",)


def test_what_is_typed_between_rounds_goes_nowhere_but_for_quit() -> None:
    session = asked("2", "3", "4", "5")
    assert "went nowhere" in session.handle(TypedLine("6"))[0]
    assert not session.left
    session.handle(TypedLine("quit"))
    assert session.left


@pytest.mark.parametrize("event", [TypingOver(), TypedLine("quit")])
def test_who_leaves_is_asked_nothing_any_more(event: Event) -> None:
    session = asked("2")
    assert "(1) is not published" in session.handle(event)[0]
    assert session.left
    assert session.groups == [(), ()]
    assert session.handle(ASKED) == ()
    assert not session.open
    assert session.groups == [(), ()]


def test_answers_that_are_all_the_same_are_said_to_be_worthless() -> None:
    session = asked("2", event=RoundOpened(0, ("?",), 2))
    assert "nobody can learn" in session.handle(TypedLine("2"))[0]


events = st.one_of(
    st.builds(TypedLine, st.text(max_size=30) | st.sampled_from(["skip", "quit", '"""', ""])),
    st.just(RoundOver()),
    st.just(TypingOver()),
    st.builds(
        RoundOpened, st.none() | st.integers(0, 9), st.lists(st.text(), max_size=3).map(tuple), st.integers(2, 4)
    ),
)


@given(st.lists(events, max_size=60))
def test_whatever_happens_groups_are_whole_or_empty_and_bounded(happened: list[Event]) -> None:
    session, wanted = Session(LONGEST), 0
    for event in happened:
        session.handle(event)
        if isinstance(event, RoundOpened):
            asked_for, wanted = len(event.questions), event.answers
            assert session.open == (bool(asked_for) and not session.left)
        assert all(len(group) in (0, wanted) for group in session.groups)
        assert all(len(answer) <= LONGEST and "</answer>" in answer for group in session.groups for answer in group)
