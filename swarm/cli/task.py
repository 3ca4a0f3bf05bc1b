"""`swarm task`: write a task of one's own, try one, and list what a run may ask."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.cli.task_checks import GROUP, QUESTIONS, Task, TaskReport, check, give
from swarm.cli.task_conversations import ByHand
from swarm.config import Settings
from swarm.config.own_code import TASK_TABLE, of_the_user, plain
from swarm.config.task_table import Parameters, newest, recorded
from swarm.errors import ConfigError
from swarm.spelling import did_you_mean, named
from swarm.systems import require_for
from swarm.tasks.definitions import check as check_name
from swarm.tasks.definitions import family_of, full_name, profile_of
from swarm.tasks.registry import NO_TASKS, Families, complete
from swarm.tasks.scoring import Scorer
from swarm.types import FIRST_FAMILY, Question
from swarm.views.text import shorten, table

SHOWN = 3
"""Questions that are shown."""
PYTHON, DATASETS = ".py", (".jsonl", ".csv", ".parquet")


def new(name: str, /, *, turns: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Write a Python file with a task that works as it is, and print the lines of a settings file that name it.

    Args:
        name: Of the task; the file is NAME.py, here.
        turns: A task that replies to the model and lets it try again, instead of one with a single answer.
    """
    from swarm.tasks.python.template import CONVERSATION, SETTINGS, SOURCE

    check_name(name, {})
    path = Path(f"{name}{PYTHON}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write((CONVERSATION if turns else SOURCE).format(name=name))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; take another name, or another folder") from None
    say(f"{path} is written. Try it:\n\nswarm task try {path}\n\nName it in a settings file beside it:\n")
    say(SETTINGS.format(name=name))


def list_tasks(*, experiment_flags: CommonFlags | None = None) -> None:
    """List the tasks that the settings define, and those of the families in the profile."""
    settings = settings_from(experiment_flags)
    own = settings.task_table or {}
    rows = [(full_name(name, asked), "defined", _parameters(asked)) for name, asked in own.items()]
    for task in Families(settings.task_families).profiles().get(settings.profile, ()):
        rows.append((task, settings.profile, ""))
    if not rows:
        raise ConfigError(f"no task: no family has a profile {settings.profile!r}, and no table [tasks.NAME] is there")
    say(table(("task", "profile", "parameters"), rows, left=(0, 1, 2)))
    if FIRST_FAMILY in settings.task_families:
        say(f"and any dataset of {FIRST_FAMILY}, by name: `python -P -m swarm.tasks.gym` lists them")


def try_task(
    name: str,
    /,
    *,
    answer: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    seed: int = 0,
    experiment_flags: CommonFlags | None = None,
) -> int:
    """Make some questions of a task, score answers to the first, and say what a run would suffer from; exit 1 if any.

    Args:
        name: A task of the settings file or of a family, or a file: task.py, questions.jsonl, .csv or .parquet.
        answer: An answer to the first question, as it would stand between the tags; may be given more than once: of a
            task that replies, these are the turns of one conversation. On a terminal they are asked for.
        seed: Of the first question.
    """
    require_for("`swarm task try`")
    task = found(name, settings_from(experiment_flags))
    return anyio.run(_try, task, answer, range(seed, seed + QUESTIONS))


async def _try(task: Task, answers: Sequence[str], seeds: Sequence[int]) -> int:
    async with Scorer(1, task.families, task.defined) as scorer, Scorer(1, task.families, task.defined) as other:
        report = await check(task, scorer, other, seeds)
        for question in report.questions[:SHOWN]:
            say(_shown(question))
        if report.questions:
            await _by_hand(scorer, report.questions[0], answers)
    say(_times(report))
    for problem in report.problems:
        say(f"problem: {problem}")
    if not report.problems:
        say(f"{task.task}: nothing is wrong with {len(report.questions)} questions")
    return int(bool(report.problems))


