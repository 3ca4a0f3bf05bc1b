"""Command-line flags of what runs: one for each setting whose declaration in swarm.config.settings names a flag.

Their help, choices and panels are those of the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

from swarm.cli.flags import FIRST, CommonFlags, PathFlag  # noqa: F401 - CommonFlags names it; resolved in this module
from swarm.config.constraints import options
from swarm.config.declared import DECLARED, sections
from swarm.config.names import PRESET_VARIABLE, PRESETS
from swarm.config.settings import FIELDS

Flags = TypeVar("Flags")

DEFAULT_WORKERS = 4
"""Workers of `swarm up` and `swarm plan`, where nobody says how many."""
UP_DEFAULTS: dict[str, Any] = {
    "max_rounds": 40,
    "local_groups": 4,
    "external_groups": 4,
    "checkpoint_interval": 10,
    "tasks": ("binary_matrix", "fraction_simplification"),
}
"""Defaults of `swarm up`: a demonstration of a minute on a laptop, where the settings of a node are those of the paper.

The tasks are the two of the nine that an embedded model learns in so few rounds. They are for embedded models alone,
and where nobody chooses a profile or tasks (swarm.cli.before_start.suited)."""
_PANELS = {section: Group(section, sort_key=n) for n, section in enumerate(sections(DECLARED.values()), 1)} | {
    FIRST.name: FIRST
}
"""The flags of a section stand together in a command's help."""


def _declared(*kinds: str, defaults: Mapping[str, Any] = MappingProxyType({})) -> Callable[[type[Flags]], type[Flags]]:
    """Gives a class of flags a field for each setting that has a flag of one of these kinds.

    Args:
        defaults: what the command has instead of the default of a setting, for its help.
    """

    def with_fields(cls: type[Flags]) -> type[Flags]:
        named = [(name, f.metadata[kind]) for name, f in FIELDS.items() for kind in kinds if f.metadata[kind]]
        flags = {flag: _flag(setting, flag, defaults.get(setting)) for setting, flag in named}
        cls.__annotations__ = cls.__annotations__ | flags
        for flag in flags:
            setattr(cls, flag, None)
        return Parameter(name="*")(dataclass(frozen=True, kw_only=True)(cls))

    return with_fields


def _flag(setting: str, flag: str, default: Any = None) -> Any:
    """Returns the annotated type of a flag that gives a setting its value."""
    kinds = options(FIELDS[setting].type)
    parameter = setting_parameter(setting, default, negative=f"--no-{flag.replace('_', '-')}" if bool in kinds else ())
    if choices := DECLARED[setting].choices:  # for completion; load_settings refuses what is none of them
        return Annotated[Literal[choices] | str | None, parameter]
    # Names come separated by commas, as in the environment.
    return Annotated[(kinds[0] if len(kinds) == 1 and kinds[0] is not tuple else str) | None, parameter]


def setting_parameter(setting: str, default: Any = None, negative: str | tuple[()] = ()) -> Parameter:
    """Help and panel of a flag that gives a setting its value. `default`: the command's own."""
    declared = DECLARED[setting]
    return Parameter(
        help=declared.help(default), negative=negative, show_choices=False, group=_PANELS[declared.section]
    )


@_declared("run_flag")
class RunFlags(CommonFlags):
    """Declares the flags of a run."""

    preset: Annotated[
        str | None,
        Parameter(
            help="Values for many settings at once; flags, variables and files count above it. "
            f"[allowed: {', '.join(PRESETS)}] [default: None] [variable: {PRESET_VARIABLE}]",
            group=FIRST,
        ),
    ] = None


@_declared("run_flag", "up_flag", defaults=UP_DEFAULTS)
class UpFlags(RunFlags):
    """Declares the flags of a run of `swarm up`."""


@_declared("node_flag")
class NodeFlags(RunFlags):
    """Declares the flags that say which node this is."""
