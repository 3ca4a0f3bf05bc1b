"""Start one run: an ordinary `swarm up`, after all that it is started with has been written down.

RunRecord ─▶ Launcher ─▶ Backend ─┬ LocalBackend   a process of this machine
                                  └ Elsewhere      a job of a cluster (a plugin's)

A study that is killed cannot ask its swarms to stop, so the kernel does (Linux): they get a SIGTERM, finish their step
and save. Elsewhere they go on, and the next `study run` waits for them. The kernel sends one for each thread of the
study that ends, and a swarm takes a second one for "at once": a process that starts swarms has a single thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

import msgspec

from swarm.children import child_environment, module_command
from swarm.config import Settings, secrets, without_settings
from swarm.config.settings import FIELDS, as_variables
from swarm.errors import ExperimentError, ProtocolError, StoreError
from swarm.lines import LogFile
from swarm.plugins.study.record import STUDIES, WRITER, RunFile, RunRecord, StudyRecord, open_run, run_log
from swarm.plugins.study.run.matrix import run_settings
from swarm.plugins.study.run.run_folder import can_go_on, read_progress
from swarm.programs import Backend, Launch, LogOf, Program
from swarm.provenance import code_digest, model_digests, own_modules, own_plugins
from swarm.records.files import read_form
from swarm.records.listing import entries
from swarm.records.reader import RunReader
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode

SWARM = tuple(module_command("swarm"))
JUDGE = (*SWARM, "judge", "run")
JUDGE_PART = "judge"
"""Part of a run's programs."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Launcher:
    """Starts the runs of one study."""

    record: StudyRecord
    path: Path
    environ: Mapping[str, str]
    """Environment of this process; of the settings in it only secrets reach the runs."""
    versions: Mapping[str, str]
    backend: Backend = field(default_factory=lambda: LocalBackend())
    mirror: str = ""
    """A second place into which each swarm copies itself (`swarm up --mirror`); empty: none."""

    def start(self, run: RunRecord, now: float) -> Program:
        """Start the swarm of a run, or let it go on.

        Args:
            now: Unix seconds.

        Raises:
            ExperimentError: the experiment's folder is not this study's.
            StoreError: the folder cannot be written.
            ClusterError: the cluster does not take it.
        """
        there = open_run(self.path, run.experiment)
        self._refuse_foreign(there)
        if not can_go_on(there):
            for place in filter(None, (str(self.path), self.mirror)):
                self._set_aside(place, run.experiment)
        self._write_down(run, now)
        nodes = str(self.record.nodes_of(run.configuration))
        return self.backend.start(self._launch(run, (*SWARM, "up", "--in-process", "--nodes", nodes)))

    def start_judge(self, run: RunRecord) -> Program:
        """Start the judge of a run, which ends with its experiment."""
        return self.backend.start(self._launch(run, JUDGE, JUDGE_PART))

    def _launch(self, run: RunRecord, command: tuple[str, ...], part: str = "") -> Launch:
        environment = child_environment(self._environment(run))
        log = LogOf(f"{STUDIES}/{self.record.study}", run_log(run.experiment))
        return Launch(command, environment, str(self.path), run.experiment, part, log)

    def _environment(self, run: RunRecord) -> dict[str, str]:
        hidden = {name: self.environ[name] for name in secrets() if name in self.environ}
        settings = replace(run_settings(self.record, run, self.path), mirror=self.mirror or None)
        return {**without_settings(self.environ), **_stated(settings), **hidden}

    def _refuse_foreign(self, there: Run) -> None:
        root = there.store.describe()
        try:
            written = read_form(there.store, keys.STUDY_RUN, RunFile)
        except ProtocolError as error:
            raise StoreError(f"{error}; restore the file, or move {root} away") from None
        if written is None and all(entry.name == keys.DRAFTS for entry in entries(there.store, "")):
            return  # there is nothing, or it was killed while it wrote its first file
        if written is None or written.study != self.record.study:
            raise ExperimentError(
                f"{root} was not made by study {self.record.study!r}: choose another --name, or move it away"
            )

    def _set_aside(self, path: str, experiment: str) -> None:
        """Moves a run that lost updates where nothing reads it, so that the run begins anew."""
        place, aside = open_place(path), f"studies/{self.record.study}/interrupted"
        if not place.has(experiment):
            return
        taken = {entry.name for entry in entries(place.beside(aside), "")}
        number = next(n for n in range(1, len(taken) + 2) if f"{experiment}-{n}" not in taken)
        place.move(experiment, f"{aside}/{experiment}-{number}")

    def _write_down(self, run: RunRecord, now: float) -> None:
        there = open_run(self.path, run.experiment)
        started = run_settings(self.record, run, self.path)
        settings = started.as_recorded()
        file = RunFile(
            study=self.record.study,
            configuration=run.configuration,
            seed=run.seed,
            experiment=run.experiment,
            nodes=self.record.nodes_of(run.configuration),
            rounds=self.record.rounds,
            started_at=now,
            settings=settings,
            judged=self.record.judged,
            versions=dict(self.versions),
            code=code_digest(own_modules(started), judged=self.record.judged, plugins=own_plugins(started)),
            models=model_digests(settings["model"]),
        )
        there.store.put(keys.STUDY_RUN, encode(_as_one(file, there)))


def _as_one(file: RunFile, there: Run) -> RunFile:
    """A run that was begun with other code, models or libraries is the work of neither."""
    before = read_form(there.store, keys.STUDY_RUN, RunFile)
    if before is None or not read_progress(RunReader(there)).rounds_done:
        return file
    same = all(getattr(before, name) == getattr(file, name) for name in ("code", "models", "versions"))
    return file if same else msgspec.structs.replace(file, code="")


def _stated(settings: Settings) -> dict[str, str]:
    """Variables for every setting that has a value: `swarm up` has defaults of its own for what is left out.

    Raises:
        ConfigError: the record was read in a place, and names code.
    """
    values = {name: settings.value(name) for name in FIELDS}
    return as_variables({name: value for name, value in values.items() if value is not None})


class LocalProgram(Popen[bytes]):
    """A process of this machine."""

    def ending(self) -> str:
        """Returns its exit code in words."""
        return f"exit code {self.returncode}"

    def note(self) -> str:
        """Says nothing while it runs."""
        return ""


class LocalBackend:
    """Processes of this machine, which end with us."""

    stays = False

    def start(self, launch: Launch) -> LocalProgram:
        """Start one. Raises StoreError: its log cannot be written."""
        assert launch.log is not None
        store = open_place(launch.place).beside(launch.log.folder, WRITER)
        with closing(store.open_log(launch.log.key)) as log:
            return start_with_us(launch.command, launch.environment, log)

    def has(self, place: str, experiment: str) -> bool:
        """Says no: swarms that an earlier study left are seen by their heartbeats."""
        return False


def start_with_us(command: Sequence[str], environment: Mapping[str, str], log: LogFile) -> LocalProgram:
    """Start a process whose output is appended to `log`.

    It is in a session of its own: a Ctrl-C in the terminal is for us to pass on.
    """
    return LocalProgram(
        command,
        env=dict(environment),
        stdin=DEVNULL,
        stdout=log.fileno(),
        stderr=STDOUT,
        start_new_session=True,
        preexec_fn=_end_with(os.getpid()) if sys.platform == "linux" else None,
    )


def _end_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)  # loaded here: between fork and exec as little as possible is done

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before we had asked
            os._exit(128 + signal.SIGTERM)

    return ask_the_kernel
