"""A policy and a source of questions that compute nothing and can be told apart: numbers in the place of tensors.

A policy's weights are a digest of all that it was ever trained on, in order. What it writes follows from the weights,
the seed and the question, and what an answer is worth follows from its text: so two lives of a node that come out with
the same weights write the same, and whatever is trained on twice, left out or exchanged shows in the digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from swarm.errors import ProtocolError
from swarm.tasks.answer import has_answer
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import Replied
from swarm.types import Completion, Dialogue, Origin, Question, Ready, TrainGroup, TrainReport

NOTHING = "0" * 16
WEIGHTS = "weights.json"
"""The file of a checkpoint."""


class Update(NamedTuple):
    """One update of the weights."""

    own: tuple[str, ...]
    """The questions of the own groups."""
    external: tuple[str, ...]
    weights: str
    """After it."""


class LightSnapshot(NamedTuple):
    weights: str
    updates: tuple[Update, ...]

    def write(self, directory: str) -> None:
        (Path(directory) / WEIGHTS).write_text(json.dumps(self))


class LightPolicy:
    """Generator and Trainer."""

    name = "light"
    tokenizer = "numbers"
    repeats = True
    bill = None

    def __init__(self, work: Callable[[str], None], updated: Callable[[Update], None]) -> None:
        """`work` is told of each step that computes, `updated` of each update."""
        self.weights = NOTHING
        self.updates: list[Update] = []
        self._work = work
        self._updated = updated
        self._begun: tuple[TrainGroup, ...] = ()

    def has_room(self, prompt: str) -> bool:
        return True

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        self._work("generate")
        groups = [
            tuple(_completion(f"{self.weights} {seed} {prompt} {number}") for number in range(group_size))
            for prompt in prompts
        ]
        for index, group in enumerate(groups if ready else ()):
            assert ready
            ready(index, group)
        return groups

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        self._work("train")
        self._begun = tuple(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        self._work("train")
        own, external, self._begun = self._begun, tuple(groups), ()
        told = repr([(g.prompt, [c.text for c in g.completions], g.advantages, g.external) for g in (*own, *external)])
        self.weights = blake2b(f"{self.weights} {told}".encode(), digest_size=8).hexdigest()
        update = Update(tuple(g.prompt for g in own), tuple(g.prompt for g in external), self.weights)
        self.updates.append(update)
        self._updated(update)
        measure = int(self.weights[:8], 16) / 2**32
        tokens = sum(len(g.completions) for g in (*own, *external))
        return TrainReport(loss=measure, grad_norm=1 + measure, tokens=tokens, trained_tokens=tokens)

    def part(self, name: str) -> Any:
        raise KeyError(name)

    def snapshot(self) -> LightSnapshot:
        return LightSnapshot(self.weights, tuple(self.updates))

    def restore(self, snapshot_dir: str) -> None:
        self.updates = read_weights((Path(snapshot_dir) / WEIGHTS).read_bytes())
        self.weights = self.updates[-1].weights if self.updates else NOTHING


def read_weights(file: bytes) -> list[Update]:
    """The updates that a checkpoint holds."""
    return [Update(tuple(own), tuple(external), weights) for own, external, weights in json.loads(file)[1]]


def _completion(told: str) -> Completion:
    number = crc32(told.encode())
    text = f"<answer>{number % 7}</answer> {number}" if number % 8 else f"{number}"
    return Completion(text, finished=number % 5 > 0, token_ids=(number % 97, number % 89))


def _origin(request: QuestionRequest) -> Origin:
    return Origin(request.task, request.profile, request.seed, request.index, "light")


def prompt_of(request: QuestionRequest) -> str:
    """By which a question is known again."""
    return question_of(_origin(request)).prompt


def question_of(origin: Origin) -> Question:
    return Question(f"{origin.task} {origin.seed}?", origin, answer=f"{origin.seed % 7}")


class LightTasks:
    """Questions and scores, by arithmetic."""

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        return [question_of(_origin(request)) for request in requests]

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        return Replied((None,) * len(conversations))

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        question = question_of(origin)
        if claimed_prompt is not None and claimed_prompt != question.prompt:
            raise ProtocolError("other_question", f"{claimed_prompt!r:.40} is not what the origin gives")
        texts = [one if isinstance(one, str) else one.text for one in completions]
        answered = tuple(map(has_answer, texts))
        rewards = tuple(float(crc32(text.encode()) % 2) if has_answer(text) else 0.0 for text in texts)
        return GroupScore(question, rewards, answered, killed=0, errors=0)
