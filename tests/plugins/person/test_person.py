"""A person at a real terminal, and a node that waits for the answers in another thread."""

from __future__ import annotations

import os
import pty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO

import anyio
import pytest

from swarm.plugins.person.person import Person
from swarm.plugins.person.terminal import Terminal
from swarm.types import Completion
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


@dataclass
class Standing:
    round: int | None = 3
    left_behind: bool = False


class Desk:
    """Both ends of a terminal, and the person between them."""

    def __init__(self) -> None:
        self._keyboard, self._there = pty.openpty()
        self.screen, self.standing = StringIO(), Standing()
        self.person = Person(Terminal(self._there, self.screen), longest=1000)

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    async def shows(self, text: str) -> None:
        with anyio.fail_after(PATIENCE):
            while text not in self.screen.getvalue():  # noqa: ASYNC110 - a screen tells nobody
                await anyio.sleep(0.005)

    async def asked(self, prompts: list[str], group_size: int = 2) -> list[tuple[Completion, ...]]:
        ask = partial(self.person.generate, prompts, group_size=group_size, seed=0)
        with anyio.fail_after(PATIENCE):
            return await anyio.to_thread.run_sync(ask)

    def close(self) -> None:
        os.close(self._keyboard)
        os.close(self._there)


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.person.attend, desk.standing)
        yield desk
        tasks.cancel_scope.cancel()
    desk.close()


async def test_what_is_typed_comes_back_as_completions_while_the_loop_is_free() -> None:
    async with desk() as at, anyio.create_task_group() as tasks:
        found: list[list[tuple[Completion, ...]]] = []

        async def ask() -> None:
            found.append(await at.asked(["1 + 1?"]))

        tasks.start_soon(ask)
        await at.shows("round 3, question 1 of 1\n1 + 1?\nanswer 1 of 2:")
        at.type("2\n")
        await at.shows("answer 2 of 2:")
        at.type("\x1b[A3\n")  # an arrow key first
        await at.shows("waiting for the next round")
    (group,) = found[0]
    assert [completion.text for completion in group] == ["<answer>2</answer>", "<answer>[A3</answer>"]
    assert all(completion.finished for completion in group)


async def test_a_round_that_is_over_ends_the_waiting_and_drops_half_a_line() -> None:
    async with desk() as at, anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert await at.asked(["1 + 1?"]) == [()]

        tasks.start_soon(ask)
        await at.shows("answer 1 of 2:")
        at.type("half")
        at.standing.left_behind = True
        await at.shows("round 3 is over")


@pytest.mark.parametrize("ending", ["\x04", "quit\n"])
async def test_ctrl_d_and_quit_leave(ending: str) -> None:
    async with desk() as at, anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert await at.asked(["1 + 1?"]) == [()]

        tasks.start_soon(ask)
        await at.shows("answer 1 of 2:")
        at.type(ending)
        with anyio.fail_after(PATIENCE):
            await at.person.gone.wait()
        assert await at.asked(["2 + 2?"]) == [()], "asked nothing more"


async def test_a_judges_single_answer_is_not_asked_for() -> None:
    async with desk() as at:
        assert await at.asked(["1 + 1?"], group_size=1) == [()]
