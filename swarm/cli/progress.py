"""What `swarm up` shows while a swarm runs: who loads what, a line per round, every warning with its node, and the end.

metrics ─▶ rounds that are over ─┬▶ lines for people                  a view that fails is said once, with its type
events ──▶ models, warnings ─────┘                                    and place, and the nodes go on
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean

import anyio
import msgspec

from swarm import forms
from swarm.cli.local_swarm import LocalSwarm
from swarm.cli.say import say
from swarm.records.first_round import advice, first_round, pace_line
from swarm.records.growing import GrowingLines
from swarm.records.pace import StepPace
from swarm.records.round_forecast import RoundForecast, slowest
from swarm.records.stream import Event, EventStream, WantedEvents
from swarm.records.table import measured, parse_row
from swarm.store.run import Run
from swarm.views.events import render
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

REFRESH_SECONDS = 0.5
SPARING_SECONDS = 60.0
"""Where each request is paid for: between two looks at what nodes logged. Rows are read when one says something."""
FORECAST = "round.forecast"
"""Event of each worker, of which one line is made."""
SHOWN = (WantedEvents(event="model.*", level="info"), WantedEvents(level="warning"))


class Surviving:
    """Remembers which failures were said."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    @contextmanager
    def view(self, what: str) -> Iterator[None]:
        """Any failure of the block ends the block alone; one of the same type and place is said once.

        Args:
            what: the view, as people call it.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the nodes' work is worth more than its picture
            frame = traceback.extract_tb(error.__traceback__)[-1]
            failure = (type(error).__name__, f"{Path(frame.filename).name}:{frame.lineno}")
            if failure not in self._said:
                self._said.add(failure)
                say(f"{what} failed, the nodes go on: {failure[0]} at {failure[1]}: {str(error)[:500]}")


def round_line(number: int, max_rounds: int, rows: Sequence[MetricsRow]) -> str:
    """Returns a round that is over, as its rows have it, as a line for people."""
    rows = measured(rows) or rows
    rewards, tagged = [row.my_reward for row in rows], [row.answer_tag_rate for row in rows]
    given = f"{sum(rewards) / sum(tagged):.3f}" if sum(tagged) > 0 else "-"
    external, wanted = sum(row.external_groups for row in rows), sum(row.external_wanted for row in rows)
    return (
        f"round {number:>4}  {number + 1:>{len(str(max_rounds))}}/{max_rounds} done  "
        f"reward {fmean(rewards):.3f} ({min(rewards):.3f} to {max(rewards):.3f})  "
        f"tagged {fmean(tagged):4.0%} x {given:5}  external {external}/{wanted}  "
        f"{max(row.seconds_round for row in rows):.1f} s  {len(rows)} nodes"
    )


async def short_pause() -> None:
    await anyio.sleep(REFRESH_SECONDS)


def stopping_line(pace: StepPace) -> str:
    return f"stopping: every node finishes its step and saves ({pace}); Ctrl-C once more ends them at once"


class UpProgress:
    """Follows metrics and events of the nodes of one `swarm up`; what others log is in `swarm status` and `logs`.

    Where each request is paid for a look at the rows comes when one of the nodes has said something, and one at what
    they logged every SPARING_SECONDS.
    """

    def __init__(
        self,
        run: Run,
        swarm: LocalSwarm,
        surviving: Surviving | None = None,
        pause: Callable[[], Awaitable[None]] = short_pause,
    ) -> None:
        """Make one that shows what is new from now on.

        Args:
            pause: waits until it is time to look again.
        """
        self._run = run
        self._pause = pause
        self._logs_read_at = -math.inf
        self._workers = swarm.worker_names
        self._settings = settings = swarm.settings
        self._spread = settings.staleness_window if settings.clock == "own" else 0
        """Rounds by which workers may be apart without any of them being late."""
        self._growing: dict[str, GrowingLines] = {}
        self._rounds: dict[int, dict[str, MetricsRow]] = {}
        self._shown: set[int] = set()
        self._foreseen = False
        """It was said what the first round that came says of the others."""
        self._forecasts: dict[str, RoundForecast] = {}
        """Worker -> what it said of its rounds, until that was said here."""
        self.pace = StepPace()
        """Of the steps of all nodes."""
        self._events = EventStream(run, WantedEvents(frozenset(swarm.names), level="info"))
        self._surviving = surviving or Surviving()
        with self._surviving.view("progress"):
            self._forget_what_was()

    def _forget_what_was(self) -> None:
        """An experiment that goes on shows what is new."""
        self._shown.update(row.round for _, row in self._new_rows())
        self._events.read_last(0)

    async def show(self) -> None:
        """Show what comes, until cancelled."""
        while True:
            await self._pause()
            self.show_new(wait_for_all=True)

    def show_new(self, *, wait_for_all: bool = False) -> None:
        """Shows what is new; where _show_new fails, the swarm goes on."""
        with self._surviving.view("progress"):
            self._show_new(wait_for_all)

    def _show_new(self, wait_for_all: bool) -> None:
        """Print the rounds that are over and the warnings since the last call.

        Args:
            wait_for_all: hold a round back until every worker has it, or a later one has begun to come in: on clocks
                of their own, one that is later by more than the window.
        """
        if not (wait_for_all and self._settings.sparing) or time.monotonic() - self._logs_read_at >= SPARING_SECONDS:
            self._show_logged()
        for node, row in self._new_rows():
            self._rounds.setdefault(row.round, {})[node] = row
        newest = max(self._rounds, default=-1)
        for number in sorted(self._rounds):
            if wait_for_all and number >= newest - self._spread and len(self._rounds[number]) < len(self._workers):
                return
            rows = self._rounds.pop(number)
            if number not in self._shown:
                self._shown.add(number)
                for row in rows.values():
                    self.pace.observe(row)
                say(round_line(number, self._settings.max_rounds, list(rows.values())))
                self._foresee(number, list(rows.values()))

    def _foresee(self, number: int, rows: Sequence[MetricsRow]) -> None:
        """Once, after the first round that is shown."""
        left = self._settings.max_rounds - number - 1
        if self._foreseen or left < 1 or not (found := first_round(rows, left, self._settings.generations)):
            return
        self._foreseen = True
        say(pace_line(found))
        if number == 0 and (what_to_do := advice(found, self._settings.model, experiment=self._settings.experiment)):
            say(what_to_do)

    def _show_logged(self) -> None:
        """Shows who loads what, and every warning."""
        self._logs_read_at = time.monotonic()
        events = self._events.read()
        for line in render(
            [event for event in events if event.event != FORECAST and any(w.takes(event) for w in SHOWN)]
        ):
            say(line)
        self._forecast([event for event in events if event.event == FORECAST])

    def _forecast(self, events: Sequence[Event]) -> None:
        """Says how long a round of the slowest worker takes, once all of them have said it, and no round is over."""
        for event in events:
            with suppress(msgspec.DecodeError):
                self._forecasts[event.node] = forms.decode(event.line, RoundForecast)
        if self._foreseen or not self._forecasts.keys() >= {*self._workers}:
            return
        found = slowest(self._forecasts.values())
        self._forecasts.clear()
        say("\n".join(filter(None, (found.line, found.earned_line(self._settings.model, self._settings.experiment)))))

    def _new_rows(self) -> Iterator[tuple[str, MetricsRow]]:
        for node in self._workers:
            growing = self._growing.setdefault(node, GrowingLines(self._run.store, keys.metrics(node)))
            lines = (line for part in growing.look() for line in part.records)
            rows = (row for line in lines if (row := parse_row(line, MetricsRow)))
            last = self._settings.max_stages - 1
            yield from ((node, row) for row in rows if row.round < self._settings.max_rounds and row.stage == last)
