"""Decides which values of settings select code, and who may name code: only this user.

    flag, variable, settings file, matrix ─▶ of_the_user ─▶ OwnCode      the only text that is ever imported
    whatever was read in a place ─────────▶ plain text ──▶ looked up among the names that we ship, or refused

A registry takes a text and looks it up. Where it is none of the registry's own, `own_code` gives it back as OwnCode, or
refuses it. JSON knows no types: whatever was written into a place and read again is plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swarm import entry_points
from swarm.config.names import ADAPTIVE_RULES, ADVANTAGE_SCALINGS, DATASET_SCORERS, LOSSES, SAMPLERS, TASK_FAMILIES
from swarm.config.task_table import FITTING
from swarm.errors import ConfigError
from swarm.harmless import quoted

TASK_TABLE = "task_table"
SHIPPED: Mapping[str, Collection[str]] = MappingProxyType(
    {
        "sampler": SAMPLERS,
        "adaptive_rule": ADAPTIVE_RULES,
        "loss": LOSSES,
        "advantage_scaling": ADVANTAGE_SCALINGS,
        "task_families": TASK_FAMILIES,
    }
)
"""Setting whose value selects code -> the names that need nobody's word.

This alone decides what a place may name. A name that an installed package brings along is code like any other, and
does not belong here: it becomes OwnCode when the user says it.
"""
OF_A_TASK: Mapping[str, Collection[str]] = MappingProxyType(
    {"python": (), "verifiers": (), "scorer": (*DATASET_SCORERS, FITTING)}
)
"""Key of a table [tasks.NAME] whose value selects code -> the values that need nobody's word."""


class OwnCode(str):
    """Code that this user named: `package.module:object`, a Python file, or an installed environment.

    `of_the_user` alone makes one of what was said; the rest of this module keeps it one. No JSON encoder takes it.
    """

    __slots__ = ()

    @property
    def module(self) -> OwnCode:
        """Returns the module that is imported for it."""
        return OwnCode(self.partition(":")[0])


def of_the_user(name: str, value: Any) -> Any:
    """Returns the value of a setting, as its user said it: what it names beyond our own names is OwnCode.

    A family that an installed package registered in `swarm.tasks` may be named as it is there.
    """
    if name == "task_families" and isinstance(value, list | tuple):
        value = type(value)(_registered(text) for text in value)
    return retyped(value, frozenset(_named(name, value)))


def _registered(family: Any) -> Any:
    """Returns what an entry point of that name names; the name itself where there is none, and nothing is imported."""
    if family in TASK_FAMILIES or ":" in _text(family):
        return family
    found = entry_points.found(entry_points.TASKS).get(_text(family))
    return found.value if found else family


def names_code(name: str, value: Any) -> Iterator[str]:
    """Yields what the value of a setting names that is neither ours nor this user's."""
    return (text for text in _named(name, value) if not isinstance(text, OwnCode))


def own_code(text: str, where: str, say: str) -> OwnCode:
    """Returns a text that is none of our names, as code that may be imported.

    Args:
        where: the setting, and where its value came from.
        say: what its user would type.

    Raises:
        ConfigError: nobody who may name code has said it.
    """
    if isinstance(text, OwnCode):
        return text
    raise ConfigError(
        f"{where} = {quoted(text)} names code that you did not name yourself, and nothing else is ever imported: "
        f"if you know that code, say {say}"
    )


def load(code: OwnCode) -> Any:
    """Returns the object that it names. Raises ImportError, AttributeError, ValueError, or what its module raises."""
    module, colon, name = code.partition(":")
    if not (module and colon and name):
        raise ValueError("expected package.module:object")
    return getattr(import_module(module), name)


def source_file(code: OwnCode) -> Path | None:
    """Returns the file of its module, None where there is none; imports what is above it. Raises ImportError,
    ValueError."""
    spec = find_spec(code.module)
    file = Path(spec.origin) if spec and spec.origin else None
    return file if file and file.is_file() else None


def own_codes(value: Any) -> frozenset[OwnCode]:
    """Returns all of it within a value."""
    return frozenset(text for text in _texts(value) if isinstance(text, OwnCode))


def kept(before: Any, value: Any) -> Any:
    """Returns a value that was made of another one: what was OwnCode there is OwnCode again."""
    return retyped(value, own_codes(before))


def retyped(value: Any, own: Collection[str]) -> Any:
    """Returns a value in which these texts are OwnCode; for who tells a child of his what the user named."""
    return _mapped(value, lambda text: OwnCode(text) if text in own else text) if own else value


def respelt(before: str, text: str) -> str:
    """Returns another spelling of a text, such as a path that became absolute; code stays code."""
    return OwnCode(text) if isinstance(before, OwnCode) else text


def plain(value: Any) -> Any:
    """Returns the value as JSON has it, with no word of who said it."""
    return _mapped(value, lambda text: str(text) if isinstance(text, OwnCode) else text)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a value in which each text is changed; keys are not."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return type(value)(_mapped(part, change) for part in value) if isinstance(value, list | tuple) else value


def _named(name: str, value: Any) -> Iterator[str]:
    """Yields what a value names beyond our own names, sound or not."""
    if name == TASK_TABLE:
        for table in value.values() if isinstance(value, Mapping) else ():
            parts = table if isinstance(table, Mapping) else {}
            yield from (_text(parts[key]) for key, ours in OF_A_TASK.items() if key in parts and parts[key] not in ours)
    elif name in SHIPPED and value is not None:
        texts = value if isinstance(value, list | tuple) else (value,)
        yield from (_text(text) for text in texts if text not in SHIPPED[name])


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
