"""Questions that a Python file draws, and its scores, in a scoring server: the file is known by its SHA-256, imported,
and asked."""

from __future__ import annotations

import ast
import hashlib
import random
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from swarm.config.task_table import WEIGHT
from swarm.errors import ConfigError
from swarm.tasks.conversation import Conversing, Said
from swarm.tasks.definitions import Parameters, malformed, refuse_other
from swarm.tasks.python import DIGEST, FILE
from swarm.types import Origin, Question

PROMPT_LIMIT = 20_000
"""Characters of a question, and of its answer."""
METADATA_LIMIT = 100_000
"""Bytes, as msgpack."""
BYTES_LIMIT = 2**20
FUNCTIONS = ("draw", "score")
REPLY, TURNS, READS = "reply", "turns", "reads"
"""Names of a file that converses: a function, how many turns of the model there are at most, and what it reads of
each."""


class TaskFileError(Exception):
    """A function of a task's file failed; says which, where and why."""


class _Task(NamedTuple):
    path: Path
    functions: dict[str, Callable[..., Any]]
    conversing: Conversing | None
    parameters: dict[str, Any]
    """What the table says for `draw`."""

    def call(self, function: str, *arguments: object, **parameters: object) -> Any:
        """Call a function of the file. Raises TaskFileError for whatever it raises."""
        try:
            return self.functions[function](*arguments, **parameters)
        except Exception as error:  # the boundary: somebody's function may raise anything
            raise TaskFileError(f"{self.path}: {function} failed: {where(error, self.path)}") from error


class PythonQuestions:
    """The behaviour of the Python family with some tasks; see swarm.tasks.family.Behaviour."""

    def __init__(self, tasks: Mapping[str, Parameters]) -> None:
        self._definitions = tasks
        self._tasks: dict[str, _Task] = {}

    def prepare(self) -> None:
        """Import all files. Raises ConfigError."""
        self._tasks = {name: _load(name, parameters) for name, parameters in self._definitions.items()}

    def make(self, origin: Origin) -> Question:
        """Makes the question that `draw` gives. Raises TaskFileError, and ValueError if `draw` gives something else."""
        task = self._tasks[origin.task]
        rng = random.Random(f"{origin.seed} {origin.index}")
        return question_of(task.call("draw", rng, **task.parameters), origin)

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward that `score` gives, which may change the question. Raises TaskFileError."""
        return float(self._of(question).call("score", question, answer))

    @property
    def conversing(self) -> dict[str, Conversing]:
        """Returns the tasks whose file has `reply`."""
        return {name: task.conversing for name, task in self._tasks.items() if task.conversing}

    def reply(self, question: Question, answers: Sequence[Said]) -> str | None:
        """Returns the words that `reply` gives, whatever they are. Raises TaskFileError."""
        words: str | None = self._of(question).call(REPLY, question, list(answers))
        return words

    def score_conversation(self, question: Question, answers: Sequence[Said]) -> float:
        """Returns the reward that `score` gives for all turns. Raises TaskFileError."""
        return float(self._of(question).call("score", question, list(answers)))

    def _of(self, question: Question) -> _Task:
        return self._tasks[question.known_origin().task]


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
    raise ValueError(
        f"expected of draw (question, answer) as text, or (question, answer, metadata), got {drawn!r:.200}"
    )


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────
def read(name: str, path: Path) -> bytes:
    """Returns the file. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_LIMIT + 1)
    except OSError as error:
        raise malformed(name, f"cannot read {path}: {error.strerror}; `swarm task new` writes such a file") from None
    if len(text) > BYTES_LIMIT:
        raise malformed(name, f"{path} has more than {BYTES_LIMIT} bytes")
    return text


def digest_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _load(name: str, parameters: Parameters) -> _Task:
    """Runs the very bytes that have the table's digest. Raises ConfigError."""
    path, digest = Path(parameters[FILE]), parameters[DIGEST]
    text = read(name, path)
    refuse_other(name, str(path), digest, digest_of(text))
    module = ModuleType(f"swarm_task_{digest[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and pickles look their module up
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # the user's own file, at the digest of the user's own run
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: somebody's file may raise anything
        raise malformed(name, f"{path} cannot be imported: {where(error, path)}") from None
    converses = hasattr(module, REPLY)
    functions = (*FUNCTIONS, REPLY) if converses else FUNCTIONS
    for function in functions:
        if not callable(getattr(module, function, None)):
            raise malformed(name, f"{path} has no function {function}; see docs/tasks.md, or `swarm task new`")
    how = Conversing(getattr(module, TURNS, 0), getattr(module, READS, "answer")) if converses else None
    own = {key: value for key, value in parameters.items() if key not in (FILE, DIGEST, WEIGHT)}
    return _Task(path, {function: getattr(module, function) for function in functions}, how, own)


def turns_of(path: Path) -> int:
    """Returns the turns that a file says it has, at most, without importing it; 1 where it cannot be told."""
    try:
        body = ast.parse(read("", path)).body
    except (ConfigError, SyntaxError, ValueError):  # said where the task is asked
        return 1
    said: list[Any] = [
        node.value.value
        for node in body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and any(isinstance(target, ast.Name) and target.id == TURNS for target in node.targets)
    ]
    converses = any(isinstance(node, ast.FunctionDef) and node.name == REPLY for node in body)
    return int(said[-1]) if converses and said and Conversing(said[-1]).possible else 1


def where(error: BaseException, path: Path) -> str:
    """Returns in words what was raised, and in which line of the file."""
    frames = traceback.walk_tb(error.__traceback__)  # reads no source, which a scoring child may not
    lines = [line for frame, line in frames if frame.f_code.co_filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    said = f"{type(error).__name__}: {error}"
    return f"line {line}: {said:.300}" if line else f"{said:.300}"
