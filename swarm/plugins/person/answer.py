"""`swarm answer`: a person takes part in a swarm, at a terminal: answers its questions, and trains nothing."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated

import anyio
from cyclopts import Parameter

from swarm.cli.flags import as_settings
from swarm.cli.node import joined_as
from swarm.cli.run_flags import NodeFlags
from swarm.cli.say import warn
from swarm.config import sources_of
from swarm.errors import ConfigError, SwarmError
from swarm.node.base.context import NodeContext
from swarm.node.process.daemon import run_as
from swarm.node.process.generator_only import OnlyGenerates, as_it_runs
from swarm.node.process.system import run_until_signal
from swarm.node.process.wiring import check, worker_maker
from swarm.node.sharing.admission import longest_completion
from swarm.node.worker.worker import Worker
from swarm.plugins.person.news import GroupNews
from swarm.plugins.person.person import Person
from swarm.plugins.person.terminal import Terminal
from swarm.records.liveness import PERSON
from swarm.systems import require_for

NOT_SAID = "not said"
MOST_QUESTIONS, MOST_ANSWERS = 64, 64
"""Most of a round, and of a question."""


def answer(
    place: str | None = None,
    /,
    *,
    experiment: str | None = None,
    config: Annotated[str | None, Parameter(help="TOML file of settings.")] = None,
    name: Annotated[str | None, Parameter(("--name", "--node-id"))] = None,
    questions: int = 1,
    answers: int = 2,
) -> int:
    """Answer a swarm's questions at a terminal; peers verify the answers as anybody's, and train on what helps them.

    Nobody waits for a person, unless SWARM_AWAITED=True: an answer that comes after its round is over does not count.
    SWARM_LICENCE and SWARM_CONSENT say what others may do with the answers. `quit`, Ctrl-D or Ctrl-C leave.

    Args:
        place: The shared folder.
        experiment: Which one, if there are several.
        name: Of this node, which peers see.
        questions: Of each round.
        answers: To each question, at least 2: peers learn from the difference between them.
    """
    require_for("`swarm answer`")
    for flag, least, value, most in (
        ("questions", 1, questions, MOST_QUESTIONS),
        ("answers", 2, answers, MOST_ANSWERS),
    ):
        if not least <= value <= most:
            raise ConfigError(f"--{flag} must be from {least} to {most}, got {value}")
    if not sys.stdin.isatty():
        raise ConfigError(
            "swarm answer needs a terminal to ask at, and its input is none; a program answers as a generator: "
            "`swarm join --role generator` (docs/generators.md)"
        )
    flags = NodeFlags(path=place, experiment=experiment, config=config, node_id=name)  # type: ignore[call-arg]
    own = {"local_groups": questions, "generations": answers, "model": (PERSON,)}
    words = ["swarm", "answer", *([place] if place else [])]
    started = joined_as(PERSON, words, flags, **own)
    settings = as_it_runs(started.settings)
    if "log_level" not in sources_of(as_settings(flags), os.environ, config):
        settings = replace(settings, log_level="warning")
    check(settings)
    terms = settings.terms
    warn(
        f"what you answer is public to all who read the place: licence {terms.licence or NOT_SAID} (SWARM_LICENCE), "
        f"consent {terms.consent or NOT_SAID} (SWARM_CONSENT)"
    )
    return run_as(settings, partial(_live, Terminal(sys.stdin.fileno(), sys.__stderr__ or sys.stderr)), started.asked)


async def _live(terminal: Terminal, ctx: NodeContext) -> int:
    person = Person(terminal, longest_completion(ctx.settings))

    async with worker_maker(ctx.settings, load=lambda _: OnlyGenerates(person)) as make:
        return await run_until_signal(_Attended(make(ctx), person, ctx))


class _Attended:
    """A node and the person who answers for it."""

    def __init__(self, worker: Worker, person: Person, ctx: NodeContext) -> None:
        self._worker, self._person, self._ctx = worker, person, ctx
        self._news: GroupNews | None = None
        self._stopping = False

    async def run(self) -> int:
        """Live until the experiment is over, or the person has left; the exit code."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._person.attend, self._worker)
            tasks.start_soon(self._stop_with_person)
            tasks.start_soon(self._tell_news)
            code = await self._worker.run()
            tasks.cancel_scope.cancel()
        await self._tell()
        return code

    def stop(self, exit_code: int) -> None:
        """Ask no more, and end with this exit code."""
        self._stopping = True
        self._person.leave()
        self._worker.stop(exit_code)

    async def _stop_with_person(self) -> None:
        await self._person.gone.wait()
        if not self._stopping:
            self.stop(0)

    async def _tell_news(self) -> None:
        while True:
            if self._news is None:
                with suppress(SwarmError):  # as below
                    self._news = await anyio.to_thread.run_sync(GroupNews, self._ctx.run, self._ctx.node_id)
            await anyio.sleep(self._ctx.settings.cadence.reconcile_interval)
            await self._tell()

    async def _tell(self) -> None:
        if self._news is None:
            return
        with suppress(SwarmError):  # the node says so itself
            for line in await anyio.to_thread.run_sync(self._news.look):
                self._person.tell(line)
