"""Importing reasoning-gym into a scoring server: the modules of the datasets asked for alone, made safe.

reasoning-gym's packages import every dataset of theirs, and with them matplotlib, sympy and numpy: a second of
start-up, 90 MB, and a thread. A server forks for every batch, and a fork costs in proportion to the memory that it has
to share.

    reasoning_gym, .algorithmic, ...   bare packages: their folder is known, their __init__ is not run
    reasoning_gym.code.bf, ...  imported as they are; each registers its dataset

For a process of its own only: whoever imports reasoning_gym afterwards finds these datasets and `create_dataset`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from swarm.tasks.gym.names import PACKAGE, modules

_LAZY = re.compile(r"^[ \t]+(?:from[ \t]+(\.*[\w.]*)[ \t]+import|import[ \t]+([\w.]+))", re.MULTILINE)
_NOT_FOR_QUESTIONS = re.compile(
    r"sympy\.(physics(?!\.units$)|plotting|stats|codegen|testing|diffgeom|categories|crypto|holonomic|external|interactive|parsing"
    r"|printing|vector|liealgebras|utilities)\b|.*\btests\b"
)
"""Parts of sympy that no dataset comes to; they would take seconds and 200 MB."""


def import_datasets(datasets: Iterable[str]) -> None:
    """Make `from reasoning_gym import create_dataset` work for these datasets, and import nothing else.

    Raises:
        ImportError: reasoning-gym is absent, or its modules lie elsewhere than in the versions that we know.
        ConfigError: reasoning-gym is absent.
    """
    found = [modules()[dataset] for dataset in datasets]
    _stand_in(PACKAGE)
    importlib.import_module(f"{PACKAGE}.coaching")  # first: it and `factory` import each other
    for package in sorted({module.split(".")[1] for module in found}):
        _stand_in(f"{PACKAGE}.{package}")
    for module in found:
        importlib.import_module(module)
    vars(sys.modules[PACKAGE])["create_dataset"] = importlib.import_module(f"{PACKAGE}.factory").create_dataset


def _stand_in(package: str) -> None:
    """A package that knows where its modules lie, without having run its __init__; one that is there is left."""
    if package in sys.modules:
        return
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"no package {package!r}; install reasoning-gym", name=package)
    sys.modules[package] = importlib.util.module_from_spec(spec)


def make_sympy_ready() -> None:
    """Import what functions of sympy import when they are called, and make the table of integrals that the first of
    them makes: in a child they cannot. Nothing where sympy is not imported.
    """
    if "sympy" not in sys.modules:
        return
    _import_late()
    symbol = sys.modules["sympy"].Symbol("x")
    sys.modules["sympy.integrals.meijerint"].meijerint_indefinite(symbol, symbol)


def _import_late() -> None:
    seen: set[str] = set()
    while new := [name for name in sys.modules if name.partition(".")[0] == "sympy" and name not in seen]:
        seen.update(new)
        for late in {late for name in new for late in _imported_late(name)}:
            try:
                importlib.import_module(late)
            except ImportError:  # a name in a docstring, or an optional back end
                continue


def _imported_late(module: str) -> Iterator[str]:
    path = getattr(sys.modules[module], "__file__", None) or ""
    if not path.endswith(".py"):
        return
    package = sys.modules[module].__package__
    for from_, plain in _LAZY.findall(Path(path).read_text(encoding="utf-8")):
        name = from_ or plain
        late = importlib.util.resolve_name(name, package) if name.startswith(".") else name
        if late.startswith("sympy.") and not _NOT_FOR_QUESTIONS.match(late):
            yield late
