"""Reads a matrix from a TOML file: a user's own, or a built-in one of assets/matrices.

name = "rates"                 title, nodes, rounds, seeds = [1, 2, 3], baseline = "slow", exploratory
[settings]                     shared by all runs; names as in `swarm settings`
[[configurations]]             name = "slow", settings = { learning_rate = 1e-5 }; group, baseline, nodes
[[comparisons]]                configuration = "fast", baseline = "slow"; measure, test, hypothesis: declared beforehand
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from swarm.config.environment import VARIABLES
from swarm.config.own_code import of_the_user
from swarm.config.sources import spread
from swarm.errors import ConfigError
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison
from swarm.plugins.study.run.matrix import Matrix, meant_among, refuse_owned, with_baseline

_ASSETS = Path(__file__).parents[1] / "assets" / "matrices"
BUILT_IN = ("sapo", "five-node", "thesis", "adaptive", "samplers")


def built_in(name: str) -> Matrix:
    """Returns the matrix of that name. Raises ConfigError if there is none."""
    if name not in BUILT_IN:
        raise ConfigError(f"no built-in matrix {name!r}{meant_among(name, BUILT_IN)}; a file of your own ends in .toml")
    return replace(read_matrix(_ASSETS / f"{name}.toml"), built_in=True)


class _File(msgspec.Struct, kw_only=True):
    name: str
    nodes: int
    rounds: int
    configurations: list[ConfigurationRecord]
    title: str = ""
    seeds: list[int] = msgspec.field(default_factory=lambda: [1, 2, 3])
    baseline: str = ""
    settings: dict[str, Any] = {}
    comparisons: list[DeclaredComparison] = []
    exploratory: bool = False


def read_matrix(file: Path) -> Matrix:
    """Returns the matrix that a file describes.

    Raises:
        ConfigError: it cannot be read, holds an unknown key, or a value that is not what is expected there.
    """
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the matrix {file}: {error}") from None
    _refuse_unknown_keys(table, _File, str(file))
    for one in _tables(table.get("configurations")):
        _refuse_unknown_keys(one, ConfigurationRecord, f"{file}, configuration {one.get('name', '?')!r}")
    for one in _tables(table.get("comparisons")):
        _refuse_unknown_keys(one, DeclaredComparison, f"{file}, comparison of {one.get('configuration', '?')!r}")
    try:
        read = msgspec.convert(table, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {error}") from None
    return _matrix(read, str(file))


def _matrix(read: _File, where: str) -> Matrix:
    configurations = [
        msgspec.structs.replace(one, settings=_by_field(one.settings, f"{where}, configuration {one.name!r}"))
        for one in read.configurations
    ]
    names = [one.name for one in configurations]
    if read.baseline and read.baseline not in names:
        raise ConfigError(
            f"{where}: no configuration is the baseline {read.baseline!r}{meant_among(read.baseline, names)}"
        )
    return Matrix(
        name=read.name,
        title=read.title or read.name,
        nodes=read.nodes,
        rounds=read.rounds,
        seeds=tuple(read.seeds),
        configurations=with_baseline(configurations, read.baseline),
        settings=_by_field(read.settings, f"{where}, [settings]"),
        declared=tuple(read.comparisons),
        exploratory=read.exploratory,
    )


def _by_field(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings may be named as their variables; it is the user who names them."""
    named = {VARIABLES.get(name, name): value for name, value in settings.items()}
    if len(named) < len(settings):
        raise ConfigError(f"{where}: a setting is given twice, by its name and by its variable: keep one")
    flat = spread({name: (value, where) for name, value in named.items()})
    refuse_owned(flat, where)
    return {name: of_the_user(name, value) for name, (value, _) in flat.items()}


def _tables(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _refuse_unknown_keys(table: Mapping[str, Any], form: type[msgspec.Struct], where: str) -> None:
    known = form.__struct_fields__
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}{meant_among(key, known)}")
