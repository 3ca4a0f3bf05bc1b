"""Run a study: keep as many swarms going as there are places, until every run is finished or has failed.

    StudyRecord ─▶ Schedule ─which is next─▶ Launcher ─▶ `swarm up` ... ─▶ experiments/{experiment}/
                      ▲                                                          │
                      └──── ended ◀── programs, and what the folder says ◀───────┘──▶ StudyView ─▶ terminal

A run that a kill -9 left half done goes on when its turn comes: its nodes redo what they had not saved. Only where that
cannot be done is it set aside and begun anew (`can_go_on` in run_folder.py, `_set_aside` in launch.py). A swarm that
outlived its study is waited for (`elsewhere` in schedule.py); so are jobs of a cluster, which are meant to.

One process per study: the lock on its folder goes with the process, however that ends. And one thread: it reads a few
small files four times a second, and what swarm.plugins.study.run.launch asks of the kernel holds for each thread.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from swarm.errors import SwarmError
from swarm.plugins.study.record import STUDIES, WRITER, RunRecord, StudyRecord, open_run
from swarm.plugins.study.run.launch import Launcher
from swarm.plugins.study.run.run_folder import RunProgress, read_progress
from swarm.plugins.study.run.schedule import OVER, RunState, Schedule, seconds_left
from swarm.programs import Program
from swarm.records.reader import RunReader, snapshot
from swarm.store.place import open_place
from swarm.store.run import Run

POLL_SECONDS = 0.25
JUDGE_PATIENCE = 60.0
"""Seconds that a judge may go on after its swarm, to write down the last answers."""


@dataclass(frozen=True)
class RunView:
    """One run, to be shown."""

    run: RunRecord
    state: RunState
    progress: RunProgress
    problem: str = ""
    """Why it could not be started, how it failed, or what is missing of a finished one."""
    note: str = ""
    """What is to be known of it while it runs, such as what its job waits for."""


@dataclass(frozen=True)
class StudyView:
    """A study at one moment."""

    record: StudyRecord
    runs: tuple[RunView, ...]
    seconds_left: float | None

    @property
    def rounds_done(self) -> int:
        return sum(min(run.progress.rounds_done, self.record.rounds) for run in self.runs)

    def those(self, state: RunState) -> list[RunView]:
        """Returns the runs in a state."""
        return [run for run in self.runs if run.state is state]


@dataclass
class _Running:
    """A run with programs of ours."""

    swarm: Program
    started: float
    rounds_before: int
    judge: Program | None = None
    swarm_ended: float | None = None

    @property
    def programs(self) -> list[Program]:
        """Returns the programs that still run."""
        return [program for program in (self.swarm, self.judge) if program and program.poll() is None]


class Runner:
    """Owns the programs of one `study run`."""

    def __init__(
        self,
        launcher: Launcher,
        jobs: int,
        *,
        is_live: Callable[[Run], bool],
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`is_live` tells whether any node of an experiment is running, started by whomever."""
        self._launcher = launcher
        self._record, self._path = launcher.record, launcher.path
        self._jobs = jobs
        self._live_nodes = is_live
        self._monotonic, self._wall = monotonic, wall
        self._runs = {run.experiment: run for run in self._record.runs}
        self._readers = {name: RunReader(self._open(name)) for name in self._runs}
        self._progress = {name: read_progress(reader) for name, reader in self._readers.items()}
        self._running: dict[str, _Running] = {}
        self._problems: dict[str, str] = {}
        self._rounds, self._seconds = 0, 0.0
        """Rounds that this study saw done, and for how long its runs ran."""
        self._stopping = self._left = False
        finished = {name for name in self._runs if self._finished(name) and snapshot(self._open(name)).is_saved}
        live = {name for name in self._runs if name not in finished and self._is_live(name)}
        self._schedule = Schedule(list(self._runs), jobs, finished=finished, elsewhere=live)

    async def run(self, watch: Callable[[StudyView], None]) -> StudyView:
        """Run until every run is finished or has failed, or all have stopped; `watch` sees each look at them."""
        while not self._schedule.over and not self._left:
            for name in self._schedule.start_next():
                self._start(name)
            self._look()
            self._start_judges()
            self._notice_ends()
            watch(self.view())
            await anyio.sleep(POLL_SECONDS)
        return self.view()

    def stop(self) -> None:
        """Start nothing more, and ask every swarm to finish its step, save and end; those that outlive us go on."""
        self._stopping = True
        self._schedule.stop()
        if self._launcher.backend.stays:
            self._left = True
        else:
            self._signal(signal.SIGTERM)

    def insist(self) -> None:
        """Swarms that are asked a second time end at once; a second SIGTERM would be the first one again."""
        if not self._launcher.backend.stays:
            self._signal(signal.SIGINT)

    def view(self) -> StudyView:
        """Returns all runs as last looked at."""
        runs = tuple(
            RunView(
                run, self._schedule.states[name], self._progress[name], self._problems.get(name, ""), self._note(name)
            )
            for name, run in self._runs.items()
        )
        return StudyView(self._record, runs, self._seconds_left())

    def _note(self, name: str) -> str:
        return self._running[name].swarm.note() if name in self._running else ""

    def _start(self, name: str) -> None:
        try:
            swarm = self._launcher.start(self._runs[name], self._wall())
        except (SwarmError, OSError) as error:  # the boundary of one run: the others go on
            self._problems[name] = str(error)
            self._schedule.ended(name, finished=False)
            return
        self._readers[name] = RunReader(self._open(name))  # the run may have been set aside
        self._progress[name] = read_progress(self._readers[name])
        self._running[name] = _Running(swarm, self._monotonic(), self._progress[name].rounds_done)

    def _start_judges(self) -> None:
        """A judge leaves an experiment that is finished, so one that is to go on must have been opened again."""
        for name, running in self._running.items() if self._record.judged else ():
            if running.judge is None and not self._progress[name].is_over(rounds=0):
                try:
                    running.judge = self._launcher.start_judge(self._runs[name])
                    self._problems.pop(name, None)
                except (SwarmError, OSError) as error:  # as for a run; it is tried again at the next look
                    self._problems[name] = f"its judge could not be started: {error}"

    def _look(self) -> None:
        for name in [*self._running, *self._schedule.those(RunState.ELSEWHERE)]:
            with suppress(SwarmError):  # a folder that is away for a moment must not end what is in it
                self._progress[name] = read_progress(self._readers[name])

    def _notice_ends(self) -> None:
        for name in self._schedule.those(RunState.ELSEWHERE):
            if not self._is_live(name):
                self._schedule.ended(name, finished=self._finished(name))
        for name, running in list(self._running.items()):
            if self._have_ended(running):
                self._conclude(name, self._running.pop(name))

    def _have_ended(self, running: _Running) -> bool:
        if running.swarm.poll() is None:
            return False
        if running.swarm_ended is None:
            running.swarm_ended = self._monotonic()
        if self._monotonic() - running.swarm_ended > JUDGE_PATIENCE:
            for program in running.programs:
                program.kill()
        return not running.programs

    def _conclude(self, name: str, running: _Running) -> None:
        self._progress[name] = read_progress(self._readers[name])
        self._rounds += self._rounds_seen(name, running)
        self._seconds += self._monotonic() - running.started
        self._schedule.ended(name, finished=self._finished(name))
        if self._schedule.states[name] is RunState.FAILED:
            self._problems[name] = self._why_failed(name, running)
        elif running.judge and running.judge.poll() and not self._stopping:
            self._problems[name] = f"its judge failed: {running.judge.ending()}; judged rounds are missing"

    def _why_failed(self, name: str, running: _Running) -> str:
        if lost := self._progress[name].rounds_lost:
            return f"its nodes lost {lost} updates that could not be redone after a kill; it begins anew next time"
        return running.swarm.ending()

    def _rounds_seen(self, name: str, running: _Running) -> int:
        return max(0, self._progress[name].rounds_done - running.rounds_before)

    def _seconds_left(self) -> float | None:
        now = self._monotonic()
        rounds = self._rounds + sum(self._rounds_seen(name, run) for name, run in self._running.items())
        seconds = self._seconds + sum(now - run.started for run in self._running.values())
        left = [
            max(0, self._record.rounds - self._progress[name].rounds_done)
            for name, state in self._schedule.states.items()
            if state not in OVER
        ]
        return seconds_left(left, rounds / seconds if seconds else 0.0, self._jobs)

    def _signal(self, number: signal.Signals) -> None:
        for running in self._running.values():
            for program in running.programs:
                program.send_signal(number)

    def _is_live(self, name: str) -> bool:
        """Tells whether somebody else has started it: it runs, or its job waits for its turn."""
        return self._launcher.backend.has(str(self._path), name) or self._live_nodes(self._open(name))

    def _finished(self, name: str) -> bool:
        return self._progress[name].is_finished(self._record.rounds)

    def _open(self, name: str) -> Run:
        return open_run(self._path, name)


def alone(path: Path, study: str) -> AbstractContextManager[None]:
    """Be the one process that runs this study, for the block. Raises StoreError as Place.alone does."""
    return open_place(path).alone(f"{STUDIES}/{study}", WRITER)
