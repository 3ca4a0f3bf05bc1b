"""A matrix of configurations and seeds, checked and resolved into runs with all their settings.

    Matrix (built in, or a file) ─override─▶ Matrix ─resolve─▶ StudyRecord ─run_settings─▶ Settings of one run

Pure: the environment, the settings file and the clock are arguments, and nothing is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from swarm.config import EXPERIMENT_NAME, Settings, is_secret, load_settings
from swarm.config.from_folder import refuse_strangers_word
from swarm.config.own_code import kept, plain
from swarm.config.settings import FIELDS
from swarm.config.sources import checked
from swarm.config.task_table import NEWEST_SCORING
from swarm.errors import ConfigError
from swarm.plugins.study.measures import TESTED
from swarm.plugins.study.record import TESTS, ConfigurationRecord, DeclaredComparison, RunRecord, StudyRecord
from swarm.spelling import did_you_mean

CONFIGURATION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,39}")
OWNED = {
    "path": "give --path",
    "experiment": "each run has its own, made from the study's name",
    "role": "a study runs whole swarms",
    "node_id": "a study runs whole swarms",
    "seed": "give seeds",
    "max_rounds": "give rounds",
    "expected_workers": "give nodes",
    "test_mode": "give rounds, local_groups and generations",
}
"""Settings that a study decides for each run, and what to do instead."""
DEFAULTS: dict[str, Any] = {
    "checkpoint_interval": 10,
    "redo_rounds": 1_000_000,
    "round_interval": 3600.0,
    "liveness_timeout": 120.0,
    "threads": 1,
}
"""What every run gets where nobody says otherwise. A killed run redoes what it had not saved, however much that is; no
node is given up for being slow, so that what is learned does not depend on the machine; and a run takes one core."""

BESIDE = ("mirror",)
"""Settings of the place, which no record holds: a study goes on with another one, or with none."""

FREE = ("checkpoint_interval", "checkpoint_keep", "redo_rounds", "log_level")
"""Settings that do not decide what a run computes: a study may go on with others than it was begun with."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Says what to compare."""

    name: str
    """Name of the study, if no other is given."""
    title: str
    nodes: int
    """Workers of each swarm, where a configuration does not say otherwise."""
    rounds: int
    seeds: tuple[int, ...]
    configurations: tuple[ConfigurationRecord, ...]
    settings: Mapping[str, Any]
    """Setting name -> value that all configurations share."""
    declared: tuple[DeclaredComparison, ...] = ()
    """What is to be tested."""
    exploratory: bool = False
    """Nothing is declared, and a report has no p-values."""
    built_in: bool = False
    """Its settings are this version's defaults, and nobody named them."""


def with_baseline(configurations: Sequence[ConfigurationRecord], baseline: str) -> tuple[ConfigurationRecord, ...]:
    """The others of the baseline's group are compared with it, where they do not say otherwise."""
    group = next((one.group for one in configurations if one.name == baseline), None)
    return tuple(
        msgspec.structs.replace(one, baseline=baseline)
        if not one.baseline and one.group == group and one.name != baseline
        else one
        for one in configurations
    )


def resolve(
    matrix: Matrix, shared: Settings, *, judged: bool, created_at: float, versions: Mapping[str, str]
) -> StudyRecord:
    """Returns the study that a matrix comes to.

    Args:
        shared: what `shared_settings` made of the matrix and of everything the caller said.
        created_at: Unix seconds.
        versions: of what decides what a run computes.

    Raises:
        ConfigError: the matrix cannot be run; says where and why.
    """
    _check(matrix)
    settings = changed_settings(shared)
    configurations = tuple(_checked(one, settings) for one in matrix.configurations)
    return StudyRecord(
        study=matrix.name,
        title=matrix.title,
        created_at=created_at,
        nodes=matrix.nodes,
        rounds=matrix.rounds,
        seeds=matrix.seeds,
        configurations=configurations,
        settings=settings,
        defaults={
            name: _as_read_back(shared.value(name)) for name in FIELDS if is_shared(name) and name not in settings
        },
        judged=judged,
        declared=matrix.declared,
        runs=runs_of(matrix.name, configurations, matrix.seeds),
        versions=dict(versions),
        scoring=NEWEST_SCORING,
        exploratory=True if matrix.exploratory else msgspec.UNSET,
    )


