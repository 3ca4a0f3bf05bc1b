"""`swarm task audit` over every served dataset of reasoning-gym: what each pays to who does not think.

    python -m benchmarks.task_audit [DATASET...] [--questions 200] [--jobs 1] [--markdown]

Datasets are asked at the library's own sizes, under the scoring of new runs. Where these sizes are refused, the
smaller ones of `benchmarks.gym_datasets` are asked. Each row is kept as soon as it is there. A run that was stopped
goes on with the datasets that have no row of as many questions. `--markdown` prints the table of docs/tasks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import structlog

from benchmarks.common import RESULTS, arguments_of, command, machine
from benchmarks.gym_datasets import LIMITS, SMALLER
from swarm.config.task_table import newest
from swarm.errors import ConfigError, ProtocolError
from swarm.tasks.audit import Audit, Auditor, Guess
from swarm.tasks.definitions import profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.names import REFUSED, modules
from swarm.tasks.scoring import Scorer

SEED, AT_ONCE = 5_000, 32
PATIENCE_S = 3_600.0
"""Longest time of one dataset."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds what was found of one dataset: its audit, or why it was refused."""

    dataset: str
    questions: int
    audit: Audit | None = None
    parameters: dict[str, Any] = {}
    refused: str = ""


class Rows(msgspec.Struct):
    """Is the result file, written anew after each dataset."""

    benchmark: str = "task_audit"
    command: str = ""
    machine: dict[str, Any] = {}
    datasets: dict[str, Row] = {}


async def audited(dataset: str, questions: int) -> Row:
    """Audits one dataset at the library's own sizes, or where these are refused at smaller ones."""
    refused = ""
    for parameters in [{}, SMALLER[dataset]] if dataset in SMALLER else [{}]:
        try:
            with anyio.fail_after(PATIENCE_S):
                return Row(dataset, questions, await _audit(dataset, newest(parameters), questions), parameters)
        except (ConfigError, ProtocolError, TimeoutError) as error:
            refused = str(error) or f"not done in {PATIENCE_S:.0f} s"
    return Row(dataset, questions, refused=refused)


async def _audit(dataset: str, parameters: Mapping[str, Any], questions: int) -> Audit:
    profile = profile_of(dataset, parameters)
    requests = [QuestionRequest(dataset, profile, seed) for seed in range(SEED, SEED + questions)]
    async with Scorer(1, tasks={dataset: parameters}, limits=LIMITS) as scorer:
        asked = [
            question
            for start in range(0, questions, AT_ONCE)
            for question in await scorer.make(requests[start : start + AT_ONCE])
        ]
        return await Auditor(scorer, asked).audit(dataset)


async def audit_all(datasets: Sequence[str], rows: Rows, file: Path | None, *, questions: int, jobs: int) -> None:
    """Audits the datasets that have no row yet, some at a time."""
    left = iter([name for name in datasets if name not in rows.datasets or rows.datasets[name].questions != questions])

    async def work() -> None:
        for name in left:
            rows.datasets[name] = (
                Row(name, questions, refused=REFUSED[name]) if name in REFUSED else await audited(name, questions)
            )
            print(_line(rows.datasets[name]), file=sys.stderr, flush=True)
            if file is not None:
                await anyio.Path(file).write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")

    async with anyio.create_task_group() as group:
        for _ in range(jobs):
            group.start_soon(work)


def markdown(rows: Sequence[Row]) -> str:
    """The table of docs/tasks.md: those that pay most for no thought come first."""
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
    parser.add_argument("--questions", type=int, default=200, help="of each dataset")
    parser.add_argument("--jobs", type=int, default=1, help="datasets at a time")
    parser.add_argument("--markdown", action="store_true", help="print the table of what is kept; audit nothing")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder = arguments.output or (None if arguments.quick else RESULTS)
    file = folder / "task_audit_cpu.json" if folder else None
    rows = msgspec.json.decode(file.read_bytes(), type=Rows) if file and file.exists() else Rows()
    if not arguments.markdown:
        rows.command, rows.machine = command(), machine()
        questions = 20 if arguments.quick else arguments.questions
        datasets = arguments.datasets or [*modules()][: 2 if arguments.quick else None]
        anyio.run(lambda: audit_all(datasets, rows, file, questions=questions, jobs=arguments.jobs))
    print(markdown(list(rows.datasets.values())))


if __name__ == "__main__":
    main()
