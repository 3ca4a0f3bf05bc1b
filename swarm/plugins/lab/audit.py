"""Measures what a task pays to who does not think: one answer for all questions, its own words given back, scraps of
the key.

    questions ─┬─▶ constants: tried on SCREENED questions ─▶ the BEST of them, on all ─┐
               └─▶ tricks: an answer from the question's text, or from its key ────────┴─▶ mean rewards ─▶ Audit

A reward is meant for the task. So no constant and no trick may earn more than the most frequent right answer does.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import anyio
import msgspec

from swarm.tasks.answer import ANSWER_LIMIT, key_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import FULL_ANSWER, Scorer
from swarm.types import Question

SCREENED, BEST, MOST_KEYS = 40, 6, 60
"""Questions that all constants are tried on; constants that are tried on all questions; keys that are tried as one."""
GROUP = 8
AT_ONCE = 16
"""Answers of a group, and groups that are scored at the same time."""
MADE_AT_ONCE = 32
"""Questions of one request to the scorer."""
MOST = 0.35
"""Mean reward that no constant and no trick may earn in a task that is asked by default."""
SAME = 1e-9
COMMON = (
    *("0", "1", "-1", "2", "3", "10", "0.5", "1/2", "nan", "inf", "Yes", "No", "yes", "no", "True", "False"),
    *("true", "false", "A", "B", "None", "none", "null", "[]", "[[]]", "{}", "()", '""', "-", "?", "=", "()[]{}"),
    *("Monday", "impossible", "infeasible", "unknown", "a", "the", "x", "1 2 3", "1, 2, 3", "[1, 2, 3]", "0 0\n0 0"),
)
"""Constants that are tried whatever the task."""
_MARK = re.compile(r"^\s*(?:\.?\s*\d+[.)]|[-*•])\s+")
_NUMBER = re.compile(r"-?\d+(?:[./]\d+)?")


class Guess(msgspec.Struct, frozen=True):
    """A way to answer, and its mean reward."""

    how: str
    reward: float
    full: float
    """Share of questions that it earned the full reward for."""


class Audit(msgspec.Struct, frozen=True):
    """Holds what one task pays to answers that do not think."""

    task: str
    questions: int
    usual: Guess | None
    """The most frequent key, given to all questions; None: questions have no key."""
    constant: Guess
    """The best of all constants."""
    trick: Guess
    """The best answer from a question's own text."""
    scrap: Guess | None
    """The best of what is less, or more, than the key: its half, its first sign, junk beside it."""
    own: float | None
    """Mean reward of the keys."""
    meaningless: int
    """Questions that every answer tried was right to, or whose own key earned nothing."""
    ended: int
    """Answers that a process was ended for."""
    several: bool
    """A question has several right answers, so that its key is one of many."""

    @property
    def pays_too_much(self) -> bool:
        """Tells whether not thinking earns more than MOST, or more than the most frequent key if questions have one."""
        best = max(self.constant.reward, self.trick.reward)
        above_usual = self.usual is not None and best > self.usual.reward + SAME
        return best > MOST or (above_usual and not self.several)


Trick = Callable[[Question], str | None]


def tricks() -> dict[str, Trick]:
    """Answers from a question's own text."""
    found: dict[str, Trick] = {
        "nothing": lambda _question: "",
        "the question": lambda question: question.prompt,
        "its end": lambda question: question.prompt.strip().splitlines()[-1],
        "its first line": lambda question: question.prompt.strip().splitlines()[0],
    }
    for place in (0, 1, 2, -1, -2, -3):
        found[f"premise {place}"] = functools.partial(_at, _premises, place)
        found[f"number {place}"] = functools.partial(_at, _numbers, place)
        found[f"word {place}"] = functools.partial(_at, str.split, place)
        found[f"line {place}"] = functools.partial(_at, _lines, place)
    found["first two premises, and"] = functools.partial(_joined, " ∧ ")
    found["first two premises, or"] = functools.partial(_joined, " ∨ ")
    found["all numbers"] = lambda question: " ".join(_numbers(question.prompt))
    found["NaN for each number"] = lambda question: str(["NaN" for _ in _numbers(_lines(question.prompt)[0])])
    return found


def _at(parts: Callable[[str], Sequence[str]], place: int, question: Question) -> str | None:
    found = parts(question.prompt)
    return found[place].strip() if -len(found) <= place < len(found) else None


def _joined(by: str, question: Question) -> str | None:
    found = _premises(question.prompt)
    return by.join(f"({one})" for one in found[:2]) if len(found) > 1 else None


def _premises(prompt: str) -> list[str]:
    """Returns lines of a list, without their marks."""
    return [_MARK.sub("", line).rstrip(" .") for line in prompt.splitlines() if _MARK.match(line)]


def _numbers(prompt: str) -> list[str]:
    return _NUMBER.findall(prompt)


def _lines(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.strip()]


