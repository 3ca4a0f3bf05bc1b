"""Questions, replies and rewards of environments, in a scoring server.

Which row a question asks follows from its seed as in a dataset (swarm.tasks.dataset.questions), what is random in an
episode from seed and index. A task reads all that the model writes, as the library's own parsers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from swarm.plugins.verifiers import trials
from swarm.plugins.verifiers.definition import VerifiersDefinition
from swarm.plugins.verifiers.environment import open_environment, refused
from swarm.plugins.verifiers.playing import Earned, Player, Waits
from swarm.plugins.verifiers.rows import TasksetRows, load_rows, require
from swarm.tasks.conversation import Conversing, Said
from swarm.tasks.dataset.questions import row_number
from swarm.types import MOST_TURNS, Origin, Question


class _Task(NamedTuple):
    rows: TasksetRows
    player: Player
    conversing: Conversing

    def of(self, origin: Origin) -> Any:
        """Returns the library's task that an origin asks."""
        return self.rows.tasks[row_number(self.rows.training, self.rows.held_out, origin.seed, origin.index)]


class VerifiersQuestions:
    """The behaviour of the verifiers family with some tasks; see swarm.tasks.family.Behaviour."""

    def __init__(self, definitions: Mapping[str, VerifiersDefinition]) -> None:
        self._definitions = definitions
        self._tasks: dict[str, _Task] = {}

    def prepare(self) -> None:
        """Import all environments, load their rows, and try the first. Raises ConfigError."""
        for name, definition in self._definitions.items():
            self._tasks[name] = _prepared(definition)

    def make(self, origin: Origin) -> Question:
        """Makes the question that is said to the model before its first turn. Raises what the environment raises."""
        task = self._tasks[origin.task]
        opening = task.player.play(task.of(origin), (), _seed(origin))
        if not isinstance(opening, Waits):
            raise ValueError("the episode was over before the model's first turn")
        data = task.of(origin).data
        key = getattr(data, "answer", None)  # of the rewards', and no turn that would earn them
        return Question(opening.words, origin, None, {"row": data.idx} | ({"key": key} if isinstance(key, str) else {}))

    @property
    def conversing(self) -> dict[str, Conversing]:
        """All: what is read of a turn is its whole text."""
        return {name: task.conversing for name, task in self._tasks.items()}

    def reply(self, question: Question, answers: Sequence[Said]) -> str | None:
        """Returns what is said to the model after these turns. Raises what the environment raises."""
        found = self._play(question, answers, ends=False)
        return found.words if isinstance(found, Waits) else None

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward of one turn."""
        return self.score_conversation(question, [answer])

    def score_conversation(self, question: Question, answers: Sequence[Said]) -> float:
        """Returns the reward that the episode earned. Raises what the environment raises."""
        found = self._play(question, answers, ends=True)
        assert isinstance(found, Earned)
        return found.reward

    def _play(self, question: Question, answers: Sequence[Said], *, ends: bool) -> Waits | Earned:
        origin = question.known_origin()
        task = self._tasks[origin.task]
        return task.player.play(task.of(origin), [text or "" for text in answers], _seed(origin), ends=ends)


def _seed(origin: Origin) -> str:
    return f"{origin.seed} {origin.index}"


def _prepared(definition: VerifiersDefinition) -> _Task:
    opened = open_environment(definition)
    rows = load_rows(opened)
    require(opened, rows)
    player = Player(opened)
    chosen = [rows.tasks[row_number(rows.training, rows.held_out, seed, 0)] for seed in range(trials.QUESTIONS)]
    converses = trials.check(opened, player, chosen)
    if converses and not opened.most_turns:
        raise refused(definition, f"converses and does not say how long: say turns, 2 to {MOST_TURNS}")
    return _Task(rows, player, Conversing((converses and opened.most_turns) or 1, "text"))
