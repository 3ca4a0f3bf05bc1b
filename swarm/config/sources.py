"""Merges settings: command-line flag > environment variable > TOML file > preset > the command's default > the default.

An unknown or malformed value is a ConfigError that names the setting, where it came from, the value, and what is
allowed; so are settings that contradict each other.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from swarm.config.constraints import allowed, choices, options
from swarm.config.environment import ASKED_VARIABLE, RETIRED, VARIABLES, meant
from swarm.config.file_names import ENDS_LIKE_A_SLOT, NODE_ID, why_reserved
from swarm.config.names import JUDGE, PRESET, PRESET_VARIABLE, QUICK, preset
from swarm.config.own_code import TASK_TABLE, kept, of_the_user
from swarm.config.place import CADENCE, is_url, place_of
from swarm.config.revising import revising
from swarm.config.settings import ADAPTIVE, FIELDS, Settings, both_names, flag_of, variable
from swarm.config.task_table import beside, from_file, with_files
from swarm.entry_points import unregistered
from swarm.errors import ConfigError
from swarm.harmless import quoted
from swarm.instruction import Asking
from swarm.spelling import did_you_mean

COMMAND_LINE = "the command line"
"""Where a flag's value came from."""

TASKS = "tasks"
Given = dict[str, tuple[object, str]]
"""Setting -> its value, unparsed, and where it came from."""
ALL = "; `swarm settings` lists all, those of a plugin where it is installed"
COMMAND_DEFAULT = "the command's default"
BUCKET_DEFAULT = "the default in a bucket"
_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_FROM_TEXT: Mapping[Any, Callable[[str], object]] = {
    bool: lambda text: _FLAGS[text.strip().lower()],
    int: int,
    float: float,
    tuple: lambda text: tuple(part.strip() for part in text.split(",")),
    dict: json.loads,
}
"""How texts become values, by type; all others are texts themselves."""


def load_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_file: str | None = None,
    *,
    base: Given | None = None,
    **defaults: Any,
) -> Settings:
    """Merge flags (None: not given), the environment, a TOML file and defaults into checked settings.

    Args:
        flags: setting name -> value from the command line.
        environ: the process environment; an empty variable counts as not set.
        toml_file: a file of `setting = value` lines, named as the fields of Settings or as their variables.
        base: setting -> value and where it came from, for what nobody says here; such as what an experiment has.
        defaults: what this command uses where nothing else says it, instead of the field's default.

    Code that flags, environment and file name is the user's own (swarm.config.own_code); of `base` and `defaults` only
    what is so already.

    Raises:
        ConfigError: unknown setting, malformed value, or a combination that cannot work.
    """
    below, asked = given(flags, environ, toml_file)
    raw = {name: (value, COMMAND_DEFAULT) for name, value in defaults.items()} | (base or {}) | below | asked
    raw = _of_the_place(raw) | raw
    values = {name: parse(name, value, source) for name, (value, source) in raw.items()}
    values |= {name: of_the_user(name, values[name]) for name in asked}
    return _check(Settings().with_values(values), set(asked))


def checked(values: Mapping[str, Any], source: str) -> Settings:
    """Returns settings of which each was asked for, but not by the user of this process: that names no code.

    Raises:
        ConfigError: a malformed value, or a combination that cannot work.
    """
    return _check(Settings().with_values({n: parse(n, value, source) for n, value in values.items()}), set(values))


def _of_the_place(raw: Given) -> Given:
    """Returns the defaults that the place has instead of the fields' own."""
    path, _ = raw.get("path", ("", ""))
    return {name: (value, BUCKET_DEFAULT) for name, value in CADENCE.items()} if is_url(str(path)) else {}


