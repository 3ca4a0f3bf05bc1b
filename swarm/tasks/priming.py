"""Imports what text of any script makes Python itself import, before the first answer is read.

A scoring child can import nothing. Yet Python's own parts import late, at some texts and not at others:

    ast.parse, eval, compile of a letter outside ASCII     unicodedata
    text to bytes and back by a codec's name               encodings.*, stringprep
    datetime.strptime                                      _strptime, calendar, locale
    a warning or an error that is shown                    linecache, tokenize, traceback

So a server imports them all, some fifty milliseconds, and an honest answer meets no closed door.
"""

from __future__ import annotations

import codecs
import contextlib
from importlib import import_module

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


def prime() -> None:
    """Import all of it. Raises nothing: a Python without one of them imports it at no text either."""
    for name in MODULES:
        with contextlib.suppress(ImportError):
            import_module(name)
    for codec in CODECS:
        with contextlib.suppress(ImportError, LookupError):
            codecs.lookup(codec)
    compile("é", "<primed>", "eval")
