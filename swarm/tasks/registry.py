"""Task families by name: one of the core's or of our plugins', or `package.module:object` of the user's own; with the
tasks that a run defines.

Families are the ones that a node was started with; what a peer's file names is looked up among them and never imported.
Nor is what a place names: code is OwnCode (swarm.config.own_code), which only this user can say.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec

from swarm import entry_points
from swarm.config.names import TASK_FAMILIES
from swarm.config.own_code import OF_A_TASK, OwnCode, load, own_code
from swarm.errors import ConfigError, ProtocolError
from swarm.tasks.bounded import ALL_FIRST_CPU_S, FIRST_CPU_S, at_most
from swarm.tasks.conversation import Conversing, ConversingBehaviour, Said, checked_reply
from swarm.tasks.definitions import Parameters, check, family_of, malformed
from swarm.tasks.family import (
    INDEX_LIMIT,
    SEED_LIMIT,
    DefinableFamily,
    ExecutingBehaviour,
    QuestionRequest,
    TaskFamily,
    Trial,
)
from swarm.tasks.sandbox import prime
from swarm.types import FIRST_FAMILY, MOST_TURNS, OTHER_VERSION, Origin, Question, full_task

FAMILIES: Mapping[str, str] = {
    FIRST_FAMILY: "swarm.tasks.gym.family:GYM",
    "dataset": "swarm.tasks.dataset.family:DATASETS",
    "python": "swarm.tasks.python.family:PYTHON",
}
"""The core's, by name. Those of TASK_FAMILIES that are not here come from our plugins, by entry points."""
NO_TASKS: Mapping[str, Parameters] = MappingProxyType({})
SETTING = "SWARM_TASK_FAMILIES"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class Families:
    """The families of one process: their questions, and what answers are worth."""

    def __init__(self, chosen: Sequence[str] = (FIRST_FAMILY,), tasks: Mapping[str, Parameters] = NO_TASKS) -> None:
        """Load them.

        Args:
            tasks: what the run defines, by name; the families of these are loaded too.

        Raises:
            ConfigError: one of them cannot be had.
        """
        defined: dict[str, dict[str, Parameters]] = {}
        for name, parameters in tasks.items():
            _refuse_strangers_code(name, parameters)
            defined.setdefault(family_of(name, parameters), {})[name] = parameters
        loaded = [_load(one) for one in dict.fromkeys((*chosen, *defined))]
        self._families = {
            family.name: _definable(family).define(defined[family.name]) if family.name in defined else family
            for family in loaded
        }
        if len(self._families) < len(loaded):
            raise ConfigError(_because(f"two families of one name in {', '.join(chosen)}"))
        self._behaviour = functools.cache(lambda name: self._families[name].behaviour())

    @property
    def versions(self) -> dict[str, str]:
        """Family -> version."""
        return {name: family.version for name, family in self._families.items()}

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions on whose versions questions and rewards depend."""
        return tuple(dict.fromkeys(package for family in self._families.values() for package in family.packages))

    def profiles(self) -> dict[str, tuple[str, ...]]:
        """Profile -> the full names of all tasks, families in the order in which they were chosen."""
        found: dict[str, tuple[str, ...]] = {}
        for name, family in self._families.items():
            for profile, tasks in family.profiles().items():
                found[profile] = (*found.get(profile, ()), *(full_task(name, task) for task in tasks))
        return found

    def origin(self, request: QuestionRequest) -> Origin:
        """Returns where this process's question comes from. Raises ProtocolError (`unknown_family`)."""
        return request.origin(self._family(request.family).version)

    def prepare(self) -> None:
        """Make this process a scoring server: all is imported, and has been run once.

        Raises:
            ConfigError: a task cannot be asked, or all of them need too long.
        """
        try:
            with at_most(ALL_FIRST_CPU_S, ", all tasks of the run together"):
                self._prepare()
        except TimeoutError as error:
            raise ConfigError(_because(f"to be prepared, its tasks need {error}")) from None

    def _prepare(self) -> None:
        prime()
        for name, family in self._families.items():
            self._behaviour(name).prepare()
            for task, how in self._conversing(name).items():
                if not how.possible:
                    most = f"a conversation has 2 to {MOST_TURNS} turns and reads answer or text"
                    raise malformed(task, f"{most}, got {how}")
            for profile, tasks in family.profiles().items():
                for task in tasks:
                    self._try(QuestionRequest(task, profile, 0, family=name))

    def _try(self, request: QuestionRequest) -> None:
        """Raises ConfigError: a task fails at its own first question, or hangs, which a stranger may have meant."""
        try:
            with at_most(FIRST_CPU_S):
                question = self.make(request)
                if request.task in self._conversing(request.family):
                    self.reply(question, [question.answer])
                    self.score_conversation(question, [question.answer])
                elif not self.executes(question):
                    self.score(question, question.answer or "")
        except TimeoutError as error:
            raise malformed(request.task, f"its first question and the score of its own answer need {error}") from None
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: somebody's scorer may raise anything
            said = f"{type(error).__name__}: {error}"
            problem = f"its first question cannot be made, or its own answer not be scored: {said:.500}"
            raise malformed(request.task, problem) from None

    def make(self, request: QuestionRequest) -> Question:
        """Generate a question. Raises ProtocolError as `regenerate`."""
        return self.regenerate(self.origin(request))

    def regenerate(self, origin: Origin) -> Question:
        """Generate the question that an origin names.

        Raises:
            ProtocolError: `unknown_family`, `gym_version` (of any family: the peer's version is not ours),
                `unknown_task`, `bad_origin`.
        """
        family = self._family(origin.family)
        if origin.version != family.version:
            raise ProtocolError(
                OTHER_VERSION,
                f"question of {family.name} {origin.version!r} cannot be regenerated with {family.version!r}; "
                "install the same version on all nodes",
            )
        profiles = family.profiles()
        _check_known("profile", origin.profile, profiles)
        _check_known("task", origin.task, profiles[origin.profile])
        _check_range("seed", origin.seed, SEED_LIMIT)
        _check_range("index", origin.index, INDEX_LIMIT)
        question = self._behaviour(origin.family).make(origin)
        how = self._conversing(origin.family).get(origin.task)
        return msgspec.structs.replace(question, turns=how.turns) if how else question

    def score(self, question: Question, answer: str) -> float:
        """Returns the family's own reward for an answer to a question that `make` or `regenerate` gave, as it is.

        Raises:
            ProtocolError: the question has no origin.
            Exception: whatever the task's own scorer raises on odd input.
        """
        return float(self._behaviour(question.known_origin().family).score(question, answer))

    @property
    def conversing(self) -> dict[str, Conversing]:
        """Returns how those tasks converse that do, by full name, once all are prepared."""
        return {full_task(name, task): how for name in self._families for task, how in self._conversing(name).items()}

    def reply(self, question: Question, answers: Sequence[Said]) -> str | None:
        """Returns what the environment says after these turns; None: the conversation is over.

        Raises:
            Exception: whatever the environment raises, ValueError where it says what no reply may be.
        """
        if len(answers) >= question.turns:
            return None
        return checked_reply(self._conversing_behaviour(question).reply(question, answers))

    def score_conversation(self, question: Question, answers: Sequence[Said]) -> float:
        """Returns the family's own reward for a conversation; 0 where nothing was said. Raises as `score`."""
        if not any(answer is not None for answer in answers):
            return 0.0
        return float(self._conversing_behaviour(question).score_conversation(question, answers))

    def _conversing(self, family: str) -> Mapping[str, Conversing]:
        return getattr(self._behaviour(family), "conversing", {})

    def _conversing_behaviour(self, question: Question) -> ConversingBehaviour:
        return cast(ConversingBehaviour, self._behaviour(question.known_origin().family))

    @property
    def executing(self) -> tuple[str, ...]:
        executing = {name: getattr(family, "executing", ()) for name, family in self._families.items()}
        return tuple(full_task(name, task) for name, tasks in executing.items() for task in tasks)

    def executes(self, question: Question) -> bool:
        """Tells whether answers to a question are tried by `trial`, and not scored."""
        origin = question.known_origin()
        return origin.task in getattr(self._families[origin.family], "executing", ())

    def trial(self, question: Question, answer: str) -> Trial:
        return cast(ExecutingBehaviour, self._behaviour(question.known_origin().family)).trial(question, answer)

    def _family(self, name: str) -> TaskFamily:
        if name not in self._families:
            raise ProtocolError(
                "unknown_family",
                f"family must be one of {', '.join(self._families)}, got {name!r:.80}; "
                f"nodes of one run need the same {SETTING}",
            )
        return self._families[name]


