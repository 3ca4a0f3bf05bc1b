"""The kinds of value that a setting may have: msgspec constraints, each with the words in which it is explained.

A field of Settings is declared as

    seed: Annotated[int, whole(0)] = setting(42, "SEED", run_flag="seed")
    '''What it means.'''

The annotation alone says what is allowed; values, command-line flags and messages are derived from it.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import field
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from swarm.config.file_names import NODE_ID
from swarm.config.own_code import plain

T = TypeVar("T")

PREFIX = "SWARM_"
"""Variables of plugins and of tables' keys begin so, and most others; the rest are the owner's."""

_FUNCTION = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
_LARGEST = 2**31 - 1


def whole(low: int, high: int = _LARGEST) -> Meta:
    """Integers from `low` to `high`."""
    return Meta(ge=low, le=high, description=f"a whole number from {low}" + ("" if high == _LARGEST else f" to {high}"))


def real(low: float, high: float = math.inf) -> Meta:
    """Finite numbers from `low` to `high`."""
    return Meta(ge=low, le=min(high, sys.float_info.max), description=f"a number from {low:g}{_up_to(high)}")


def above(low: float, high: float = math.inf) -> Meta:
    """Finite numbers above `low`, up to `high`."""
    return Meta(gt=low, le=min(high, sys.float_info.max), description=f"a number above {low:g}{_up_to(high)}")


def below(high: float) -> Meta:
    """Finite numbers below `high`."""
    return Meta(ge=-sys.float_info.max, lt=high, description=f"a number below {high:g}")


def at_most(high: float) -> Meta:
    """Finite numbers up to `high`."""
    return Meta(ge=-sys.float_info.max, le=high, description=f"a number of at most {high:g}")


def _up_to(high: float) -> str:
    return "" if high == math.inf else f" to {high:g}"


def named(pattern: re.Pattern[str], what: str, longest: int) -> Meta:
    """Returns names that are safe as file names, of so many characters at most."""
    return Meta(
        pattern=rf"^{pattern.pattern}\Z",
        description=f"{what}: letters, digits, '_', '-' and '.', starting with a letter or digit, not ending in '.' or "
        f"'.json', {longest} at most",
    )


def one_of_or_own(*known: str) -> Meta:
    """Returns one of the built-in names, or a function of the user's own."""
    return Meta(
        pattern=rf"^({'|'.join(map(re.escape, known))}|{_FUNCTION})\Z",
        description="one of " + ", ".join(known) + ", or `package.module:function`",
        extra={"choices": known},
    )


WorkerNames = Annotated[
    tuple[Annotated[str, Meta(pattern=rf"^({NODE_ID.pattern}|[A-Za-z0-9+/]{{43}}=)\Z")], ...],
    Meta(min_length=1, description="node ids or public keys, separated by commas"),
]
A_TABLE = "a JSON object; in a settings file a table"
Table = Annotated[dict[str, Any], Meta(min_length=1, description=A_TABLE)]
Text = Annotated[str, Meta(pattern=r"\S", description="a non-empty text")]
Names = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[^,]*[^,\s][^,]*\Z")], ...],
    Meta(min_length=1, description="one or more names, separated by commas"),
]


def setting(
    default: T,
    *env: str,
    run_flag: str = "",
    node_flag: str = "",
    up_flag: str = "",
    first: bool = False,
    secret: bool = False,
    reaches: bool = False,
    identity: bool = False,
) -> T:
    """Returns a field with its default and the environment variables that set it, the first being its name in messages.

    Args:
        run_flag: name of the command-line flag of every command that runs something.
        node_flag: name of the flag of commands that run a single node.
        up_flag: name of the flag of `swarm up` alone: it is of what runs beside the nodes, and none of these has it.
        first: `--help` shows the flag; else `--help-all` does.
        secret: its value is never shown.
        reaches: it says which servers are asked, under whose name, or which folders of this machine are written; no
            value of a shared place is taken for it.
        identity: of a plugin's setting: all nodes of an experiment need the same value, and its default is that of the
            experiments of before.
    """
    metadata: dict[str, Any] = {
        "env": env,
        "run_flag": run_flag,
        "node_flag": node_flag,
        "up_flag": up_flag,
        "first": first,
    }
    metadata |= {"secret": secret, "reaches": reaches or secret, "identity": identity}
    made: Any = field(default=default, metadata=metadata)  # dataclass() puts the default in its place
    return made  # type: ignore[no-any-return]


def allowed(kind: Any) -> str:
    """Returns in words what a value of this annotated type may be."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if get_origin(kind) is Annotated:
        return str(kind.__metadata__[0].description)
    if kind is bool:
        return "True or False"
    return ", or ".join(allowed(option) for option in get_args(kind) if option is not type(None))


def choices(kind: Any) -> tuple[str, ...]:
    """Returns the names that a value of this annotated type is chosen from; none where it is no such choice."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    metas = kind.__metadata__ if get_origin(kind) is Annotated else ()
    return tuple(name for meta in metas for name in (meta.extra or {}).get("choices", ()))


def options(kind: Any) -> list[Any]:
    """Returns the plain types that a value of this annotated type may have, None left out."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [plain_type(option) for option in kinds if option is not type(None)]


def plain_type(kind: Any) -> Any:
    """Returns the type without constraints, options and the types of parts: bool, int, float, tuple or str."""
    if get_origin(kind) in (Annotated, Union, UnionType):
        return plain_type(get_args(kind)[0])
    return {Literal: str}.get(get_origin(kind) or kind, get_origin(kind) or kind)


def as_text(value: Any) -> str:
    """Returns a value as it is written in a variable; `None` where there is none."""
    if isinstance(value, dict):
        return msgspec.json.encode(plain(value)).decode()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
