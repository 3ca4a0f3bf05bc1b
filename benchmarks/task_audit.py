"""`swarm task audit` over every served dataset of reasoning-gym: what each pays to who does not think.

    python -m benchmarks.task_audit [DATASET...] [--questions 200] [--jobs 1] [--markdown]

Datasets are asked at the library's own sizes, under the scoring of new runs. Where these sizes are refused, the
smaller ones of `benchmarks.gym_datasets` are asked. Each row is kept as soon as it is there. A run that was stopped
goes on with the datasets that have no row of as many questions. `--markdown` prints the table of the page beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec
import structlog

from benchmarks.common import arguments_of, earlier, write
from benchmarks.gym_datasets import LIMITS, SMALLER
from swarm.config.task_table import newest
from swarm.errors import ConfigError, ProtocolError
from swarm.plugins.lab.audit import Audit, Guess, audited
from swarm.plugins.lab.task_audit import QUESTIONS, SEED
from swarm.tasks.definitions import profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.names import REFUSED, modules
from swarm.tasks.scoring import Scorer

NAME = "task_audit"
PATIENCE_S = 3_600.0
"""Longest time of one dataset, in seconds."""
NOT_DONE = "not done in"
"""A dataset that took longer is tried again by the next run, behind all others."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds what was found of one dataset: its audit, or why it was refused."""

    dataset: str
    questions: int
    audit: Audit | None = None
    parameters: dict[str, Any] = {}
    refused: str = ""


async def row_of(dataset: str, questions: int) -> Row:
    """Audits one dataset at the library's own sizes, or where these are refused at smaller ones."""
    refused = ""
    for parameters in [{}, SMALLER[dataset]] if dataset in SMALLER else [{}]:
        try:
            with anyio.fail_after(PATIENCE_S):
                return Row(dataset, questions, await _audit(dataset, newest(parameters), questions), parameters)
        except (ConfigError, ProtocolError, TimeoutError) as error:
            refused = str(error) or f"{NOT_DONE} {PATIENCE_S:.0f} s"
    return Row(dataset, questions, refused=refused)


async def _audit(dataset: str, parameters: Mapping[str, Any], questions: int) -> Audit:
    profile = profile_of(dataset, parameters)
    requests = [QuestionRequest(dataset, profile, seed) for seed in range(SEED, SEED + questions)]
    async with Scorer(1, tasks={dataset: parameters}, limits=LIMITS) as scorer:
        return await audited(dataset, scorer, requests)


async def audit_all(
    datasets: Sequence[str], rows: dict[str, Row], *, questions: int, jobs: int, kept: Callable[[], object]
) -> None:
    """Audits the datasets that have no row of as many questions yet, some at a time.

    Args:
        kept: is called after each, to keep the rows.
    """
    late = {name for name, row in rows.items() if row.refused.startswith(NOT_DONE)}
    new = [name for name in datasets if name not in rows or rows[name].questions != questions]
    left = iter([*new, *(name for name in datasets if name in late and name not in new)])

    async def work() -> None:
        for name in left:
            rows[name] = (
                Row(name, questions, refused=REFUSED[name]) if name in REFUSED else await row_of(name, questions)
            )
            print(_line(rows[name]), file=sys.stderr, flush=True)
            kept()

    async with anyio.create_task_group() as group:
        for _ in range(jobs):
            group.start_soon(work)


def markdown(rows: Sequence[Row]) -> str:
    """The table of benchmarks/results/task_audit_cpu.md: those that pay most for no thought come first."""
    heads = "| dataset | usual key | best constant | from its text | less or more than the key | without meaning |"
    ordered = sorted(rows, key=lambda row: (-_most(row), row.dataset))
    return "\n".join([heads, "|---|---|---|---|---|---|", *map(_line, ordered)])


def _most(row: Row) -> float:
    return -1.0 if row.audit is None else max(row.audit.constant.reward, row.audit.trick.reward)


def _line(row: Row) -> str:
    if row.audit is None:
        return f"| `{row.dataset}` | refused: {row.refused.splitlines()[0]} | | | | |"
    one = row.audit
    return " | ".join(
        (
            f"| `{row.dataset}`",
            "-" if one.usual is None else f"{one.usual.reward:.3f}",
            _shown(one.constant),
            _shown(one.trick),
            "-" if one.scrap is None else _shown(one.scrap),
            f"{one.meaningless} |",
        )
    )


def _shown(guess: Guess) -> str:
    how = " ".join(guess.how.replace("|", "\\|").replace("`", "'").split())
    return f"{guess.reward:.3f}" + (f" `{how[:24]}`" if guess.reward else "")


def main() -> None:
    """Audit, keep the rows and print the table."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("datasets", nargs="*", help="these alone")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each dataset")
    parser.add_argument("--jobs", type=int, default=1, help="datasets at a time")
    parser.add_argument("--markdown", action="store_true", help="print the table of what is kept; audit nothing")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    rows = msgspec.convert(earlier(NAME, arguments).get("datasets", {}), dict[str, Row])
    if not arguments.markdown:
        questions = 20 if arguments.quick else arguments.questions
        datasets = arguments.datasets or [*modules()][: 2 if arguments.quick else None]

        def keep() -> None:
            write(NAME, {"datasets": msgspec.to_builtins(rows)}, arguments)

        anyio.run(lambda: audit_all(datasets, rows, questions=questions, jobs=arguments.jobs, kept=keep))
    print(markdown([*rows.values()]))


if __name__ == "__main__":
    main()