def shared_settings(
    matrix: Matrix, flags: Mapping[str, Any], environ: Mapping[str, str], toml_file: str | None
) -> Settings:
    """Flag > environment > settings file > matrix, as one: what all runs share, and where the shared folder is.

    Raises:
        ConfigError: an unknown or malformed setting, or test mode.
    """
    refuse_owned(matrix.settings, f"matrix {matrix.name!r}")
    settings = load_settings(flags, environ, toml_file, **{**DEFAULTS, **matrix.settings})
    if settings.test_mode:
        raise ConfigError(f"TEST_MODE is not for a study: {OWNED['test_mode']}")
    return settings


def ignored_settings(shared: Settings) -> list[str]:
    """Returns names of settings that were given but that the study decides."""
    return [name for name in _changed(shared) if name in OWNED and name != "path"]


def changed_settings(shared: Settings) -> dict[str, Any]:
    """Returns setting name -> value as JSON has it, of those that are not at their defaults and not the study's own."""
    return {name: _as_read_back(shared.value(name)) for name in _changed(shared) if is_shared(name)}


def stated(record: StudyRecord) -> dict[str, Any]:
    """Returns setting name -> value as JSON has it, of all that the runs of a study share."""
    fields = {name: _as_read_back(field.default) for name, field in FIELDS.items() if name not in OWNED}
    said = {**fields, **record.defaults, **record.settings}
    return {name: value for name, value in said.items() if name not in BESIDE and not is_secret(name)}


def is_shared(name: str) -> bool:
    """Tells whether a study's record holds a setting for its runs; secrets reach them by their variables alone."""
    return not (name in OWNED or name in BESIDE or is_secret(name))


def _changed(settings: Settings) -> list[str]:
    return [name for name, field in FIELDS.items() if settings.value(name) != field.default]


def _as_read_back(value: Any) -> Any:
    """Returns a value as it comes out of the record's file, so that a study equals itself: lists for tuples. What the
    user named as code of his own still is that here, as in a record that is read it never is."""
    return kept(value, msgspec.json.decode(msgspec.json.encode(plain(value))))


