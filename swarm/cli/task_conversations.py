"""Checks what `swarm task try` looks for in a task that replies to the model, and conversations by hand.

first server: all conversations of a question, turn by turn, together ─▶ the same replies from the second, each alone?
                                                                    ─▶ scored, and timed ─▶ CheckedConversations
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from swarm.errors import ProtocolError
from swarm.tasks.bounded import Limits
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import Completion, Question, Turn

SHARE = 0.5
"""Share of a group's processor time: who takes more is killed on a slower or busier machine."""
QUESTIONS = 5
"""So many are conversed about."""


class ByHand:
    """One conversation, whose turns somebody gives as they would stand between the tags."""

    def __init__(self, scorer: Scorer, question: Question) -> None:
        self._scorer = scorer
        self._question = question
        self._replies: list[str] = []
        self.turns: list[str] = []
        self.over = False
        self.killed = self.errors = 0

    async def say(self, answer: str) -> str | None:
        """A turn of the model; returns what is said to it."""
        origin = self._question.known_origin()
        how = self._scorer.conversing(origin)
        self.turns.append(answer if how and how.reads == "text" else f"<answer>{answer}</answer>")
        found = await self._scorer.reply(origin, [self.turns])
        (reply,) = found.replies
        self.killed, self.errors = self.killed + found.killed, self.errors + found.errors
        self.over = reply is None
        self._replies += [] if reply is None else [reply]
        return reply

    @property
    def replies(self) -> list[str | None]:
        """Returns the replies after each turn."""
        return [*self._replies, None] if self.over else [*self._replies]

    @property
    def completion(self) -> Completion:
        """Returns the conversation as far as it got."""
        earlier = zip(self.turns[:-1], self._replies, strict=False)
        return Completion(self.turns[-1], True, earlier=tuple(Turn(text, True, reply) for text, reply in earlier))

    async def score(self) -> GroupScore:
        """Returns what the conversation is worth."""
        return await self._scorer.score(self._question.known_origin(), None, [self.completion])


class CheckedConversations:
    """Collects what was found."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.scoring: list[float] = []
        """Seconds for a group of conversations."""


async def check_conversations(
    scorer: Scorer, other: Scorer, questions: Sequence[Question], odd: Sequence[str], group: int
) -> CheckedConversations:
    """Converse about some questions, in answers that somebody may give.

    Args:
        group: conversations about each.
    """
    found = CheckedConversations()
    for number, question in enumerate(questions[:QUESTIONS]):
        scripts = [[question.answer or "", *odd], *([*odd[k:], *odd[:k]] for k in range(number, number + group - 1))]
        talks = await _played(scorer, question, scripts)
        found.problems += _failures(talks) or await _differences(other, question, talks)
        if not found.problems:
            found.problems += await _scored(scorer, question, talks, found.scoring)
        if found.problems:
            break
    return found


async def _played(scorer: Scorer, question: Question, scripts: Sequence[Sequence[str]]) -> list[ByHand]:
    talks = [ByHand(scorer, question) for _ in scripts]
    for turn in range(question.turns):
        for talk, script in zip(talks, scripts, strict=True):
            if not talk.over:
                await talk.say(script[turn % len(script)])
    return talks


def _failures(talks: Sequence[ByHand]) -> list[str]:
    killed, errors = sum(talk.killed for talk in talks), sum(talk.errors for talk in talks)
    problems = []
    if killed:
        problems.append(
            f"{killed} times a reply was ended: it took all of its time or memory, or tried what no task may (to open, "
            "import, execute, connect): what its process said stands above"
        )
    if errors:
        problems.append(f"{errors} times reply raised, or gave neither None nor a text of 1 to 4,000 characters")
    return problems


async def _differences(other: Scorer, question: Question, talks: Sequence[ByHand]) -> list[str]:
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


async def _scored(scorer: Scorer, question: Question, talks: Sequence[ByHand], seconds: list[float]) -> list[str]:
    began = time.perf_counter()
    try:
        score = await scorer.score(question.known_origin(), question.prompt, [talk.completion for talk in talks])
    except ProtocolError as error:
        return [f"seed {question.known_origin().seed}: its conversations are refused: {error}"]
    seconds.append(time.perf_counter() - began)
    if score.killed:
        return [f"{score.killed} times scoring a conversation was ended: what its process said stands above"]
    if score.errors:
        return [f"{score.errors} times scoring a conversation raised, or gave no number from 0 to 1"]
    if question.answer is not None and score.rewards[0] < FULL_ANSWER:
        return [f"its own answer in the first turn does not give 1: {question.prompt!r:.200}, {question.answer!r:.80}"]
    if seconds[-1] > SHARE * Limits().cpu_s:
        share = seconds[-1] / Limits().cpu_s
        return [f"slow: {len(talks)} conversations take {share:.0%} of the second of processor time that they have"]
    return []
