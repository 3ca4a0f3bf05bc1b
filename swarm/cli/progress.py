"""What `swarm up` shows while a swarm runs: a line per round, and every warning with the name of its node."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import anyio

from swarm.cli.say import say
from swarm.config import Settings
from swarm.errors import SwarmError
from swarm.records.growing import Growing
from swarm.records.listing import nodes_with_logs
from swarm.records.rows import parse_row
from swarm.records.stream import EventStream, Wanted
from swarm.store.run import Run
from swarm.views.events import render
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

REFRESH_SECONDS = 0.5


class Progress:
    """Follows metrics and events."""

    def __init__(self, run: Run, settings: Settings, workers: int) -> None:
        self._run = run
        self._settings = settings
        self._workers = workers
        self._spread = settings.staleness_window if settings.clock == "own" else 0
        """Rounds by which workers may be apart without any of them being late."""
        self._growing: dict[str, Growing] = {}
        self._rounds: dict[int, dict[str, MetricsRow]] = {}
        self._shown = -1
        self._warnings = EventStream(run, Wanted(level="warning"))
        self._forget_what_was()

    def _forget_what_was(self) -> None:
        """An experiment that goes on shows what is new."""
        self._shown = max((row.round for _, row in self._new_rows()), default=-1)
        self._warnings.read()

    async def show(self) -> None:
        """Show what comes, until cancelled."""
        while True:
            await anyio.sleep(REFRESH_SECONDS)
            try:
                self.show_new(wait_for_all=True)
            except SwarmError as error:  # a view that fails for a moment must not end what it looks at
                say(f"progress: {error}")

    def show_new(self, *, wait_for_all: bool = False) -> None:
        """Print the rounds that are over and the warnings since the last call.

        Args:
            wait_for_all: hold a round back until every worker has it, or a later one has begun to come in: on clocks
                of their own, one that is later by more than the window.
        """
        for line in render(self._warnings.read()):
            say(line)
        for node, row in self._new_rows():
            self._rounds.setdefault(row.round, {})[node] = row
        newest = max(self._rounds, default=-1)
        for number in sorted(self._rounds):
            if wait_for_all and number >= newest - self._spread and len(self._rounds[number]) < self._workers:
                return
            rows = self._rounds.pop(number)
            if number > self._shown:
                self._shown = number
                say(self._line(number, list(rows.values())))

    def _new_rows(self) -> Iterator[tuple[str, MetricsRow]]:
        for node in nodes_with_logs(self._run):
            growing = self._growing.setdefault(node, Growing(self._run.store, keys.metrics(node)))
            lines = (line for part in growing.look() for line in part.records)
            yield from ((node, row) for line in lines if (row := parse_row(line, MetricsRow)))

    def _line(self, number: int, rows: list[MetricsRow]) -> str:
        rewards, tagged = [row.my_reward for row in rows], [row.answer_tag_rate for row in rows]
        given = f"{sum(rewards) / sum(tagged):.3f}" if sum(tagged) > 0 else "-"
        external = sum(row.external_groups for row in rows)
        wanted = sum(row.external_wanted for row in rows)
        return (
            f"round {number + 1:>4}/{self._settings.max_rounds}  reward {fmean(rewards):.3f} "
            f"({min(rewards):.3f} to {max(rewards):.3f})  tagged {fmean(tagged):4.0%} x {given:5}  "
            f"external {external}/{wanted}  {max(row.seconds_round for row in rows):.1f} s  {len(rows)} nodes"
        )
