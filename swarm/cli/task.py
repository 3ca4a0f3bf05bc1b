"""`swarm task`: write a task of one's own, try one, and list what a run may ask."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.config import Settings
from swarm.config.own_code import TASK_TABLE, of_the_user, plain
from swarm.config.sources import COMMAND_LINE
from swarm.config.task_table import KEY_OF_FILE, Parameters, newest, recorded, with_files
from swarm.errors import ConfigError, ProtocolError
from swarm.spelling import did_you_mean, named
from swarm.systems import require_for
from swarm.tasks.bounded import Limits
from swarm.tasks.definitions import check as check_name
from swarm.tasks.definitions import family_of, full_name, profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import NO_TASKS, Families, complete
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import FIRST_FAMILY, Completion, Question, Turn
from swarm.views.text import shorten, table

SHOWN = 3
"""Questions that are shown."""
PYTHON = ".py"
QUESTIONS, CONVERSED = 20, 5
"""So many are made, and made again; and so many are conversed about, of a task that replies."""
GROUP = 8
"""Answers of a group."""
SLOW_SHARE = 0.5
"""Share of the processor time of a group's child: who takes more is killed on a slower or busier machine."""
NO_REWARD = "raised, or gave no number from 0 to 1"
ODD = (
    "",
    " ",
    "0",
    "-1",
    "1e999",
    "None",
    "[]",
    "{",
    "__import__('os')",
    "\u00e9\u4e16\U0001f600",
    "(" * 500,
    "a" * 2_000,
)
"""Answers that somebody may give to any question."""


@dataclass(frozen=True)
class Task:
    task: str
    """Its full name."""
    profile: str
    families: tuple[str, ...]
    defined: Mapping[str, Parameters]

    def request(self, seed: int) -> QuestionRequest:
        return QuestionRequest.named(self.task, self.profile, seed)


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
            task that replies, these are the turns of one conversation.
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
        repeated = f", {report.different} of them different" if report.different < len(report.questions) else ""
        say(f"{task.task}: nothing is wrong with {len(report.questions)} questions{repeated}")
    return int(bool(report.problems))


async def _by_hand(scorer: Scorer, question: Question, answers: Sequence[str]) -> None:
    """Scores the answers of the command line: of a task that replies they are the turns of one conversation."""
    if scorer.conversing(question.known_origin()):
        return await _converse_by_hand(scorer, question, answers)
    if answers:
        say("scored as answers to the first question:")
    for answer in answers:
        found = await _score(scorer, question, [answer])
        raised = " (the scorer raised, or gave no reward)" if found.errors else ""
        say(f"reward {found.rewards[0]:g} for {_quoted(answer)}{' (ended: see above)' if found.killed else raised}")
    return None


async def _converse_by_hand(scorer: Scorer, question: Question, answers: Sequence[str]) -> None:
    talk = TriedConversation(scorer, question)
    for answer in answers:
        if talk.over:
            break
        reply = await talk.say(answer)
        say(f"turn {len(talk.turns)}: {_quoted(answer)}\n{'(it is over)' if reply is None else reply[:2_000]}")
    if talk.turns:
        say(f"reward {(await talk.score()).rewards[0]:g} for {len(talk.turns)} of {question.turns} turns")


def _quoted(answer: str) -> str:
    return repr(shorten(answer, 100))


def found(name: str, settings: Settings) -> Task:
    """Finds the task that a name, or a path, means. Raises ConfigError."""
    families, own = settings.task_families, settings.task_table or NO_TASKS
    (task,), of_files = with_files([name], own, COMMAND_LINE)
    if task != name:
        task = task.rpartition("/")[2]
        return _defined(task, complete(of_the_user(TASK_TABLE, {task: of_files[task]}), Path.cwd()))
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
            f"profile {settings.profile!r} has {named(known)}; a file ends in {', '.join(KEY_OF_FILE)}; "
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


