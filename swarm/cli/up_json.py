"""`swarm up --json`: a line for each round (swarm.cli.progress.UpRound) and one at the end, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress

import msgspec

from swarm.cli.local_swarm import LocalSwarm
from swarm.wire.messages import MetricsRow

Emit = Callable[[msgspec.Struct], None]
"""Writes one line of JSON."""


class UpEnd(msgspec.Struct, frozen=True, tag="end", tag_field="kind"):
    """The last line of `swarm up --json`."""

    exit_code: int
    """Of the command."""
    finished: bool
    """The experiment has all its rounds."""
    rounds_done: int
    """Rounds that are over for one of its workers at least."""
    max_rounds: int
    """Rounds that there are to be."""
    cumulative_reward: float
    """Of its workers, over all rounds."""
    again: str
    """The command that goes on."""


@contextmanager
def lines_of_json(wanted: bool) -> Iterator[Emit | None]:
    """Keeps all but JSON off the standard output: what is said to people goes to the standard error meanwhile."""
    if not wanted:
        yield None
        return
    out = sys.stdout

    def emit(line: msgspec.Struct) -> None:
        with suppress(OSError):  # a reader that went away must not end a swarm of days
            out.write(msgspec.json.encode(line).decode() + "\n")
            out.flush()

    with redirect_stdout(sys.stderr):
        yield emit


def end_of(rows: dict[str, list[MetricsRow]], swarm: LocalSwarm, again: str, code: int, *, done: bool) -> UpEnd:
    """Sums up the rows of this swarm's workers at the end; those of others are left out."""
    settings, own = swarm.settings, [rows[name] for name in swarm.worker_names if rows.get(name)]
    ended = [row.round for of_node in own for row in of_node if row.round < settings.max_rounds]
    return UpEnd(
        exit_code=code,
        finished=done,
        rounds_done=max(ended, default=-1) + 1,
        max_rounds=settings.max_rounds,
        cumulative_reward=sum(of_node[-1].cumulative_reward for of_node in own),
        again=f"{again} --rounds {2 * settings.max_rounds if done else settings.max_rounds}",
    )