SCRAPS: Mapping[str, Callable[[str], str]] = {
    "its first sign": lambda key: key[:1],
    "its first half": lambda key: key[: len(key) // 2],
    "it and junk": lambda key: f"{key} x",
    "junk and it": lambda key: f"x {key}",
    "it twice": lambda key: f"{key} {key}",
    "a zero before it": lambda key: f"0{key}",
}
"""What is not the key, and made of it."""


def formulas(variables: Sequence[str]) -> list[str]:
    """Statements with one connective at most, for tasks whose answers are such."""
    literals = [sign + name for sign in ("", "¬") for name in variables]
    pairs = [pair for pair in itertools.combinations(literals, 2) if pair[0][-1] != pair[1][-1]]
    joined = [f"({a} {how} {b})" for a, b in pairs for how in "∧∨→↔"]
    return [*literals, *joined, *(f"({name} ∧ ¬{name})" for name in variables[:1])]


def constants(questions: Sequence[Question]) -> list[str]:
    """Returns all that are tried."""
    keys = Counter(key for question in questions if (key := key_of(question.answer, question.metadata)))
    most = [key for key, _ in keys.most_common(MOST_KEYS)]
    variables = sorted({name for question in questions for name in question.metadata.get("variables", ())})
    listed = [", ".join(most[:20]), " ".join(most[:20])]
    return list(dict.fromkeys([*most, *listed, *COMMON, *(formulas(variables[:8]) if variables else ())]))


async def audited(task: str, scorer: Scorer, requests: Sequence[QuestionRequest]) -> Audit:
    """Asks the scorer for these questions and audits them. Raises ProtocolError: one cannot be made."""
    asked: list[Question] = []
    for start in range(0, len(requests), MADE_AT_ONCE):
        asked += await scorer.make(requests[start : start + MADE_AT_ONCE])
    return await Auditor(scorer, asked).audit(task)


class Auditor:
    """Gives answers to a task's questions, by a scoring server as a run has it."""

    def __init__(self, scorer: Scorer, questions: Sequence[Question]) -> None:
        self._scorer = scorer
        self._questions = questions
        self._ended = 0
        self._free = anyio.Semaphore(AT_ONCE)
        self._known: dict[tuple[int, str], float] = {}

    async def audit(self, task: str) -> Audit:
        """Returns all guesses, on all questions."""
        tried = constants(self._questions)
        screened = range(min(SCREENED, len(self._questions)))
        await self._score(dict.fromkeys(screened, tried))
        best = sorted(tried, key=lambda text: -sum(self._known[number, text] for number in screened))[:BEST]
        keys = [_cut(key_of(question.answer, question.metadata)) for question in self._questions]
        usual = next((key for key, _ in Counter(key for key in keys if key).most_common(1)), None)
        every = [*best, *([usual] if usual is not None else [])]
        own_text = {how: [_cut(trick(question)) for question in self._questions] for how, trick in tricks().items()}
        scraps = {how: [_cut(scrap(key)) if key else None for key in keys] for how, scrap in SCRAPS.items()}
        scraps = {
            how: [None if s == k else s for s, k in zip(given, keys, strict=True)] for how, given in scraps.items()
        }
        asked: dict[int, list[str]] = {}
        for number in range(len(self._questions)):
            given = [texts[number] for texts in (*own_text.values(), *scraps.values(), keys)]
            asked[number] = [*every, *(text for text in given if text is not None)]
        await self._score(asked)
        return Audit(
            task,
            len(self._questions),
            None if usual is None else self._guess(usual, [usual] * len(keys)),
            max((self._guess(text, [text] * len(keys)) for text in every), key=_worth),
            max((self._guess(how, texts) for how, texts in own_text.items()), key=_worth),
            max((self._guess(how, texts) for how, texts in scraps.items()), key=_worth) if usual is not None else None,
            self._guess("key", keys).reward if usual is not None else None,
            sum(self._is_meaningless(number, asked[number], keys[number]) for number in asked),
            self._ended,
            any(question.answer is None for question in self._questions),
        )

    def _is_meaningless(self, number: int, tried: Iterable[str], key: str | None) -> bool:
        full = [self._known[number, text] >= FULL_ANSWER for text in {*tried} - {key}]
        return all(full) or (key is not None and self._known[number, key] < FULL_ANSWER)

    def _guess(self, how: str, texts: Sequence[str | None]) -> Guess:
        rewards = [0.0 if text is None else self._known[number, text] for number, text in enumerate(texts)]
        return Guess(how, sum(rewards) / len(rewards), sum(one >= FULL_ANSWER for one in rewards) / len(rewards))

    async def _score(self, asked: Mapping[int, Sequence[str]]) -> None:
        async with anyio.create_task_group() as tasks:
            for number, texts in asked.items():
                new = [text for text in dict.fromkeys(texts) if (number, text) not in self._known]
                for group in (tuple(new[start : start + GROUP]) for start in range(0, len(new), GROUP)):
                    await self._free.acquire()
                    tasks.start_soon(self._score_group, number, group)

    async def _score_group(self, number: int, texts: tuple[str, ...]) -> None:
        question = self._questions[number]
        completions = [f"<answer>{text}</answer>" for text in texts]
        try:
            found = await self._scorer.score(question.known_origin(), question.prompt, completions)
        finally:
            self._free.release()
        self._ended += found.killed
        self._known.update({(number, text): reward for text, reward in zip(texts, found.rewards, strict=True)})


def _cut(text: str | None) -> str | None:
    return None if text is None else text.strip()[:ANSWER_LIMIT]


def _worth(guess: Guess) -> float:
    return guess.reward