def given(flags: Mapping[str, Any], environ: Mapping[str, str], toml_file: str | None) -> tuple[Given, Given]:
    """Returns the settings of the preset, if any, and those that somebody asked for by name.

    Raises:
        ConfigError: an unknown setting or preset, or one setting with two values.
    """
    _refuse_unknown_variables(environ)
    found = spread(_from_toml(toml_file)) if toml_file else {}
    found |= spread(_from_environment(environ))
    found |= spread({name: (value, COMMAND_LINE) for name, value in flags.items() if value is not None})
    return (preset(*found.pop(PRESET)) if PRESET in found else {}), _with_own_files(found)


def _with_own_files(found: Given) -> Given:
    """Returns the settings with the files among the tasks as tasks of their own: these settings are the user's."""
    if TASKS not in found:
        return found
    value, source = found[TASKS]
    table, _ = found.get(TASK_TABLE, ({}, ""))
    table = parse(TASK_TABLE, table, source) or {} if table else {}
    names, with_theirs = with_files(parse(TASKS, value, source) or (), table, source)
    if len(with_theirs) == len(table):
        return found
    return found | {TASKS: (names, source), TASK_TABLE: (with_theirs, source)}


def spread(found: Given) -> Given:
    """Returns settings that one source says, tables spread to their keys (swarm.config.tables).

    Raises:
        ConfigError: one is no table or has a key that there is not, or a key is said twice and not alike.
    """
    left = dict(found)
    said = [(table, *left.pop(name)) for name, table in FIELDS.tables.by_name.items() if name in left]
    for table, value, source in said:
        for name, part in table.spread(value, source).items():
            other, elsewhere = left.setdefault(name, (part, source))
            if parse(name, other, elsewhere) != parse(name, part, source):
                raise ConfigError(
                    f"{FIELDS.tables.shown(name)} has two values, from {source} and from {elsewhere}: keep one"
                )
    return left


def sources_of(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_file: str | None = None,
    *,
    base: Given | None = None,
    **defaults: Any,
) -> dict[str, str]:
    """Returns setting -> where its value came from, of those that are not at the field's default. Arguments as
    load_settings.

    Raises:
        ConfigError: as load_settings.
    """
    effective = load_settings(flags, environ, toml_file, base=base, **defaults)
    below, asked = given(flags, environ, toml_file)
    own = _of_the_place({"path": (effective.path, "")}) | dict.fromkeys(defaults, ("", COMMAND_DEFAULT)) | (base or {})
    quick = {name: ("", variable("test_mode")) for name in QUICK if effective.test_mode}
    return {name: source.removeprefix("the ") for name, (_, source) in (own | below | quick | asked).items()}


def _from_environment(environ: Mapping[str, str]) -> Given:
    found: Given = {}
    variables = {name: f.metadata["env"] for name, f in FIELDS.items()} | {PRESET: (PRESET_VARIABLE,)}
    variables |= {name: (table.variable,) for name, table in FIELDS.tables.by_name.items()}
    for name, known in variables.items():
        given = [(v, environ[v]) for v in known if environ.get(v, "").strip()]
        if len({value for _, value in given}) > 1:
            raise ConfigError(
                " and ".join(f"{v}={value!r}" for v, value in given) + " mean the same setting but differ: keep one"
            )
        if given:
            found[name] = (given[0][1], f"the environment variable {given[0][0]}")
    return found


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    for name, value in environ.items():
        if name.startswith("SWARM_") and name != ASKED_VARIABLE and name not in VARIABLES:
            raise ConfigError(f"unknown setting {name} in the environment{_meant(name, VARIABLES)}")
        if name in RETIRED and value.strip():
            raise ConfigError(f"the environment variable {name}={value!r} has no meaning here: {RETIRED[name]}")
        if value.strip() and (known := meant(name)):
            raise ConfigError(
                f"unknown setting {name}={value!r} in the environment; did you mean {known!r}? If not, unset it"
            )


def _meant(name: str, known: Iterable[str]) -> str:
    """Returns what an unknown name may have meant, and which plugins' settings cannot be had."""
    missing = unregistered()
    again = [f"{', '.join(missing)}: not registered since swarm was updated; install it again"] if missing else []
    return "; ".join([did_you_mean(name, [*known], ALL), *FIELDS.problems, *again])


