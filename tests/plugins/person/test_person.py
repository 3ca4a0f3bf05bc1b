"""A person at a real terminal, on the event loop of the node that waits for the answers."""

from __future__ import annotations

import os
import pty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.plugins.person.person import Person
from swarm.plugins.person.terminal import Terminal
from swarm.types import Dialogue, GenerationCall, Groups, RemoteGenerator, Turn
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio
LONGEST = 100


@dataclass
class Standing:
    round: int | None = 7
    left_behind: bool = False


class Desk:
    """Both ends of a terminal, the person between them, and what a node asks."""

    def __init__(self) -> None:
        self._keyboard, self._there = pty.openpty()
        self.screen, self.standing = StringIO(), Standing()
        self.person = Person(Terminal(self._there, self.screen), LONGEST)

    def type(self, *lines: str) -> None:
        os.write(self._keyboard, "".join(f"{line}\n" for line in lines).encode())

    def press(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    async def shows(self, text: str) -> str:
        with anyio.fail_after(PATIENCE):
            while text not in self.screen.getvalue():  # noqa: ASYNC110 - a screen tells nobody
                await anyio.sleep(0.002)
        return self.screen.getvalue()

    async def answers(self, *prompts: str | Dialogue, group_size: int = 2) -> list[tuple[str, ...]]:
        with anyio.fail_after(PATIENCE):
            return texts(await self.person.write(GenerationCall(prompts, group_size, 0)))

    def close(self) -> None:
        os.close(self._keyboard)
        os.close(self._there)


def texts(groups: Groups) -> list[tuple[str, ...]]:
    assert all(one.finished for group in groups for one in group)
    return [tuple(one.text for one in group) for group in groups]


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.person.attend, desk.standing)
        yield desk
        tasks.cancel_scope.cancel()
    desk.close()


async def typed(*lines: str, questions: Sequence[str] = ("1 + 1?", "2 + 2?")) -> tuple[list[tuple[str, ...]], str]:
    """What became of questions, and what was shown, when this was typed once they were asked."""
    async with desk() as at:
        found: list[list[tuple[str, ...]]] = []

        async def ask() -> None:
            found.append(await at.answers(*questions))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await at.shows("answer 1 of 2:")
            at.type(*lines)
        return found[0], at.screen.getvalue()


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_answers_get_their_tags_and_each_question_its_group() -> None:
    groups, shown = await typed("2", "3", "<answer>4</answer>", " 5 ")
    assert groups == [("<answer>2</answer>", "<answer>3</answer>"), ("<answer>4</answer>", "<answer>5</answer>")]
    assert "round 7, question 1 of 2\n1 + 1?\nanswer 1 of 2:\nanswer 2 of 2:\n" in shown
    assert shown.endswith("round 7: 2 of 2 questions answered; waiting for the next round\n")


async def test_nothing_that_a_terminal_obeys_is_shown_or_taken() -> None:
    groups, shown = await typed("2", "\x1b[A3", questions=["a\x1b[2Jb\nc"])
    assert "\x1b" not in shown
    assert "b\nc\n" in shown
    assert groups == [("<answer>2</answer>", "<answer>[A3</answer>")], "an arrow key first"


async def test_an_answer_of_several_lines_is_taken_whole_with_blank_ones_and_commands_in_it() -> None:
    groups, _ = await typed('"""', "one", "", "skip", '"""', "two", questions=["?"])
    assert groups == [("<answer>one\n\nskip</answer>", "<answer>two</answer>")]


async def test_a_question_that_is_left_out_has_no_answers_and_the_next_one_is_asked() -> None:
    groups, shown = await typed("2", "skip", "4", "5")
    assert groups == [(), ("<answer>4</answer>", "<answer>5</answer>")]
    assert "1 of 2 questions answered" in shown