@dataclass
class TaskReport:
    questions: list[Question] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What a run would suffer from."""
    making: list[float] = field(default_factory=list)
    """Seconds for a question, with a child process of its own."""
    scoring: list[float] = field(default_factory=list)
    """Seconds for a group of GROUP answers that differ, or of conversations, with the same."""

    @property
    def different(self) -> int:
        """Returns how many of the questions are others: a file of few rows is asked again and again."""
        return len({(question.prompt, question.answer, repr(question.metadata)) for question in self.questions})

    def note_failures(self, found: Sequence[GroupScore | TriedConversation], what: str, raised: str) -> None:
        """Notes how often something was ended by its bounds, and how often it `raised`; empty: that is no problem."""
        if killed := sum(one.killed for one in found):
            self.problems.append(
                f"{killed} times {what} was ended: it took all of its time or memory, or tried what no task may (to "
                "open, import, execute, connect): what its process said stands above"
            )
        if raised and (errors := sum(one.errors for one in found)):
            self.problems.append(f"{errors} times {what} {raised}")

    def note_slowness(self, what: str) -> None:
        """Notes that scoring takes so long that a busy machine would end it."""
        share = statistics.median(self.scoring) / Limits().cpu_s if self.scoring else 0.0
        if share > SLOW_SHARE:
            self.problems.append(
                f"slow: a question and {GROUP} {what} take {share:.0%} of the second of processor time that they have; "
                "on a busy machine they are killed"
            )


async def check(task: Task, scorer: Scorer, other: Scorer, seeds: Sequence[int]) -> TaskReport:
    """Try a task with two servers: the same questions? is their own answer right? what do odd answers do?"""
    report = TaskReport()
    await _make(task, scorer, other, seeds, report)
    if report.questions and scorer.conversing(report.questions[0].known_origin()):
        for number, question in enumerate(report.questions[:CONVERSED]):
            if not report.problems:
                await _converse(scorer, other, question, number, report)
        report.note_slowness("conversations")
    elif report.questions:
        if task.task not in Families(task.families, task.defined).executing:
            await _own_answers(scorer, report)
        await _odd_answers(scorer, report)
        report.note_slowness("answers")
    return report


async def _make(task: Task, scorer: Scorer, other: Scorer, seeds: Sequence[int], report: TaskReport) -> None:
    for seed in seeds:
        began = time.perf_counter()
        try:
            (question,) = await scorer.make([task.request(seed)])
            seconds = time.perf_counter() - began
            (again,) = await other.make([task.request(seed)])
        except ProtocolError as error:
            report.problems.append(f"seed {seed}: no question: {error}; what its process said stands above")
            return
        report.making.append(seconds)
        report.questions.append(question)
        if again != question:
            report.problems.append(
                f"seed {seed}: not deterministic: one process made {question.prompt!r:.200}, answer "
                f"{question.answer!r:.80}, another {again.prompt!r:.200}, answer {again.answer!r:.80}; all that is "
                "random has to come from the seed"
            )
            return
    if report.different == 1 < len(seeds):
        report.problems.append(f"all {len(seeds)} seeds give the same question")


async def _own_answers(scorer: Scorer, report: TaskReport) -> None:
    """Scores each question's own answer, and reports those that do not earn 1."""
    asked = [question for question in report.questions if question.answer is not None]
    found = [await _score(scorer, question, [question.answer or ""]) for question in asked]
    wrong = [q for q, score in zip(asked, found, strict=True) if score.rewards[0] < FULL_ANSWER]
    report.note_failures(found, "scoring a question's own answer", NO_REWARD)
    if wrong:
        report.problems.append(
            f"of {len(asked)} questions {len(wrong)} do not give 1 for their own answer: such as "
            f"{wrong[0].prompt!r:.200}, answer {wrong[0].answer!r:.80}"
        )


async def _odd_answers(scorer: Scorer, report: TaskReport) -> None:
    found = await _score(scorer, report.questions[0], ODD)
    report.note_failures([found], "scoring an odd answer", "")
    if found.killed:
        return  # every answer may take that long, and its process say the same
    for number, question in enumerate(report.questions):
        began = time.perf_counter()
        await _score(scorer, question, [f"{number}{letter}" for letter in "abcdefgh"[:GROUP]])
        report.scoring.append(time.perf_counter() - began)


