"""Importing reasoning-gym into a scoring server: the modules of the nine SAPO tasks alone, made safe.

reasoning-gym's packages import every task of theirs, and with them matplotlib, sympy and numpy: a second of start-up,
90 MB, and a thread. A server forks for every batch, and a fork costs in proportion to the memory that it has to share.

    reasoning_gym, .algorithmic, ...   bare packages: their folder is known, their __init__ is not run
    reasoning_gym.code.bf, ...  imported as they are; each registers its dataset

For a process of its own only: whoever imports reasoning_gym afterwards finds these nine tasks and `create_dataset`,
and after `disarm` none of them executes a string.
"""

from __future__ import annotations

import collections
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable

from swarm.tasks.gym import safe_eval
from swarm.tasks.gym.profiles import SAPO_TASKS

_GYM = "reasoning_gym"
_PACKAGE_OF_TASK = {
    "base_conversion": "algorithmic",
    "basic_arithmetic": "arithmetic",
    "arc_1d": "arc",
    "bf": "code",
    "propositional_logic": "logic",
    "fraction_simplification": "arithmetic",
    "decimal_arithmetic": "arithmetic",
    "calendar_arithmetic": "arithmetic",
    "binary_matrix": "algorithmic",
}


def import_sapo_tasks() -> None:
    """Make `from reasoning_gym import create_dataset` work for the nine tasks, and import nothing else.

    Raises:
        ImportError: reasoning-gym is absent, or its modules lie elsewhere than in the versions that we know.
    """
    _stand_in(_GYM)
    for package in sorted(set(_PACKAGE_OF_TASK.values())):
        _stand_in(f"{_GYM}.{package}")
    for task in SAPO_TASKS:
        importlib.import_module(f"{_GYM}.{_PACKAGE_OF_TASK[task]}.{task}")
    vars(sys.modules[_GYM])["create_dataset"] = importlib.import_module(f"{_GYM}.factory").create_dataset


def _stand_in(package: str) -> None:
    """A package that knows where its modules lie, without having run its __init__."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"no package {package!r}; install reasoning-gym", name=package)
    sys.modules[package] = importlib.util.module_from_spec(spec)


def disarm() -> None:
    """Replace what executes strings in the modules of the nine SAPO tasks; scores and questions stay the same."""
    for module, name, replacement in _REPLACEMENTS:
        vars(importlib.import_module(module))[name] = replacement


def _namedtuple(name: str, fields: Iterable[str]) -> type:
    """collections.namedtuple, which executes a string, made once for each name and fields."""
    return _make_namedtuple(name, tuple(fields))


@functools.cache
def _make_namedtuple(name: str, fields: tuple[str, ...]) -> type:
    return collections.namedtuple(name, fields)


_BF_COMPILER = f"{_GYM}.code.contrib.bfit.Compiler"
_REPLACEMENTS: tuple[tuple[str, str, Callable[..., object]], ...] = (
    (f"{_GYM}.algorithmic.binary_matrix", "eval", safe_eval.literal),
    (f"{_GYM}.arithmetic.basic_arithmetic", "eval", safe_eval.arithmetic),
    (f"{_BF_COMPILER}.FunctionCompiler", "namedtuple", _namedtuple),
    (f"{_BF_COMPILER}.Globals", "namedtuple", _namedtuple),
)
"""Module, global name, what stands in for it."""
