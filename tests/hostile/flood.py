"""A thousand hostile answers through one scorer, with honest groups in between: what is left, and what did it cost?

    python -m tests.hostile.flood --answers 1000        some four minutes of one core

Prints a table, and ends with 1 if an honest answer was scored wrong, a process was left, or memory was not bounded.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import anyio

from swarm.tasks.bounded import Limits
from swarm.tasks.scoring import FULL_ANSWER, Scorer
from tests.hostile.exploits import tautology
from tests.hostile.processes import descendants, resident_mb
from tests.unit.tasks.gym import make_question, reference
from tests.unit.tasks.serving import tagged

GROUP = 5
"""Answers of a group: four hostile ones, and behind them a right one; or right ones alone."""
LIMITS = Limits(wall_s=60.0)
MOST_MB = 2 * LIMITS.memory_bytes / 2**20 + 300
"""Resident, of all scoring processes: a server, and the one child that it has at a time."""
_numbers = count()


def _unique(text: str) -> str:
    """Equal answers of a group are scored once: no two are."""
    return f"{text}{' ' * (next(_numbers) % 7)}"


FORK_BOMB = "exec('import os\\nwhile True: os.fork()')"
KINDS: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "hang": ("propositional_logic", 4, lambda n: tautology(15).replace("a", chr(97 + 15 + n % 11))),
    "memory bomb": ("propositional_logic", 4, lambda n: "∧".join("abcdefghijklmnopqrstuvwx"[: 20 + n % 4])),
    "fork bomb": ("binary_matrix", 10, lambda n: FORK_BOMB + "#" + str(n)),
    "command": ("binary_matrix", 20, lambda n: f"__import__('os').system('touch {{marker}}{n}')"),
    "power": ("binary_matrix", 10, lambda n: f"{n + 9}**9**9**9"),
    "deep list": ("binary_matrix", 10, lambda n: "[" * (900 + n % 90)),
    "10 MB": ("decimal_arithmetic", 10, lambda n: str(n) + "9" * 10_000_000),
    "large number": ("decimal_arithmetic", 12, lambda n: f"1e{n + 1}999999999"),
    "digits": ("base_conversion", 10, lambda n: str(n) + "9" * 1_900),
    "regex bomb": ("fraction_simplification", 10, lambda n: r"$\frac{" * 200 + str(n) + "1" * 400 + "/" * 100),
}
"""Kind -> task, share in percent, the nth answer of its kind."""


@dataclass
class Costs:
    """What one kind came to."""

    answers: int = 0
    killed: int = 0
    errors: int = 0
    seconds: float = 0.0
    """Of processor time, of the server and its children."""
    rewards: Counter[float] = field(default_factory=Counter)
    wrong: int = 0
    """Right answers that were not given the full reward."""


def main() -> int:
    """Flood a scorer."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.flood", description=__doc__)
    parser.add_argument("--answers", type=int, default=1000)
    answers = parser.parse_args().answers
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        with peak_memory(folder) as peak:
            costs, grown = anyio.run(_flood, answers, folder)
        left, planted = descendants(folder), list(Path(folder).iterdir())
    sys.stdout.write(_table(costs, peak[0], grown, len(left), len(planted)))
    good = not left and not planted and peak[0] < MOST_MB and not any(cost.wrong for cost in costs.values())
    return 0 if good else 1


async def _flood(answers: int, folder: str) -> tuple[dict[str, Costs], float]:
    costs = {kind: Costs() for kind in ("honest", *KINDS)}
    tasks = sorted({task for task, _, _ in KINDS.values()})
    async with Scorer(limits=LIMITS) as scorer:
        for task in tasks:
            await _score(scorer, costs["honest"], task, [])
        before = resident_mb(scorer.pids[0])
        for kind, (task, percent, make) in KINDS.items():
            texts = (_unique(make(n)).replace("{marker}", f"{folder}/marker") for n in range(answers * percent // 100))
            while hostile := list(islice(texts, GROUP - 1)):
                await _score(scorer, costs[kind], task, hostile)
            for honest in tasks:
                await _score(scorer, costs["honest"], honest, [])
        return costs, resident_mb(scorer.pids[0]) - before


async def _score(scorer: Scorer, cost: Costs, task: str, hostile: list[str]) -> None:
    """Score a group of hostile answers and a right one, or of right ones alone, and add up what it cost."""
    question, right = make_question(task, "paper", 1 if hostile else 2), 1 if hostile else GROUP
    texts = tagged(*hostile, *[reference(question)] * right)
    start = processor_s(scorer.pids[0])
    group = await scorer.score(question.known_origin(), question.prompt, texts)
    cost.seconds += processor_s(scorer.pids[0]) - start
    cost.answers += len(hostile) or right
    cost.killed += group.killed
    cost.errors += group.errors
    cost.rewards.update(group.rewards[: len(hostile) or right])
    cost.wrong += sum(reward < FULL_ANSWER for reward in group.rewards[-right:])


@contextmanager
def peak_memory(mark: str) -> Iterator[list[float]]:
    """The most that all descendants together had resident at one of the looks, twenty a second; MB."""
    peak, stop = [0.0], threading.Event()

    def look() -> None:
        while not stop.wait(0.05):
            peak[0] = max(peak[0], sum(map(resident_mb, descendants(mark))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def processor_s(pid: int) -> float:
    """Seconds that a process and its reaped children have worked."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _table(costs: dict[str, Costs], peak: float, grown: float, left: int, planted: int) -> str:
    lines = ["kind            answers  killed  errors  s/answer  rewards"]
    for kind, cost in costs.items():
        rewards = ", ".join(f"{reward:g} x {number}" for reward, number in sorted(cost.rewards.items()))
        each = cost.seconds / max(1, cost.answers)
        lines.append(f"{kind:15} {cost.answers:7} {cost.killed:7} {cost.errors:7} {each:9.3f}  {rewards}")
    lines += [
        f"hostile answers {sum(cost.answers for kind, cost in costs.items() if kind != 'honest')}",
        f"honest answers scored wrong {sum(cost.wrong for cost in costs.values())}",
        f"memory of all scoring processes at most {peak:.0f} MB (limit {MOST_MB:.0f}); the server {grown:+.1f} MB",
        f"processes left {left}, files planted {planted}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
