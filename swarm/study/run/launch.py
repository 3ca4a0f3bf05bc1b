"""Start one run: an ordinary `swarm up`, after all that it is started with has been written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from subprocess import Popen

from swarm.children import child_environment, module_command
from swarm.config import SECRETS, Settings, variable, without_settings
from swarm.errors import ExperimentError, ProtocolError, StoreError
from swarm.records.files import read_form
from swarm.records.listing import entries
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.study.record import RunFile, RunRecord, StudyRecord, log_file, open_run
from swarm.study.run.matrix import as_recorded, run_settings
from swarm.study.run.process import start_with_us
from swarm.study.run.run_folder import can_go_on
from swarm.wire import keys
from swarm.wire.codec import encode

SWARM = tuple(module_command("swarm"))
JUDGE = (*SWARM, "judge", "run")


@dataclass(frozen=True)
class Launcher:
    """Starts the runs of one study."""

    record: StudyRecord
    path: Path
    environ: Mapping[str, str]
    """Of this process; of the settings in it only secrets reach the runs."""
    versions: Mapping[str, str]

    def start(self, run: RunRecord, now: float) -> Popen[bytes]:
        """Start the swarm of a run, or let it go on.

        Args:
            now: Unix seconds.

        Raises:
            ExperimentError: the experiment's folder is not this study's.
            StoreError: the folder cannot be written.
        """
        there = open_run(self.path, run.experiment)
        self._refuse_foreign(there)
        if not can_go_on(there):
            self._set_aside(run.experiment)
        self._write_down(run, now)
        return self._process(run, *SWARM, "up", "--in-process", "--nodes", str(self.record.nodes))

    def start_judge(self, run: RunRecord) -> Popen[bytes]:
        """Start the judge of a run, which ends with its experiment."""
        return self._process(run, *JUDGE)

    def _process(self, run: RunRecord, *command: str) -> Popen[bytes]:
        return start_with_us(
            command, child_environment(self._environment(run)), log_file(self.path, self.record.study, run.experiment)
        )

    def _environment(self, run: RunRecord) -> dict[str, str]:
        secrets = {name: self.environ[name] for name in SECRETS if name in self.environ}
        return {**without_settings(self.environ), **_stated(run_settings(self.record, run, self.path)), **secrets}

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

    def _set_aside(self, experiment: str) -> None:
        """What a killed run left is kept where nothing reads it, and the run begins anew."""
        place, aside = open_place(self.path), f"studies/{self.record.study}/interrupted"
        taken = {entry.name for entry in entries(place.beside(aside), "")}
        number = next(n for n in range(1, len(taken) + 2) if f"{experiment}-{n}" not in taken)
        place.move(experiment, f"{aside}/{experiment}-{number}")

    def _write_down(self, run: RunRecord, now: float) -> None:
        file = RunFile(
            study=self.record.study,
            configuration=run.configuration,
            seed=run.seed,
            experiment=run.experiment,
            nodes=self.record.nodes,
            rounds=self.record.rounds,
            started_at=now,
            settings=as_recorded(run_settings(self.record, run, self.path)),
            judged=self.record.judged,
            versions=dict(self.versions),
        )
        open_run(self.path, run.experiment).store.put(keys.STUDY_RUN, encode(file))


def _stated(settings: Settings) -> dict[str, str]:
    """Variables for every setting that has a value: `swarm up` has defaults of its own for what is left out."""
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return {
        variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None
    }
