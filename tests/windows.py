"""An interpreter that lacks what CPython's build for another system lacks, so that a test shows what works without it.

    typeshed's stubs ─for linux, minus for win32─▶ missing names ─▶ pretend(): modules gone, names gone, `os` as there
                                    for darwin                  ─▶ pretend_mac(): names gone, no /proc, no Landlock

typeshed follows the "Availability" notes of the standard library's documentation, and comes with mypy. Libraries that
are loaded before `pretend` keep what they found, as they have their own ways on Windows; whatever is imported after it,
swarm first of all, gets modules without those names. `os.name` stays, and so do paths: what the slashes, the letters of
drives and the reserved names of Windows do is not shown here.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import errno
import importlib
import io
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

_TYPING = {"typing", "typing_extensions", "types", "collections.abc", "collections", "enum", "_typeshed", "abc"}
_NOT_LOOKED_AT = ("asyncio", "multiprocessing", "concurrent", "lib2to3", "distutils", "tkinter", "xml", "__main__")
"""Packages of many modules, each of which knows its platform: those that are loaded stay."""
FIRST = (
    *("anyio", "asyncio", "cyclopts", "email.message", "faulthandler", "importlib.metadata", "logging.handlers"),
    *("msgspec", "multiprocessing", "packaging.requirements", "rich.console", "shutil", "socket", "structlog"),
    *("concurrent.futures.process", "platform", "subprocess", "tempfile", "uuid", "uvicorn", "watchfiles"),
)
"""Loaded before anything goes."""
_CHANGING = frozenset({"stdin", "stdout", "stderr"})
ANALYSIS = (
    *(
        "jinja2",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_pdf",
        "matplotlib.backends.backend_svg",
    ),
    *("pandas", "pyarrow.parquet", "scipy.stats"),
)
"""What reports load: a second or two, so only where they are tried."""


# ── what there is not ───────────────────────────────────────────────────────────────────────────────────────────────
@cache
def missing(system: str = "win32") -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """Modules of the standard library that a system has not, and module -> names of it that this system has not."""
    gone, lacking = set[str](), dict[str, frozenset[str]]()
    for module, tree in _stubs():
        here, there = (_names(tree.body, platform) for platform in ("linux", system))
        if here - there and not any(not name.startswith("_") for name in there):
            gone.add(module)
        elif here - there:
            lacking[module] = frozenset(here - there)
    return frozenset(gone), lacking


def _stubs() -> Iterator[tuple[str, ast.Module]]:
    found = find_spec("mypy")
    assert found is not None, "typeshed comes with mypy: pip install mypy"
    assert found.origin is not None
    folder = Path(found.origin).parent / "typeshed" / "stdlib"
    for file in sorted(folder.rglob("*.pyi")):
        module = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        text = file.read_text("utf-8")
        if "sys.platform" in text and module.partition(".")[0] not in _NOT_LOOKED_AT:
            yield module, ast.parse(text)


def _names(body: list[ast.stmt], platform: str) -> set[str]:
    """What a stub gives a module on a platform; an import gives what it names."""
    found = set[str]()
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                found |= _names(then if _holds(test, platform) else otherwise, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case ast.ImportFrom(module=source, names=names) if source not in _TYPING:
                found |= {each.asname or each.name for each in names}
    return found


def _holds(test: ast.expr, platform: str) -> bool:
    system = SimpleNamespace(platform=platform, version_info=sys.version_info)
    return bool(eval(compile(ast.Expression(test), "stub", "eval"), {"sys": system}))


# ── the pretence ────────────────────────────────────────────────────────────────────────────────────────────────────
def pretend(*also_first: str) -> None:
    """From now on modules are imported as on Windows, in this process and for good.

    A text file that swarm opens without an encoding, which Windows would take for cp1252, is an error; that needs
    `-X warn_default_encoding`.

    Args:
        also_first: modules that are loaded before.
    """
    assert not any(name.partition(".")[0] == "swarm" for name in sys.modules), "too late: swarm has been imported"
    for name in (*FIRST, *also_first):
        importlib.import_module(name)
    _take_away("win32")
    vars(sys.modules["os"]).update(_os())
    vars(sys.modules["sys"])["platform"] = "win32"
    vars(sys.modules["platform"])["system"] = lambda: "Windows"
    vars(sys.modules["asyncio"])["ProactorEventLoop"] = asyncio.SelectorEventLoop  # stands for the loop that is there
    warnings.filterwarnings("error", category=EncodingWarning, module=r"swarm\..*")


def pretend_mac() -> None:
    """From now on modules are imported as on a Mac, in this process and for good. `platform.system` stays: by it
    libraries would look for other files."""
    assert not any(name.partition(".")[0] == "swarm" for name in sys.modules), "too late: swarm has been imported"
    for name in (*FIRST, "psutil"):
        importlib.import_module(name)
    sysconfig.get_config_vars()  # read from a file that is named by the system
    sys.modules["_scproxy"] = ModuleType("_scproxy", "the proxies of that system: there are none")
    vars(sys.modules["_scproxy"]).update(_get_proxy_settings=dict, _get_proxies=dict)
    _take_away("darwin")
    vars(sys.modules["sys"])["platform"] = "darwin"
    os_now = sys.modules["os"]
    for module, name in ((builtins, "open"), (io, "open"), (os_now, "open"), (os_now, "stat"), (os_now, "listdir")):
        vars(module)[name] = told = _without_proc(getattr(module, name))
        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            able |= {told} if getattr(os, name, None) in able else set()


def _without_proc(function: Any) -> Any:
    def called(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | Path) and str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return function(path, *arguments, **options)

    return called


def _take_away(system: str) -> None:
    gone, lacking = missing(system)
    sys.modules.update(dict.fromkeys(gone))  # None: the import system takes it for a module that there is not
    for name, names in lacking.items():
        if name in sys.modules:
            sys.modules[name] = _without(sys.modules[name], names)


def _without(module: ModuleType, names: frozenset[str]) -> ModuleType:
    """A copy of a module that lacks some names."""
    copy = ModuleType(module.__name__, module.__doc__)
    vars(copy).update({name: value for name, value in vars(module).items() if name not in names | _CHANGING})
    vars(copy)["__getattr__"] = partial(_of_the_module, module, names)
    return copy


def _of_the_module(module: ModuleType, names: frozenset[str], name: str) -> Any:
    """What comes into a module later is in its copy, too."""
    if name in names:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def _os() -> dict[str, Any]:
    """How functions of `os` behave that Windows has, too."""
    by_path = ("stat", "lstat", "mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "readlink", "chmod")
    changed: dict[str, Any] = {name: _by_path_alone(getattr(os, name)) for name in by_path}
    return changed | {
        "open": _open,
        "kill": _kill,
        "rename": _rename,
        "scandir": _listing(os.scandir),
        "listdir": _listing(os.listdir),
        "supports_dir_fd": set(),
        "supports_fd": {os.stat, os.truncate},
        "O_BINARY": 0,
        "O_NOINHERIT": os.O_CLOEXEC,
    }


def _by_path_alone(function: Any) -> Any:
    def called(*arguments: Any, **options: Any) -> Any:
        for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"):
            if options.get(name) is not None:
                raise NotImplementedError(f"{name} unavailable on this platform")
        return function(*arguments, **options)

    return called


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return os.open(path, flags, mode)


def _rename(source: Any, target: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    os.rename(source, target)


def _listing(function: Any) -> Any:
    def called(path: Any = ".") -> Any:
        if isinstance(path, int):
            raise TypeError("path should be string, bytes, os.PathLike or None, not int")
        return function(path)

    return called


def _kill(pid: int, number: int) -> None:
    raise AssertionError(f"os.kill({pid}, {number}) ends a process there, and with 0 sends Ctrl-C: it asks nothing")