def _from_toml(file: str) -> Given:
    try:
        table = tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings file {file}: {error.strerror or error}; expected the path of a TOML file of "
            "lines `name = value` (docs/settings.md)"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the settings file {file}: {error}") from None
    found: Given = {}
    if isinstance(tasks := table.get(TASKS), dict):  # tables in it are tasks of the run's own, a list names tasks
        table = {key: value for key, value in table.items() if key != TASKS}
        table[TASK_TABLE] = from_file(tasks, Path(file).parent)
    elif tasks is not None:
        table[TASKS] = beside(tasks, Path(file).parent)
    for key, value in table.items():
        name = VARIABLES.get(key, key)
        if name in RETIRED:
            raise ConfigError(f"the setting {key!r} in {file} has no meaning here: {RETIRED[name]}")
        if name not in FIELDS and name not in FIELDS.tables.by_name and name != PRESET:
            raise ConfigError(
                f"unknown setting {key!r} in {file}{_meant(key, [*FIELDS, *FIELDS.tables.by_name, *VARIABLES])}"
            )
        if name in found:
            raise ConfigError(f"{key!r} sets {name} a second time in {file}: keep one")
        found[name] = (value, file)
    return found


def parse(name: str, value: object, source: str) -> Any:
    """Returns the value of a setting, from a text or as JSON and TOML have it.

    Raises:
        ConfigError: it is none that the setting may have.
    """
    f = FIELDS[name]
    kind: Any = f.type
    try:
        plain = _from_text(options(kind), value) if isinstance(value, str) else value
        parsed = kept(value, msgspec.convert(plain, kind))
    except (ValueError, KeyError, RecursionError, msgspec.ValidationError):
        own_name = f"--{name.replace('_', '-')}"
        typed = f"{flag_of(name) or own_name}: " if source == COMMAND_LINE else ""
        meant = did_you_mean(value, choices(kind)) if isinstance(value, str) else ""
        raise ConfigError(
            f"{typed}{both_names(name)} must be {allowed(kind)}, "
            f"got {quoted(value)} from {source}{meant}; correct it or leave it out"
        ) from None
    return parsed


def _from_text(kinds: list[Any], text: str) -> object:
    """Returns a value of the first of these types that the text can be. Raises ValueError or KeyError if it can be
    none."""
    first, *others = kinds
    try:
        return _FROM_TEXT.get(first, str.strip)(text)
    except ValueError:
        if not others:
            raise
        return _from_text(others, text)


def _check(settings: Settings, given: set[str]) -> Settings:
    """Returns the settings that apply, those of test mode included. Raises ConfigError: they contradict each other.

    Args:
        given: names of the settings that somebody asked for.
    """
    place_of(settings.path)  # refuses a URL that is none of a bucket
    Asking(template_args=settings.chat_template_args or {})  # refuses arguments that are not the user's
    if settings.node_id == JUDGE:
        raise ConfigError(
            f"{variable('node_id')} must not be {JUDGE!r}: logs/{JUDGE} belongs to the judge; choose another"
        )
    if ENDS_LIKE_A_SLOT.search(name := settings.node_id or ""):
        raise ConfigError(
            f"{variable('node_id')}={name} must not end in a dot and a number, for so end files of single groups: say "
            f"{variable('node_id')}={'-'.join(name.rsplit('.', 1))}"
        )
    if why := why_reserved(settings.node_id or ""):
        raise ConfigError(f"{variable('node_id')}: {why}")
    if settings.signing == "off" and (keys := sorted(n for n in settings.expected_names if not NODE_ID.fullmatch(n))):
        raise ConfigError(
            f"{variable('expected_workers')} names the public key {keys[0]}, and without signatures nobody shows a "
            f"key: set {variable('signing')} to on or require, or name node ids alone"
        )
    times, where = (4, " in a bucket, where beats are left out") if settings.sparing else (3, "")
    beat, timeout = settings.cadence.heartbeat_interval, settings.cadence.liveness_timeout
    if timeout < times * beat:
        raise ConfigError(
            f"{variable('liveness_timeout')} must be at least {times} times {variable('heartbeat_interval')}{where}, "
            f"got {timeout:g} and {beat:g}; else live nodes count as dead"
        )
    if settings.test_mode:
        settings = replace(settings, **{name: value for name, value in QUICK.items() if name not in given})
    _check_adaptive(settings, given)
    _check_stages(settings)
    _check_dynamic_sampling(settings)
    for one in FIELDS.declarations:
        if one.plugin in settings.plugins:
            settings.of(one.declared).check(settings)
    return settings


