"""Environments of verifiers' own classes, written for tests as packages that it finds."""

from __future__ import annotations

from pathlib import Path

SUMS = """
import random
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Sum(vf.Task[Data]):
    @vf.reward
    async def right(self, trace) -> float:
        return float(vf.extract_boxed_answer(trace.last_reply, strict=True) == self.data.answer)

    @vf.reward(weight=0.25)
    async def boxed(self, trace) -> float:
        return float("boxed" in trace.last_reply)

class Config(vf.TasksetConfig):
    largest: int = 99

class Sums(vf.Taskset[Sum, Config]):
    def load(self):
        rng = random.Random(0)
        for _ in range(40):
            a, b = rng.randint(1, self.config.largest), rng.randint(1, self.config.largest)
            data = Data(prompt=f"{a} + {b} = ?", system_prompt="Be brief.", answer=str(a + b))
            yield Sum(data, self.config.task)

__all__ = ["Sums"]
"""
"""One turn, two rewards."""

GUESS = """
import random
import verifiers.v1 as vf

class Data(vf.TaskData):
    secret: int

class Guess(vf.Task[Data]):
    @vf.reward
    async def found(self, trace) -> float:
        said = [message.content for message in trace.assistant_messages]
        return 1.0 - 0.1 * said.index(str(self.data.secret)) if str(self.data.secret) in said else 0.0

class Guesses(vf.Taskset[Guess, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        rng = random.Random(0)
        while True:
            yield Guess(Data(prompt="Guess a number from 1 to 9.", secret=rng.randint(1, 9)), self.config.task)

class Config(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=5)

class Game(vf.Env[Config]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            while not segment.terminated and segment.last_reply != str(task.data.secret):
                higher = segment.last_reply < str(task.data.secret)
                segment = await talk.turn("It is higher." if higher else "It is lower.")

__all__ = ["Game", "Guesses"]
"""
"""Several turns, an endless taskset."""


def write(folder: Path, name: str, text: str) -> None:
    """A package of this id."""
    (folder / f"{name}.py").write_text(text)