@pytest.mark.parametrize(
    "lines",
    [
        ["x" * (LONGEST + 1)],
        ["x" * (LONGEST - 5)],
        [f"<answer>{'x' * LONGEST}</answer>"],
        ['"""', *["x" * 10] * 11],  # lines without end are not kept
    ],
)
async def test_an_answer_that_peers_would_refuse_is_asked_for_once_more(lines: list[str]) -> None:
    groups, shown = await typed(*lines, "2", "3", questions=["?"])
    assert groups == [("<answer>2</answer>", "<answer>3</answer>")]
    assert shown.count("too long") == 1
    assert shown.count("answer 1 of 2:") == 2


async def test_answers_that_are_all_the_same_are_said_to_be_worthless() -> None:
    _, shown = await typed("2", "2", questions=["?"])
    assert "nobody can learn" in shown


async def test_a_judges_single_answer_and_a_next_turn_are_not_asked_for() -> None:
    async with desk() as at:
        assert isinstance(at.person, RemoteGenerator), "the compute thread is free meanwhile"
        assert await at.answers("1 + 1?", group_size=1) == [()]
        assert await at.answers(Dialogue("?", (Turn("1", True, "more"),))) == [()]


# ── the end of a round, and of all ──────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["2", "3", "4"], "round 7 is over: what you answered (3) came too late, and is not published"),
        ([], "round 7 is over: it went on without you"),
    ],
)
async def test_a_round_that_is_over_drops_what_was_answered_and_says_so(lines: list[str], said: str) -> None:
    async with desk() as at, anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert await at.answers("1 + 1?", "2 + 2?") == [(), ()]
            at.standing.left_behind = False
            assert await at.answers("3 + 3?") == [("<answer>6</answer>", "<answer>7</answer>")]

        tasks.start_soon(ask)
        await at.shows("answer 1 of 2:")
        at.type(*lines)
        if lines:
            await at.shows("question 2 of 2\n2 + 2?\nanswer 1 of 2:\nanswer 2 of 2:")
        at.press("half")
        at.standing.left_behind = True
        await at.shows(said)
        await at.shows("3 + 3?\nanswer 1 of 2:")
        at.type("6", "7")


@pytest.mark.parametrize("ending", ["\x04", "quit\n"])
async def test_who_leaves_is_asked_nothing_any_more(ending: str) -> None:
    async with desk() as at, anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert await at.answers("1 + 1?") == [()]

        tasks.start_soon(ask)
        await at.shows("answer 1 of 2:")
        at.type("2")
        await at.shows("answer 2 of 2:")
        at.press(ending)
        await at.shows("leaving: what you answered (1) is not published")
        with anyio.fail_after(PATIENCE):
            await at.person.gone.wait()
        assert await at.answers("2 + 2?") == [()]


async def test_what_is_typed_between_rounds_goes_nowhere_but_for_quit() -> None:
    async with desk() as at:
        at.type("6")
        await at.shows("went nowhere")
        assert not at.person.gone.is_set()
        at.type("quit")
        await at.shows("leaving")
        assert at.person.gone.is_set()


async def test_a_node_that_stops_asking_leaves_the_person_at_the_terminal() -> None:
    async with desk() as at:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.answers, "1 + 1?")
            await at.shows("answer 1 of 2:")
            tasks.cancel_scope.cancel()
        at.type("2")
        await at.shows("went nowhere")


LINES = st.lists(st.text("ab \t", max_size=30) | st.sampled_from(["skip", '"""', "", "x" * 90]), max_size=12)


@given(LINES)
@settings(max_examples=25, deadline=None)
def test_whatever_is_typed_groups_are_whole_or_empty_and_bounded(lines: list[str]) -> None:
    # the first `quit` may be a line of an open answer, and the line too many of one, so that a fence opens another
    groups, _ = anyio.run(lambda: typed(*lines, "quit", '"""', "quit", '"""', "quit"))
    assert all(len(group) in (0, 2) for group in groups)
    assert all(len(answer) <= LONGEST and "</answer>" in answer for group in groups for answer in group)
