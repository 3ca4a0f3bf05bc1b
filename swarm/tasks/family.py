"""The contract of a task family: where questions come from, and what an answer is worth.

    SWARM_TASK_FAMILIES ──registry──▶ TaskFamily      names, version, packages: in every node
                                          │ behaviour()
                                          ▼
       Origin ─────────make─────────▶ Question        in scoring servers alone
       Question, answer ──score─────▶ reward          in their bounded, sandboxed children

A family is an object with the attributes of TaskFamily, in a module that its users can import:

    class Sums:
        name = "sums"                               # in files, and before the slash in SWARM_TASKS=sums/short
        packages = ()                               # distributions whose versions are recorded
        version = "1"                               # of all that decides a question or a reward
        def profiles(self): return {"tiny": ("short", "long"), "paper": ("long",)}
        def behaviour(self): from my_package import sums_behaviour; return sums_behaviour
    SUMS = Sums()

and is chosen by SWARM_TASK_FAMILIES=reasoning-gym,my_package.sums:SUMS on every node of the run. What it has to keep:

- **A question is a function of its origin**, on every machine: no clock, no file that may differ, no random state but
  one seeded by the origin. Servers run with PYTHONHASHSEED=0. The same holds for the reward of an answer.
- **`version` changes with every such function.** Peers with another version are refused, not misread. For a family
  that reads files it is their digest.
- **`name`, `version` and `profiles()` are light**: nodes, coordinators and judges ask for them.
- **`prepare()` imports all that `make` and `score` need.** It runs once in each scoring server, before the first
  request. Children are forked from there, and may open, import, execute and connect to nothing.
- **A task may converse**: its environment answers each turn of the model. See swarm.tasks.conversation.
- **`score` may fail.** It reads what strangers wrote: what it raises, or gives outside of [0, 1], is a reward of 0.0,
  and what hangs or grows is killed. It sees at most swarm.tasks.answer.ANSWER_LIMIT characters.

A peer's file names a family by `name` only. Of those that the reader was not started with, nothing is imported
(`unknown_family`).

Ours can be asked for tasks with parameters of the run's own, DefinableFamily; see swarm.tasks.definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import msgspec

from swarm.tasks.definitions import Parameters, profile_of
from swarm.types import FIRST_FAMILY, Origin, Question, full_task

if TYPE_CHECKING:
    from swarm.tasks.bounded import Emit

SEED_LIMIT = 2**31
"""Seeds are 0 <= seed < SEED_LIMIT."""
INDEX_LIMIT = 2**20
"""Indices are 0 <= index < INDEX_LIMIT."""


class QuestionRequest(msgspec.Struct, frozen=True):
    task: str
    profile: str
    seed: int
    index: int = 0
    family: str = FIRST_FAMILY

    @classmethod
    def named(cls, task: str, profile: str, seed: int) -> Self:
        """Returns the request for a question of a task by its full name."""
        family, _, own = task.rpartition("/")
        return cls(own, profile, seed, family=family or FIRST_FAMILY)

    @classmethod
    def of(cls, origin: Origin) -> Self:
        """Returns the request for this question, whatever its version."""
        return cls(origin.task, origin.profile, origin.seed, origin.index, origin.family)

    def origin(self, version: str) -> Origin:
        """Returns where the question comes from, at a version of its family."""
        return Origin(self.task, self.profile, self.seed, self.index, version, self.family)

    @property
    def full_task(self) -> str:
        return full_task(self.family, self.task)


class Behaviour(Protocol):
    """Describes what a family does. A module with these three functions is one."""

    def prepare(self) -> None:
        """Make a scoring server ready; may change imported modules for good, so it is called in no other process."""

    def make(self, origin: Origin, /) -> Question:
        """Returns the question of an origin whose task, profile, seed, index and version are this family's."""

    def score(self, question: Question, answer: str, /) -> float:
        """Returns the reward of one answer; not bounded in time, range or side effects. Raises whatever it likes."""


class TaskFamily(Protocol):
    @property
    def name(self) -> str:
        """Letters, digits, `_`, `.` and `-`; part of every origin."""

    @property
    def version(self) -> str:
        """Returns the version of all that decides questions and rewards; part of every origin."""

    @property
    def packages(self) -> Sequence[str]:
        """Distributions whose installed versions a node records at its start."""

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Difficulty -> tasks, in the order in which they are drawn from: `tiny` and `paper`."""

    def behaviour(self) -> Behaviour:
        """Import what asks and scores."""


class DefinableFamily(TaskFamily, Protocol):
    """A family that asks tasks which a run defines for itself, and others or none of its own."""

    def complete(self, name: str, parameters: Parameters, folder: Path) -> dict[str, Any]:
        """Completes what a settings file says of one task, as every node of the run needs it; what is complete stays
        the same.

        Light, in the node that begins the run. Paths, relative to `folder`, become absolute, and `sha256` says what is
        in a file; one that is there has to be the file's. Raises ConfigError.
        """

    def define(self, tasks: Mapping[str, Parameters]) -> TaskFamily:
        """This family with these tasks too, each in the profile `swarm.tasks.definitions.profile_of` and in no other.

        Light. What is wrong with parameters that only asking can tell, its behaviour's `prepare` raises as ConfigError.
        """


class DefinedTasks:
    """Has what families have in common that ask tasks which a run defines, each in a profile of its own."""

    def __init__(self, tasks: Mapping[str, Parameters] | None = None) -> None:
        self._tasks = dict(tasks or {})

    def profiles(self) -> Mapping[str, Sequence[str]]:
        return {profile_of(name, parameters): (name,) for name, parameters in self._tasks.items()}

    def define(self, tasks: Mapping[str, Parameters]) -> Self:
        return type(self)({**self._tasks, **tasks})


# ── answers that are executed ───────────────────────────────────────────────────────────────────────────────────────
Receive = Callable[[], bytes]
"""Waits for the next message. Raises EOFError where none comes, or one that is too large."""


class Trial(NamedTuple):
    """Holds both parts of a trial, each run in a process of its own."""

    source: str
    """Python code, which the candidate runs."""
    judge: Callable[[Receive, Emit], float]
    """Returns the reward."""


class ExecutingBehaviour(Behaviour, Protocol):
    """Describes a family that has an attribute `executing`: the tasks whose answers are executed."""

    def trial(self, question: Question, answer: str, /) -> Trial:
        """Returns how an answer to a question of such a task is tried; run in the server: nothing is executed here."""