def _load(chosen: str) -> TaskFamily:
    """Returns one family. Its name is its own; only ours may have the names of ours."""
    if chosen in TASK_FAMILIES:
        return _ours(chosen)
    code = own_code(chosen, f"{SETTING} (task_families)", f"{SETTING}={chosen:.200}")
    try:
        family = cast(TaskFamily, load(code))
        name = family.name
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(_because(f"{str(code)!r} cannot be loaded: {error}")) from None
    if not _NAME.fullmatch(name) or name in TASK_FAMILIES:
        raise ConfigError(_because(f"{str(code)!r} is called {name!r}, a name that your own family cannot have"))
    return family


def _ours(name: str) -> TaskFamily:
    """Returns a family of the core, or of a plugin of ours, which nothing but its name looks up.

    Raises:
        ConfigError: the plugin is not there.
    """
    if name in FAMILIES:
        module, _, attribute = FAMILIES[name].partition(":")
        return cast(TaskFamily, getattr(import_module(module), attribute))
    entry = entry_points.bundled(entry_points.TASKS).get(name)
    if entry is None:
        raise ConfigError(
            f"the task family {name}, which {SETTING} or a table [tasks.NAME] names, belongs to a plugin that is "
            "not installed: install swarm again, with its plugins"
        )
    return cast(TaskFamily, entry_points.load(entry))


