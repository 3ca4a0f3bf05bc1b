"""The record of a study, `{path}/studies/{study}/study.json`: its configurations, seeds and runs.

    Matrix ─▶ StudyRecord ─▶ study.json        written before the first run, read by everything that looks afterwards
                 └ runs ─▶ experiments/{experiment}/   each an ordinary experiment of the same shared folder

So a study needs no database: its results are the folders of its runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from swarm.config import EXPERIMENT_NAME
from swarm.errors import ExperimentError, ProtocolError
from swarm.records.files import read_form
from swarm.records.listing import entries
from swarm.spelling import did_you_mean, named
from swarm.store.base import Kind, Store
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode

SCHEMA_VERSION = 1
STUDIES = "studies"
RECORD = "study.json"
WRITER = "study"
LARGEST_RECORD = 16 * 1024 * 1024
"""Bytes; a run takes some hundred of them."""
TESTS = ("welch", "paired", "zero")
"""`welch`: Welch's t-test of two independent means; `paired`: Student's t-test of the differences at equal seeds;
`zero`: Student's t-test of one mean against 0, without a baseline."""


FolderName = Annotated[str, msgspec.Meta(pattern=f"^(?:{EXPERIMENT_NAME.pattern})\\Z")]
"""Name of an experiment or study: whoever writes a record names nothing outside the shared folder by it."""


class ConfigurationRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One way to train a swarm, run once per seed."""

    name: str
    """Short and unique in the study, such as `4/4`."""
    settings: dict[str, Any] = {}
    """Setting name -> value, on top of the study's own."""
    baseline: str = ""
    """Name of the configuration that this one is compared with; empty for one that is compared with none."""
    group: str = ""
    """What configurations that belong together share, such as their starting model; empty where there is one group."""
    nodes: int | msgspec.UnsetType = msgspec.UNSET
    """Workers of its swarms, where not as many as the study's."""


class DeclaredComparison(msgspec.Struct, kw_only=True, frozen=True):
    """A comparison that was fixed before any run of its configuration began; all of a study's are one Holm family."""

    configuration: str
    baseline: str = ""
    """Name of the configuration that it is tested against; empty where the test is `zero`."""
    measure: str = "cumulative_reward"
    """One of swarm.plugins.study.measures.TESTED."""
    test: str = "welch"
    """One of TESTS, two-sided; the seed is the unit."""
    hypothesis: str = ""
    """What is expected, in words."""


class RunRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One swarm: a configuration with a seed."""

    configuration: str
    seed: int
    experiment: FolderName
    """Name of its experiment in the shared folder."""


class StudyRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A matrix of configurations and seeds, resolved."""

    study: FolderName
    title: str
    created_at: float
    """Unix seconds."""
    nodes: int
    """Workers of each swarm, where a configuration does not say otherwise; sums over nodes are shown for so many."""
    rounds: int
    seeds: tuple[int, ...]
    configurations: tuple[ConfigurationRecord, ...]
    """In the order in which they are shown."""
    settings: dict[str, Any] = {}
    """Setting name -> value that all runs share, of those that were named or are not at their defaults."""
    defaults: dict[str, Any] = {}
    """Setting name -> value of all others, as their defaults were when the study was begun, with which it goes on."""
    judged: bool = False
    """A judge asks every node a held-out question each round."""
    runs: tuple[RunRecord, ...] = ()
    versions: dict[str, str] = {}
    """Versions of swarm, Python and the libraries that decide what a run computes."""
    declared: tuple[DeclaredComparison, ...] = ()
    """What was to be tested, said before the runs; empty where nothing was."""
    command: str = ""
    """That began it, or went on with it last."""
    schema_version: int = SCHEMA_VERSION
    scoring: int | msgspec.UnsetType = msgspec.UNSET
    """Scoring of the datasets that its runs ask by their names alone."""
    exploratory: bool | msgspec.UnsetType = msgspec.UNSET
    """Nothing was declared and nothing is tested: a report has no p-values."""

    @property
    def tests(self) -> bool:
        """Tells whether a report may have p-values."""
        return self.exploratory is not True

    def nodes_of(self, configuration: str) -> int:
        """Workers of a configuration's swarms. Raises StopIteration if there is none of that name."""
        own = next(one.nodes for one in self.configurations if one.name == configuration)
        return self.nodes if own is msgspec.UNSET else own

    @property
    def sizes(self) -> dict[str, int]:
        """Returns configuration -> workers, of those whose swarms have not as many as the study's."""
        sizes = {one.name: self.nodes_of(one.name) for one in self.configurations}
        return {name: nodes for name, nodes in sizes.items() if nodes != self.nodes}


class RunFile(msgspec.Struct, kw_only=True, frozen=True):
    """`experiments/{experiment}/study_run.json`: all that a run was started with, written before it starts."""

    study: str
    configuration: str
    seed: int
    experiment: str
    nodes: int
    rounds: int
    started_at: float
    """Unix seconds, of its latest start."""
    settings: dict[str, Any]
    """Every setting, those at their defaults included; no secrets."""
    judged: bool = False
    versions: dict[str, str] = {}
    code: str = ""
    """Digest of the code that computed all of it (swarm.provenance); empty where it was not one code."""
    models: dict[str, str] = {}
    """Model -> digest of its content, of embedded models and local folders."""
    schema_version: int = SCHEMA_VERSION


def open_run(path: Path, experiment: str) -> Run:
    """Returns a run of a study, which need not be there yet."""
    return open_place(path).open(experiment, writer=WRITER)


def read_run(path: Path, experiment: str) -> RunFile | None:
    """Reads what a run was started with; None where that is not written, damaged, or of another version."""
    try:
        return read_form(open_run(path, experiment).store, keys.STUDY_RUN, RunFile)
    except ProtocolError:
        return None


def run_log(experiment: str) -> str:
    """Key of what a run said on its terminal, in its study's store."""
    return f"logs/{experiment}.log"


def study_folder(path: Path, study: str) -> Path:
    """Returns all of a study that is not in its experiments: its record, the logs of its runs, its report; for
    messages."""
    return path / STUDIES / study


def study_store(path: Path, study: str) -> Store:
    """Returns the same, to read and write; it need not be there yet."""
    return open_place(path).beside(f"{STUDIES}/{study}", WRITER)


def write_study(path: Path, record: StudyRecord) -> None:
    """Write a study down. Raises StoreError if that cannot be done."""
    study_store(path, record.study).put(RECORD, encode(record))


def read_study(path: Path, study: str) -> StudyRecord:
    """Returns the record of a study.

    Raises:
        ExperimentError: there is no such study; the message names those that there are.
        ProtocolError: its record is not readable.
    """
    record = read_form(study_store(path, study), RECORD, StudyRecord, LARGEST_RECORD)
    if record is None:
        there = studies(path)
        known = f"there: {named(there) or 'none'}; begin one with `swarm study run`{did_you_mean(study, there)}"
        raise ExperimentError(f"no study {study!r} in {path}; {known}")
    return record


def studies(path: Path | str) -> list[str]:
    """Returns the names of the studies of a shared place, sorted."""
    store = open_place(path).beside(STUDIES)
    names = [entry.name for entry in entries(store, "") if entry.kind is Kind.PREFIX]
    return [name for name in names if (entry := store.stat(f"{name}/{RECORD}")) and entry.kind is Kind.FILE]
