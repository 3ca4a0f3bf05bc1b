"""Names what is installed on request alone: the extras of the package, each some libraries.

The command below names the libraries themselves and never swarm, whose name on the package index may be anybody's. It
works for a checkout (`pip install -e .`) as for a wheel, from any folder. A checkout that is not installed is installed
with the extra.
"""

from __future__ import annotations

import sys
from pathlib import Path

from swarm.errors import ConfigError

NAME = "swarm-sapo"


def lacking(what: str, libraries: str, extra: str, instead: str = "") -> ConfigError:
    """Returns the error that something needs libraries of an extra.

    Args:
        what: needs them, such as "`swarm keys`".
        instead: what to do without them.
    """
    otherwise = f", or {instead}" if instead else ""
    return ConfigError(f"{what} needs {libraries}, not installed: {installed_by(extra)}{otherwise}")


def installed_by(extra: str) -> str:
    """Returns the command that installs it beside this program, whatever `pip` means in the shell."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    return f"{python} -m pip install {_libraries(extra)}"


def _libraries(extra: str) -> str:
    """Returns how pip is told of an extra's libraries."""
    from importlib.metadata import PackageNotFoundError, requires  # here: it imports the half of `email`

    from packaging.requirements import Requirement

    try:
        needed = [Requirement(line) for line in requires(NAME) or []]
    except PackageNotFoundError:
        return f'-e "{Path(__file__).parents[1]}[{extra}]"'
    chosen = [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})]
    return " ".join(f'"{one.name}{one.specifier}"' for one in chosen)
