"""Audit hook of a scoring child: what CPython audits and is not on the allow-list does not happen.

What is allowed is listed, not what is refused: opening files, sockets, processes, imports, ctypes and executing code
are all audited by CPython (https://docs.python.org/3/library/audit_events.html), and so will be what it adds later.

    ALLOWED_EVENTS    happen
    LIBRARY_EVENTS    while answers are scored they raise an error, as where the file or module is missing; while
                      questions are made they end the process
    all others        end the process, always

LIBRARY_EVENTS are what a scorer's library does by itself at some text, as ever an honest one: `ast.literal_eval` of a
letter outside ASCII imports `unicodedata`. The text does not get what it asked for, and the scorer goes on without, so
that no other answer pays. All others are what no library does because of a text: to start a process, to connect, to
write. They end the process rather than raise, since scorers have bare `except:` clauses, and the server counts the
answer as one that had to be killed. Questions are strict because a generator that goes on without a module would make
another question than on a node that has it.

A child that executes answers is ended by any of them: what the hook raises would show it the hook's own frame.

A breach ends the process whatever has become of stderr and of the os module. An audit hook is no jail for code that is
executed already: that is why a family's `prepare` takes away whatever executes a string, and swarm.tasks.bars what the
kernel can refuse.
"""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

REFUSED_EXIT = 77
"""Exit status of a child that tried what it may not."""

ALLOWED_EVENTS = frozenset(
    {
        *("compile", "builtins.id", "array.__new__"),
        *("object.__getattr__", "sys._getframe", "sys._getframemodulename", "sys.unraisablehook"),
    }
)
"""Audit events of honest work, which compute and look, and reach nothing outside. `ast.parse` raises `compile`; running
what was compiled raises `exec`, refused."""

LIBRARY_EVENTS = frozenset(
    {
        *("import", "open", "exec", "marshal.loads", "marshal.load", "pickle.find_class"),
        *("os.listdir", "os.scandir", "glob.glob", "glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob"),
        *("code.__new__", "function.__new__", "object.__setattr__", "object.__delattr__"),
        *("gc.get_objects", "gc.get_referents", "gc.get_referrers", "sys._current_frames", "time.sleep"),
    }
)
"""What a library does by itself: import late, read its own data, make a class or a function, wait. Opening a file to
write it is none of them."""

CODE_EVENTS = frozenset(
    {"exec", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys._getframe", "code.__new__"}
)
"""Events of a child that executes what it is given, on top: plain Python, named tuples and dataclasses raise them."""

MODULES = (
    *("unicodedata", "stringprep", "_strptime", "calendar", "locale", "linecache", "tokenize", "traceback"),
    *("ast", "bisect", "cmath", "copy", "datetime", "decimal", "difflib", "fractions", "heapq", "json", "keyword"),
    *("numbers", "operator", "random", "statistics", "string", "struct", "textwrap", "token", "zlib"),
)
CODECS = (
    *("ascii", "latin-1", "utf-7", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"),
    *("utf-32", "utf-32-le", "utf-32-be", "cp437", "cp1250", "cp1251", "cp1252", "iso8859-15"),
    *("koi8-r", "mac-roman", "charmap", "idna", "punycode", "unicode-escape", "raw-unicode-escape"),
    *("gbk", "gb18030", "big5", "shift-jis", "euc-jp", "euc-kr", "rot13", "hex"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Confinement:
    """Confines this process for the rest of its life."""

    def __init__(self, scores: list[bool]) -> None:
        self._scores = scores

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Has LIBRARY_EVENTS raise while answers are scored."""
        self._scores[:] = [True]
        try:
            yield
        finally:
            self._scores.clear()


def enter(also: frozenset[str] = frozenset()) -> Confinement:
    """Confine this process for the rest of its life. Everything that it needs must be imported already.

    Args:
        also: events that are allowed on top.
    """
    scores: list[bool] = []
    sys.addaudithook(_hook(scores, ALLOWED_EVENTS | also, REFUSED_EXIT, select.select, os.write, os._exit))
    return Confinement(scores)


def _hook(
    scores: list[bool],
    allowed: frozenset[str],
    status: int,
    select_: Callable[..., tuple[object, ...]],
    write: Callable[[int, bytes], int],
    end: Callable[[int], object],
) -> Callable[[str, tuple[object, ...]], None]:
    """Returns the hook, which looks nothing up in a module: code in this process can change what lies there."""
    refused, missing, of_libraries, writing = PermissionError, ImportError, LIBRARY_EVENTS, _WRITING

    def refuse_unless_allowed(event: str, arguments: tuple[object, ...]) -> None:
        if event in allowed:
            return
        goes_on = scores and event in of_libraries and not (event == "open" and writes(arguments))
        try:
            if is_ready():
                what = "was refused" if goes_on else "ended"
                write(2, f"scoring child {what}: it tried {event:.200}\n".encode(errors="replace"))
        finally:
            if not goes_on:
                end(status)
        raise (missing if event == "import" else refused)(f"{event} is closed to a scoring process")

    def writes(arguments: tuple[object, ...]) -> bool:
        """Tells whether the arguments of an `open` (path, mode, flags) ask to write."""
        flags = arguments[2] if len(arguments) > 2 else writing
        return not isinstance(flags, int) or flags & writing != 0

    def is_ready() -> bool:
        """A full pipe would block, but for that of swarm.tasks.bounded; where calls are barred nobody can look."""
        try:
            return bool(select_((), (2,), (), 0)[1])
        except refused:
            return True

    return refuse_unless_allowed


def prime() -> None:
    """Imports what text of any script makes Python itself import, before the first answer is read.

    A scoring child can import nothing. Yet Python's own parts import late, at some texts and not at others:

        ast.parse, eval, compile of a letter outside ASCII     unicodedata
        text to bytes and back by a codec's name               encodings.*, stringprep
        datetime.strptime                                      _strptime, calendar, locale
        a warning or an error that is shown                    linecache, tokenize, traceback

    So a server imports them all, some fifty milliseconds, and an honest answer meets no closed door.
    Raises nothing: a Python without one of them imports it at no text either.
    """
    for name in MODULES:
        with suppress(ImportError):
            import_module(name)
    for codec in CODECS:
        with suppress(ImportError, LookupError):
            codecs.lookup(codec)
    compile("é", "<primed>", "eval")
