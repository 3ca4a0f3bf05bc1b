"""Every dataset of the installed reasoning-gym, asked as a task of a run: does it work, what does it cost, how hard.

    python -m benchmarks.gym_datasets [DATASET...] [--questions 24] [--levels] [--markdown]

Each goes through two real scorers, as of two nodes. The first makes the questions, the second makes them again in
another order; they have to be equal bit for bit, metadata included. The questions' own answers are scored: `own` is
the share that earns 1.0. Where a dataset has no single answer, the example in its metadata is scored, if it has one.
Milliseconds are a node's, with the fork of a bounded child. `--levels` starts a scorer for each level of difficulty.
Where the library's own sizes are refused, SMALLER ones are measured.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import structlog

from benchmarks.common import arguments_of, keep
from swarm.config.task_table import newest
from swarm.errors import ConfigError, ProtocolError
from swarm.tasks.answer import ANSWER_LIMIT, key_of
from swarm.tasks.bounded import Limits
from swarm.tasks.definitions import Parameters, profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.names import REFUSED, modules
from swarm.tasks.scoring import FULL_ANSWER, Scorer
from swarm.types import Question

SMALLER: dict[str, dict[str, Any]] = {
    "futoshiki": {"max_board_size": 6},
    "knight_swap": {"min_nodes": 9, "min_pieces": 1, "max_pieces": 1},
    "sokoban": {"max_w": 7, "max_h": 7},
}
"""Dataset -> parameters at which it can be asked, where the library's own cannot. Boards of few squares take the
longer in `knight_swap`: it draws until one is connected and can be solved."""
EXAMPLES = frozenset({"graph_color", "propositional_logic", "rubiks_cube"})
"""Datasets without a single answer, whose metadata has one."""
LIMITS = Limits(wall_s=60.0)


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found of one dataset."""

    dataset: str
    parameters: dict[str, Any] = {}
    questions: int = 0
    same: int = 0
    """Questions that another process made again, bit for bit."""
    own: float | None = None
    """Share of the questions whose own answer, or example, earns 1.0; None where there is neither."""
    too_long: int = 0
    """Questions whose own answer is longer than an answer may be."""
    make_ms: float = 0.0
    score_ms: float = 0.0
    levels: str = ""
    refused: str = ""

    @property
    def works(self) -> bool:
        """It can be a task: reproducible, and each question can be answered as far as is known."""
        return not self.refused and self.questions == self.same


async def examine(dataset: str, questions: int) -> Row:
    """At the library's own sizes, or where these are refused at smaller ones."""
    for parameters in [{}, SMALLER[dataset]] if dataset in SMALLER else [{}]:
        try:
            return await _measured(dataset, parameters, questions)
        except (ConfigError, ProtocolError) as error:  # by a first question, on a faster machine by a later one
            refused = str(error)
    return Row(dataset, refused=refused.removeprefix(f"[tasks.{dataset}]: "))


async def _measured(dataset: str, parameters: Parameters, questions: int) -> Row:
    tasks = {dataset: newest(parameters)}
    profile = profile_of(dataset, tasks[dataset])
    requests = [QuestionRequest(dataset, profile, 7_919 * n + 1, 3 if n % 4 == 3 else 0) for n in range(questions)]
    async with Scorer(1, tasks=tasks, limits=LIMITS) as one, Scorer(1, tasks=tasks, limits=LIMITS) as other:
        made, make_ms = await _timed([lambda request=request: one.make([request]) for request in requests])
        first = [question for (question,) in made]
        again = (await other.make(requests[::-1]))[::-1]
        known = [
            (question, own) for question in first if (own := key_of(question.answer, question.metadata)) is not None
        ]
        short = [(question, own) for question, own in known if len(own) <= ANSWER_LIMIT]
        scored, score_ms = await _timed(
            [lambda q=q, own=own: one.score(q.origin, q.prompt, [f"<answer>{own}</answer>"]) for q, own in short]
        )
    right = [group.rewards[0] >= FULL_ANSWER for group in scored]
    return Row(
        dataset,
        dict(parameters),
        questions,
        sum(map(_equal, first, again)),
        sum(right) / len(right) if right else None,
        len(known) - len(short),
        make_ms,
        score_ms,
    )


def _equal(one: Question, other: Question) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)


async def _timed(calls: Sequence[Any]) -> tuple[list[Any], float]:
    """Results, and the median of the milliseconds."""
    results, taken = [], []
    for call in calls:
        begun = time.perf_counter()
        results.append(await call())
        taken.append(1e3 * (time.perf_counter() - begun))
    return results, statistics.median(taken) if taken else 0.0


async def levels(dataset: str) -> str:
    """Those that can be asked, as `0-3`; `-` where the dataset has none."""
    served = []
    for level in range(100):
        try:
            async with Scorer(1, tasks={dataset: newest({"level": level})}, limits=LIMITS):
                served.append(level)
        except ConfigError as error:
            if "no difficulty levels" in str(error):
                return "-"
            if "must be a whole number" in str(error):
                break
    return _ranges(served)


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


def markdown(rows: Sequence[Row]) -> str:
    """The table of benchmarks/results/gym_datasets.md."""
    lines = ["| dataset | same | own | make, score | levels | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row.refused:
            lines.append(f"| {row.dataset} | | | | | refused: {row.refused} |")
            continue
        own = "-" if row.own is None else f"{100 * row.own:.0f} %"
        at = ", ".join(f"`{key} = {value}`" for key, value in row.parameters.items())
        notes = [f"at {at}"] if at else []
        notes += [f"{row.too_long} of {row.questions} keys too long"] if row.too_long else []
        cells = (
            f"{row.same}/{row.questions}",
            own,
            f"{row.make_ms:.0f}, {row.score_ms:.0f}" if row.own is not None else f"{row.make_ms:.0f}, -",
            row.levels,
        )
        lines.append(f"| {row.dataset} | {' | '.join(cells)} | {'; '.join(notes)} |")
    return "\n".join(lines)


async def examine_all(datasets: Sequence[str], questions: int, *, with_levels: bool) -> list[Row]:
    """One after another, told as they come."""
    rows = []
    for dataset in datasets:
        row = Row(dataset, refused=REFUSED[dataset]) if dataset in REFUSED else await examine(dataset, questions)
        if with_levels and not row.refused:
            row = msgspec.structs.replace(row, levels=await levels(dataset))
        rows.append(row)
        print(markdown([row]).splitlines()[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure, print and keep the result."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("datasets", nargs="*", help="these alone")
    parser.add_argument("--questions", type=int, default=24, help="of each dataset")
    parser.add_argument("--levels", action="store_true", help="start a scorer for each level")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of benchmarks/results/gym_datasets.md, keep nothing"
    )
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    datasets = arguments.datasets or [*modules()][: 5 if arguments.quick else None]
    rows = anyio.run(lambda: examine_all(datasets, arguments.questions, with_levels=arguments.levels))
    if arguments.markdown:
        print(markdown(rows))
    else:
        keep("gym_datasets", {"datasets": [msgspec.to_builtins(row) for row in rows]}, arguments)


if __name__ == "__main__":
    main()
