"""Questions that a Python file draws, and its scores, in a scoring server."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swarm.config.task_table import WEIGHT
from swarm.tasks.conversation import Conversing, Said, checked_reply
from swarm.tasks.definitions import Parameters, malformed, profile_of
from swarm.tasks.python import source
from swarm.tasks.python.family import DIGEST, FAMILY, FILE, PythonTasks
from swarm.types import Origin, Question

PROMPT_LIMIT = 20_000
"""Characters of a question, and of its answer."""
METADATA_LIMIT = 100_000
"""Bytes, as msgpack."""


class _Task(NamedTuple):
    draw: Callable[..., Any]
    score: Callable[[Question, Any], float]
    parameters: dict[str, Any]
    reply: Callable[[Question, list[Said]], str | None] | None
    conversing: Conversing | None


class PythonQuestions:
    """The behaviour of the Python family with some tasks; see swarm.tasks.family.Behaviour."""

    def __init__(self, tasks: Mapping[str, Parameters]) -> None:
        self._definitions = tasks
        self._tasks: dict[str, _Task] = {}

    def prepare(self) -> None:
        """Import all files, and see that each draws and scores a question. Raises ConfigError."""
        for name, parameters in self._definitions.items():
            path = Path(parameters[FILE])
            own = {key: value for key, value in parameters.items() if key not in (FILE, DIGEST, WEIGHT)}
            functions, conversing = source.load(name, path, parameters[DIGEST])
            self._tasks[name] = _Task(functions["draw"], functions["score"], own, functions.get("reply"), conversing)
            self._try(name, path)

    def make(self, origin: Origin) -> Question:
        """Makes the question that `draw` gives. Raises what that raises, and ValueError if it gives something else."""
        task = self._tasks[origin.task]
        drawn = task.draw(random.Random(f"{origin.seed} {origin.index}"), **task.parameters)
        return question_of(drawn, origin)

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward that `score` gives, in a copy of the question: it may change that. Raises what that
        raises."""
        return float(self._tasks[question.known_origin().task].score(question, answer))

    @property
    def conversing(self) -> dict[str, Conversing]:
        """Returns the tasks whose file has `reply`."""
        return {name: task.conversing for name, task in self._tasks.items() if task.conversing}

    def reply(self, question: Question, answers: Sequence[Said]) -> str | None:
        """Returns the words that `reply` gives. Raises what that raises."""
        reply = self._tasks[question.known_origin().task].reply
        return reply(question, list(answers)) if reply else None

    def score_conversation(self, question: Question, answers: Sequence[Said]) -> float:
        """Returns the reward that `score` gives for all turns. Raises what that raises."""
        return float(self._tasks[question.known_origin().task].score(question, list(answers)))

    def _try(self, name: str, path: Path) -> None:
        """One question, as a run will ask it, so that what is wrong is known before anything starts."""
        task = self._tasks[name]
        try:
            inspect.signature(task.draw).bind(None, **task.parameters)
        except TypeError as error:
            taken = ", ".join(list(inspect.signature(task.draw).parameters)[1:])
            raise malformed(name, f"{path}: draw does not take these parameters: {error}; it has {taken}") from None
        profile = profile_of(name, self._definitions[name])
        try:
            question = self.make(Origin(name, profile, 0, 0, PythonTasks.version, FAMILY))
        except Exception as error:  # noqa: BLE001 - the boundary: somebody's function may raise anything
            raise malformed(name, f"{path}: draw failed: {source.where(error, path)}") from None
        if task.reply:
            self._attempt("reply", lambda: checked_reply(self.reply(question, [question.answer])), name, path)
            self._attempt("score", lambda: self.score_conversation(question, [question.answer]), name, path)
        else:
            self._attempt("score", lambda: self.score(question, question.answer or ""), name, path)

    @staticmethod
    def _attempt(what: str, call: Callable[[], object], name: str, path: Path) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - as above
            raise malformed(name, f"{path}: {what} failed at the answer of draw: {source.where(error, path)}") from None


def question_of(drawn: object, origin: Origin) -> Question:
    """Returns the question that `draw` gave. Raises ValueError saying what else it gave."""
    prompt, answer, metadata = _parts(drawn)
    for what, text in (("question", prompt), ("answer", answer)):
        if len(text) > PROMPT_LIMIT:
            raise ValueError(f"the {what} has {len(text)} characters, more than {PROMPT_LIMIT}")
    packed = msgspec.msgpack.encode(metadata)
    if len(packed) > METADATA_LIMIT:
        raise ValueError(f"the metadata has {len(packed)} bytes, more than {METADATA_LIMIT}")
    return Question(prompt, origin, answer, msgspec.msgpack.decode(packed))


def _parts(drawn: object) -> tuple[str, str, dict[str, Any]]:
    match drawn:
        case (str(prompt), str(answer)):
            return prompt, answer, {}
        case (str(prompt), str(answer), dict(metadata)):
            return prompt, answer, metadata
    raise ValueError(f"expected (question, answer) as text, or (question, answer, metadata), got {drawn!r:.200}")