def plugins_asked(families: Iterable[str], tasks: Mapping[str, Parameters]) -> frozenset[str]:
    """Returns our plugins whose families these are, or ask tasks that a run defines."""
    named = {*families, *(family_of(name, parameters) for name, parameters in tasks.items())} - FAMILIES.keys()
    ours = entry_points.bundled(entry_points.TASKS) if named & {*TASK_FAMILIES} else {}
    return frozenset(
        ours[name].value.removeprefix(f"{entry_points.PACKAGE}.").partition(".")[0] for name in named & ours.keys()
    )


def _refuse_strangers_code(name: str, parameters: Parameters) -> None:
    """Raises ConfigError: a task selects code that is not ours, and that its user did not name."""
    for key, ours in OF_A_TASK.items():
        value = parameters.get(key, "")
        if key in parameters and value not in ours and not isinstance(value, OwnCode):
            own_code(str(value), f"[tasks.{name}]: {key}", "the task in a settings file of your own (--config)")


def complete(tasks: Mapping[str, Parameters], folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the tasks that a settings file in this folder defines, as every node of the run needs them.

    Raises:
        ConfigError: one of them cannot be asked; only what can be told without asking is looked for.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, parameters in tasks.items():
        check(name, parameters)
        _refuse_strangers_code(name, parameters)
        found[name] = _definable(_ours(family_of(name, parameters))).complete(name, parameters, folder)
    return found


def _definable(family: TaskFamily) -> DefinableFamily:
    return cast(DefinableFamily, family)  # FAMILY_OF_KEY names no other


def _because(problem: str) -> str:
    return (
        f"{SETTING} (task_families): {problem}; name one of {FIRST_FAMILY}, or an object of a "
        f"module that this Python can import"
    )


def _check_known(what: str, value: str, known: Mapping[str, object] | Sequence[str]) -> None:
    if value not in known:
        raise ProtocolError("unknown_task", f"{what} must be one of {', '.join(known)}, got {value!r}")


def _check_range(name: str, value: int, limit: int) -> None:
    if not (type(value) is int and 0 <= value < limit):
        raise ProtocolError("bad_origin", f"{name} must be an integer in 0 <= {name} < {limit}, got {value!r}")