async def _score(scorer: Scorer, question: Question, answers: Sequence[str]) -> GroupScore:
    return await scorer.score(question.known_origin(), None, [f"<answer>{answer}</answer>" for answer in answers])


class TriedConversation:
    """One conversation, whose turns somebody gives as they would stand between the tags."""

    def __init__(self, scorer: Scorer, question: Question) -> None:
        self._scorer = scorer
        self._question = question
        self.turns: list[str] = []
        self.replies: list[str | None] = []
        """To each turn; None ends it."""
        self.killed = self.errors = 0

    @property
    def over(self) -> bool:
        return None in self.replies

    async def say(self, answer: str) -> str | None:
        """A turn of the model; returns what is said to it."""
        origin = self._question.known_origin()
        how = self._scorer.conversing(origin)
        self.turns.append(answer if how and how.reads == "text" else f"<answer>{answer}</answer>")
        found = await self._scorer.reply(origin, [self.turns])
        (reply,) = found.replies
        self.killed, self.errors = self.killed + found.killed, self.errors + found.errors
        self.replies.append(reply)
        return reply

    @property
    def completion(self) -> Completion:
        earlier = zip(self.turns[:-1], self.replies, strict=False)
        return Completion(self.turns[-1], True, earlier=tuple(Turn(text, True, reply or "") for text, reply in earlier))

    async def score(self) -> GroupScore:
        return await self._scorer.score(self._question.known_origin(), None, [self.completion])


async def _converse(scorer: Scorer, other: Scorer, question: Question, number: int, report: TaskReport) -> None:
    """Has GROUP conversations about a question, in answers that somebody may give, turn by turn, together."""
    odd = (*ODD[number:], *ODD[:number])
    scripts = [[question.answer or "", *ODD], *([*odd[k:], *odd[:k]] for k in range(GROUP - 1))]
    talks = [TriedConversation(scorer, question) for _ in scripts]
    for turn in range(question.turns):
        for talk, script in zip(talks, scripts, strict=True):
            if not talk.over:
                await talk.say(script[turn % len(script)])
    report.note_failures(talks, "a reply", "raised, or was neither None nor a text of 1 to 4,000 characters")
    if not report.problems:
        report.problems += await _differences(other, question, talks)
    if not report.problems:
        await _score_conversations(scorer, question, talks, report)


async def _differences(other: Scorer, question: Question, talks: Sequence[TriedConversation]) -> list[str]:
    """The other server is asked all at once, the latest turns first: state between two calls shows."""
    origin = question.known_origin()
    asked = [talk.turns[:turn] for talk in reversed(talks) for turn in range(len(talk.turns), 0, -1)]
    said = [reply for talk in reversed(talks) for reply in reversed(talk.replies)]
    again = (await other.reply(origin, asked)).replies
    for turns, first, second in zip(asked, said, again, strict=True):
        if first != second:
            return [
                f"seed {origin.seed}: the reply to {turns[-1]!r:.80} in turn {len(turns)} is not deterministic, or "
                f"depends on what was asked before: {first!r:.200}, another process {second!r:.200}; it has to follow "
                "from the question and the answers alone"
            ]
    return []


async def _score_conversations(
    scorer: Scorer, question: Question, talks: Sequence[TriedConversation], report: TaskReport
) -> None:
    began, problems = time.perf_counter(), report.problems
    try:
        score = await scorer.score(question.known_origin(), question.prompt, [talk.completion for talk in talks])
    except ProtocolError as error:
        problems.append(f"seed {question.known_origin().seed}: its conversations are refused: {error}")
        return
    report.scoring.append(time.perf_counter() - began)
    report.note_failures([score], "scoring a conversation", NO_REWARD)
    if question.answer is not None and score.rewards[0] < FULL_ANSWER and not problems:
        problems.append(
            f"its own answer in the first turn does not give 1: {question.prompt!r:.200}, {question.answer!r:.80}"
        )