def _check_dynamic_sampling(settings: Settings) -> None:
    if settings.dynamic_sampling == 1:
        return
    said = f"{variable('dynamic_sampling')} = {settings.dynamic_sampling}"
    known = "how many questions are asked is known only once they are scored; leave one of them out, or set"
    at_work = {
        "staleness": (settings.staleness, "0"),
        "max_stages": (settings.max_stages > 1, "1"),
        "adaptive": (settings.adaptive, "False"),
        "publish_frequency": (settings.publish_frequency == "generation", "stage"),
    }
    for name, (is_at_work, instead) in at_work.items():
        _refuse_together(settings, said, name, is_at_work, f"{known} {variable(name)}={instead}")
    if (most := settings.local_groups * settings.dynamic_sampling) > settings.limits.peer_groups:
        raise ConfigError(
            f"{said} may ask {most} questions a round, and peers take at most {variable('peer_groups')} = "
            f"{settings.limits.peer_groups} groups of a node: lower it, or raise {variable('peer_groups')} on all nodes"
        )


def _check_stages(settings: Settings) -> None:
    revising(settings.revise, settings.profile)
    if settings.max_stages == 1:
        return
    stages = f"{variable('max_stages')} = {settings.max_stages}"
    alone = "a stage asks with the answers of the one before it, so none can be generated ahead; leave one of them out"
    _refuse_together(settings, stages, "staleness", settings.staleness, alone)
    shown = "the answers of a stage are what peers are shown in the next one; choose stage or generation"
    _refuse_together(settings, stages, "publish_frequency", settings.publish_frequency == "round", shown)


def _refuse_together(settings: Settings, said: str, name: str, is_at_work: object, why: str) -> None:
    """Raises ConfigError: a setting is at work that excludes the one that is said."""
    if is_at_work:
        raise ConfigError(f"{said} and {variable(name)} = {getattr(settings, name)} exclude each other: {why}")


def _check_adaptive(settings: Settings, given: set[str]) -> None:
    total = settings.total_groups
    idle = sorted(given & set(ADAPTIVE))
    if idle and not settings.adaptive and "adaptive" not in given:
        which = "it" if len(idle) == 1 else "them"
        raise ConfigError(
            f"{', '.join(map(variable, idle))} would have no effect, for {variable('adaptive')} is off: "
            f"switch it on (--adaptive), say {variable('adaptive')}=False, or leave {which} out"
        )
    if not settings.adaptive:
        return
    names = f"{variable('local_groups')} + {variable('external_groups')}"
    if total < 2:
        raise ConfigError(f"{variable('adaptive')} divides {names}, which must be at least 2 for it, got {total}")
    for name in ("adaptive_initial_j", "adaptive_min_j", "adaptive_max_j"):
        if (getattr(settings, name) or 0) > total - 1:
            raise ConfigError(
                f"{variable(name)} must be at most {names} - 1 = {total - 1}, since a node always asks itself "
                f"something, got {getattr(settings, name):g}; lower it, or raise {variable('local_groups')}"
            )
    if not settings.adaptive_min_j <= settings.initial_j <= settings.max_j:
        raise ConfigError(
            f"{variable('adaptive_min_j')} <= {variable('adaptive_initial_j')} <= {variable('adaptive_max_j')} must "
            f"hold, got {settings.adaptive_min_j}, {settings.initial_j:g} and {settings.max_j}"
        )
