"""Checks whether the first questions of a task can be played where a scoring child is, and twice alike.

    child ─▶ each question: opening, then conversations of odd turns ─▶ Played | what it failed with | what it tried
    twice, with different clocks and random states                    ─▶ the same? ─▶ how the task converses

What an environment cannot do in a child is known before a run asks anything: open files, talk to models or services,
import, start threads and programs. So is what a clock or chance decides.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Sequence

import msgspec

from swarm.errors import ConfigError
from swarm.plugins.verifiers.environment import OpenedEnvironment, refused, said
from swarm.plugins.verifiers.playing import Earned, Player, Waits, write_down_signatures
from swarm.tasks import sandbox
from swarm.tasks.bounded import FIRST_CPU_S, Emit, Limits, at_most, run_bounded
from swarm.types import LONGEST_REPLY, MOST_TURNS

QUESTIONS = 6
LONGEST_PROMPT = 20_000
"""Characters."""
LIMITS = Limits(cpu_s=10)
"""Limits of a child that plays all of them, the first time: what is compiled then is paid once."""
ODD = ("", "0", "<answer>7</answer>", "\\boxed{yes}", "[crane]", "\u00e9\u4e16 " * 20)
"""Turns that a model may say anywhere."""


class Played(msgspec.Struct, frozen=True):
    """Holds what a child found when it played one question."""

    prompt: str = ""
    heard: tuple[str, ...] = ()
    """Replies and rewards of its conversations, in order."""
    converses: bool = False
    problem: str = ""
    """What was raised."""
    tried: str = ""
    """What the child was ended for."""


def check(opened: OpenedEnvironment, player: Player, tasks: Sequence[object]) -> bool:
    """Play some tasks twice; whether they converse. Raises ConfigError."""
    write_down_signatures(tasks[0])
    turns = opened.most_turns or MOST_TURNS
    with contextlib.suppress(Exception), at_most(FIRST_CPU_S):  # what a child raises is told
        _played(player, tasks[0], "0", turns)  # what is imported late is imported here
    first, again = (_children(opened, player, tasks) for _ in range(2))
    for number, (one, other) in enumerate(zip(first, again, strict=False)):
        if problem := _problem(one) or _difference(one, other):
            raise _refused(opened, number, problem)
    if min(len(first), len(again)) < len(tasks):
        raise _refused(opened, len(first), f"took more than {LIMITS.cpu_s} s or {LIMITS.memory_bytes >> 20} MiB")
    return any(one.converses for one in first)


def _refused(opened: OpenedEnvironment, number: int, problem: str) -> ConfigError:
    return refused(opened.definition, f"cannot be asked: at question {number} of {QUESTIONS} it {problem}")


def _problem(found: Played) -> str:
    if found.tried:
        return (
            f"tried {found.tried}, which is closed to a scoring process: it may open no file or connection (a judge's, "
            "a sandbox's, a dataset's), import and start nothing; what it needs belongs into the taskset's load"
        )
    if found.problem:
        return f"failed: {found.problem}"
    if not 0 < len(found.prompt.strip()) <= len(found.prompt) <= LONGEST_PROMPT:
        return f"asked with {len(found.prompt):,} characters; expected 1 to {LONGEST_PROMPT:,}"
    return ""


def _difference(one: Played, other: Played) -> str:
    if other.tried or other.problem or one.prompt != other.prompt:
        return f"asked {one.prompt!r:.100} once, and {_problem(other) or repr(other.prompt[:100])} another time"
    for here, there in zip(one.heard, other.heard, strict=False):
        if here != there:
            return f"gave {here!r:.100} once and {there!r:.100} another time for the same turns: not deterministic"
    return ""


def _children(opened: OpenedEnvironment, player: Player, tasks: Sequence[object]) -> list[Played]:
    frames = run_bounded(functools.partial(_job, opened, player, tasks), LIMITS)
    return [msgspec.msgpack.decode(frame, type=Played) for frame in frames]


def _job(opened: OpenedEnvironment, player: Player, tasks: Iterable[object], emit: Emit) -> None:
    def tell(event: str, arguments: tuple[object, ...]) -> None:
        if inside and event not in sandbox.ALLOWED_EVENTS:
            emit(encode(Played(tried=f"{event} {', '.join(one for one in arguments if isinstance(one, str)):.80}")))

    inside: list[bool] = []
    encode = msgspec.msgpack.Encoder().encode
    sys.addaudithook(tell)  # it comes before the one that ends the child
    sandbox.enter()
    inside.append(True)
    turns = opened.most_turns or MOST_TURNS
    for number, task in enumerate(tasks):
        emit(encode(_played(player, task, str(number), turns)))


def _played(player: Player, task: object, seed: str, turns: int) -> Played:
    prompt = ""
    heard: list[str] = []
    try:
        opening = player.play(task, (), seed)
        if not isinstance(opening, Waits):
            return Played(problem="its episode was over before the model's first turn")
        prompt = opening.words
        for first in range(len(ODD)):
            heard += _conversation(player, task, seed, first, turns)
    except Exception as error:  # noqa: BLE001 - the boundary: somebody's environment may raise anything
        return Played(prompt, problem=said(error))
    return Played(prompt, tuple(heard), player.converses)


def _conversation(player: Player, task: object, seed: str, first: int, most: int) -> Iterable[str]:
    """Yields what is said to odd turns, up to the most that there are, and at last what they earn."""
    turns: list[str] = []
    while True:
        turns.append(ODD[(first + len(turns)) % len(ODD)])
        found = player.play(task, turns, seed, ends=len(turns) == most)
        if isinstance(found, Earned):
            yield f"reward {found.reward!r}"
            return
        if len(found.words) > LONGEST_REPLY:
            raise ValueError(f"it replies with {len(found.words):,} characters, more than {LONGEST_REPLY:,}")
        yield found.words
