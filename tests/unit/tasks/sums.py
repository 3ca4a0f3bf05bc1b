"""A second family, as its manual tells to write one."""

from __future__ import annotations

import random

from swarm.config.own_code import OwnCode
from swarm.types import Origin, Question

ADDENDS = {"short": 2, "long": 5}


class Adding:
    """What it does."""

    def prepare(self) -> None:
        """Nothing to import."""

    def make(self, origin: Origin) -> Question:
        rng = random.Random(f"{origin.seed} {origin.index}")
        numbers = [rng.randrange(1000) for _ in range(ADDENDS[origin.task])]
        return Question(" + ".join(map(str, numbers)), origin, str(sum(numbers)), {"numbers": numbers})

    def score(self, question: Question, answer: str) -> float:
        return float(answer == question.answer)


class Sums:
    """What it is."""

    name = "sums"
    version = "1"
    packages = ("msgspec",)

    def profiles(self) -> dict[str, tuple[str, ...]]:
        return {"tiny": ("short", "long"), "paper": ("long",)}

    def behaviour(self) -> Adding:
        return Adding()


class NextSums(Sums):
    version = "2"


class Impostor(Sums):
    name = "reasoning-gym"


SUMS = Sums()
NEXT_SUMS = NextSums()
IMPOSTOR = Impostor()
SPEC = OwnCode("tests.unit.tasks.sums:SUMS")