def refuse_strangers_words(settings: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError: the folder is open to strangers, and a setting that was read there names code."""
    for name, value in settings.items():
        refuse_strangers_word(name, value, where)


def refuse_owned(settings: Iterable[str], where: str) -> None:
    """Raises ConfigError for a name that is no setting, or that the study decides."""
    for name in settings:
        if name not in FIELDS:
            raise ConfigError(f"{where}: unknown setting {name!r}{meant_among(name, FIELDS)}")
        if name in OWNED or is_secret(name):
            instead = OWNED.get(name, "it is a secret: leave it to the environment")
            raise ConfigError(f"{where}: {name!r} is not for a study to share: {instead}")


def meant_among(word: str, known: Collection[str]) -> str:
    """`; did you mean ...?`, or what there is."""
    there = f"; expected one of {', '.join(sorted(known))}" if len(known) < 12 else "; `swarm settings` lists all"
    return did_you_mean(word, known, there)


def _check(matrix: Matrix) -> None:
    where = f"matrix {matrix.name!r}"
    if not EXPERIMENT_NAME.fullmatch(matrix.name):
        raise ConfigError(f"{where}: a study's name is letters, digits, '_', '-' and '.'; choose another --name")
    for what, number in (("nodes", matrix.nodes), ("rounds", matrix.rounds)):
        if number < 1:
            raise ConfigError(f"{where}: {what} must be at least 1, got {number}")
    if not matrix.seeds or len(set(matrix.seeds)) != len(matrix.seeds) or min(matrix.seeds) < 0:
        raise ConfigError(f"{where}: seeds must be different whole numbers from 0, got {list(matrix.seeds)}")
    if not matrix.configurations:
        raise ConfigError(f"{where}: there is no configuration; name at least one")
    _check_configurations(where, matrix)
    if matrix.exploratory and matrix.declared:
        raise ConfigError(
            f"{where}: expected no [[comparisons]] where exploratory = true, got {len(matrix.declared)}: remove either"
        )
    for declared in matrix.declared:
        _check_declared(where, declared, [one.name for one in matrix.configurations])
    pairs = Counter((one.configuration, one.baseline, one.measure) for one in matrix.declared)
    for (one, baseline, measure), count in pairs.items():
        if count > 1:
            raise ConfigError(f"{where}: {one!r} against {baseline!r} on {measure} is declared {count} times: keep one")


def _check_configurations(where: str, matrix: Matrix) -> None:
    names = [one.name for one in matrix.configurations]
    for name in names:
        if not CONFIGURATION_NAME.fullmatch(name):
            raise ConfigError(f"{where}: configuration {name!r}: expected letters, digits and _./+-, at most 40")
    for slug, count in Counter(map(_slug, names)).items():
        if count > 1:
            same = ", ".join(repr(name) for name in names if _slug(name) == slug)
            raise ConfigError(f"{where}: configurations {same} would share a folder: give each a name of its own")
    for one in matrix.configurations:
        if one.nodes is not msgspec.UNSET and one.nodes < 1:
            raise ConfigError(f"{where}: configuration {one.name!r}: nodes must be at least 1, got {one.nodes}")
        if one.baseline and (one.baseline not in names or one.baseline == one.name):
            raise ConfigError(
                f"{where}: configuration {one.name!r} has the baseline {one.baseline!r}: expected another "
                f"configuration{meant_among(one.baseline, [name for name in names if name != one.name])}"
            )


def _check_declared(where: str, declared: DeclaredComparison, names: Sequence[str]) -> None:
    where = f"{where}, comparison of {declared.configuration!r} with {declared.baseline or 0!r}"
    alone = declared.test == "zero"
    if alone and declared.baseline:
        raise ConfigError(f"{where}: the test zero has no baseline: leave baseline = {declared.baseline!r} out")
    for key, value, known in (
        ("configuration", declared.configuration, names),
        ("measure", declared.measure, TESTED),
        ("test", declared.test, TESTS),
        ("baseline", declared.baseline, [""] if alone else names),
    ):
        if value not in known:
            raise ConfigError(f"{where}: there is no {key} {value!r}{meant_among(value, known)}")
    if declared.configuration == declared.baseline:
        raise ConfigError(f"{where}: expected two different configurations")


def _checked(configuration: ConfigurationRecord, shared: Mapping[str, Any]) -> ConfigurationRecord:
    """Returns the configuration with its settings in the form in which they are recorded."""
    where = f"configuration {configuration.name!r}"
    refuse_owned(configuration.settings, where)
    try:
        settings = checked({**shared, **configuration.settings}, "the matrix")
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return msgspec.structs.replace(
        configuration, settings={name: _as_read_back(settings.value(name)) for name in configuration.settings}
    )


def runs_of(study: str, configurations: Sequence[ConfigurationRecord], seeds: Sequence[int]) -> tuple[RunRecord, ...]:
    """Returns every run, in the order in which they are started: an early look compares all configurations at one seed.

    Raises:
        ConfigError: a name would be too long for a folder.
    """
    runs = [
        RunRecord(configuration=one.name, seed=seed, experiment=f"{study}-{_slug(one.name)}-s{seed}")
        for seed in seeds
        for one in configurations
    ]
    for run in runs:
        if not EXPERIMENT_NAME.fullmatch(run.experiment):
            raise ConfigError(f"{run.experiment!r} is no name for an experiment: choose a shorter --name")
    return tuple(runs)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name)


def run_settings(record: StudyRecord, run: RunRecord, path: Path, *, hub_token: str | None = None) -> Settings:
    """Returns all settings of one run, from the study's record alone.

    Raises:
        ConfigError: the record holds a setting that this version does not have.
    """
    configuration = next(one for one in record.configurations if one.name == run.configuration)
    said = {**stated(record), **configuration.settings}
    refuse_owned(said, f"study {record.study!r}")
    return replace(
        load_settings({}, {}, None, **said),
        path=str(path),
        experiment=run.experiment,
        seed=run.seed,
        max_rounds=record.rounds,
        expected_workers=record.nodes_of(run.configuration),
        hub_token=hub_token,
    )
