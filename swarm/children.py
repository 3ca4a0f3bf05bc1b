"""Starts Python child processes without the working folder on their import path.

A command may be typed in a shared folder, where strangers put files such as `anyio.py` or `torch.py`; `python -m` and
`python -c` would import those before the installed packages. `-P` and PYTHONSAFEPATH (Python 3.11) leave the working
folder out, for the child and for whatever it starts itself.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import swarm

PACKAGE_ROOT = Path(swarm.__file__).resolve().parent.parent


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command line of `python -m module`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """Returns the command line of `python -c code`."""
    return [sys.executable, "-P", "-c", code, *arguments]


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment for either of them, in which this very package is found from any folder.

    Relative entries of PYTHONPATH, the empty one included, mean the working folder and are left out. A checkout that is
    not installed is added; an installed package needs no entry, which would put all of site-packages before the
    standard library.
    """
    entries = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)]
    installed = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    root = str(PACKAGE_ROOT)
    if root not in installed and root not in entries:
        entries.insert(0, root)
    kept = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    return kept | {"PYTHONSAFEPATH": "1"} | ({"PYTHONPATH": os.pathsep.join(entries)} if entries else {})