async def _by_hand(scorer: Scorer, question: Question, answers: Sequence[str]) -> None:
    """Answers given on the command line, or asked for."""
    if scorer.conversing(question.known_origin()):
        return await _converse_by_hand(scorer, question, answers)
    for answer in answers:
        await _give(scorer, question, answer)
    if answers or not sys.stdin.isatty():
        return None
    say("answers to the first question, one a line; an empty line ends them")
    with suppress(EOFError):
        while answer := await anyio.to_thread.run_sync(input, "answer> "):
            await _give(scorer, question, answer)
    return None


async def _converse_by_hand(scorer: Scorer, question: Question, answers: Sequence[str]) -> None:
    """The first conversation, with the answers as its turns."""
    talk = ByHand(scorer, question)
    given = iter(answers)
    while not talk.over:
        answer = next(given, None) if answers else await _typed()
        if answer is None:
            break
        reply = await talk.say(answer)
        say(f"turn {len(talk.turns)}: {shorten(answer, 100)!r}\n{'(it is over)' if reply is None else reply[:2_000]}")
    if talk.turns:
        say(f"reward {(await talk.score()).rewards[0]:g} for {len(talk.turns)} of {question.turns} turns")


async def _typed() -> str | None:
    """Returns a line from a terminal, None where nothing more comes."""
    if not sys.stdin.isatty():
        return None
    with suppress(EOFError):
        return await anyio.to_thread.run_sync(input, "answer> ") or None
    return None


async def _give(scorer: Scorer, question: Question, answer: str) -> None:
    found = await give(scorer, question, answer)
    why = " (ended: see above)" if found.killed else " (the scorer raised, or gave no reward)" if found.errors else ""
    say(f"reward {found.rewards[0]:g} for {shorten(answer, 100)!r}{why}")


def found(name: str, settings: Settings) -> Task:
    """Finds the task that a name, or a path, means. Raises ConfigError."""
    families, own = settings.task_families, settings.task_table or NO_TASKS
    path = Path(name)
    if path.suffix in (PYTHON, *DATASETS):
        key = "python" if path.suffix == PYTHON else "dataset"
        return _defined(path.stem, complete(of_the_user(TASK_TABLE, {path.stem: {key: name}}), Path.cwd()))
    for task, asked in own.items():
        if name in (task, full_name(task, asked)):
            return _defined(task, {task: dict(asked)})
    known = Families(families).profiles().get(settings.profile, ())
    if name in known:
        return Task(name, settings.profile, families, {})
    try:
        # a dataset of the first family, at its defaults
        return _defined(name, complete({name: newest({})}, Path.cwd()))
    except ConfigError as error:
        raise ConfigError(
            f"no task {name!r:.80}{did_you_mean(name, [*own, *known])}; the settings define {named(own) or 'none'}, "
            f"profile {settings.profile!r} has {named(known)}; a file ends in {', '.join((PYTHON, *DATASETS))}; "
            f"and {error}"
        ) from None


def _defined(name: str, tasks: dict[str, dict[str, object]]) -> Task:
    parameters = tasks[name]
    return Task(full_name(name, parameters), profile_of(name, parameters), (family_of(name, parameters),), tasks)


def _parameters(asked: Parameters) -> str:
    return shorten(msgspec.json.encode(plain(recorded(asked))).decode(), 100)


def _shown(question: Question) -> str:
    answer = "" if question.answer is None else f"\nanswer: {shorten(question.answer, 300)}"
    return f"seed {question.known_origin().seed}\n{question.prompt[:2_000]}{answer}\n"


def _times(report: TaskReport) -> str:
    times = {"a question": report.making, f"a question and {GROUP} answers": report.scoring}
    lines = [
        f"{what}: median {statistics.median(took) * 1e3:.0f} ms, slowest {max(took) * 1e3:.0f} ms"
        for what, took in times.items()
        if took
    ]
    return "\n".join(lines) + "\n(each with a process of its own, and a second of processor time)"
