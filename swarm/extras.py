"""What is installed on request alone: the extras of the package, each some libraries.

The command below works for a checkout (`pip install -e .`) as for a wheel, from any folder: what is installed of swarm
stays as it is, and no index need know of it. A checkout that is not installed is installed with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from swarm.errors import ConfigError

NAME = "swarm-sapo"


def lacking(what: str, libraries: str, extra: str, instead: str = "") -> ConfigError:
    """The error that something needs libraries of an extra.

    Args:
        what: needs them, such as "`swarm keys`".
        instead: what to do without them.
    """
    otherwise = f", or {instead}" if instead else ""
    return ConfigError(f"{what} needs {libraries}, not installed: {installed_by(extra)}{otherwise}")


def installed_by(extra: str) -> str:
    """The command that installs it beside this program, whatever `pip` means in the shell."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    return f"{python} -m pip install {_this_swarm(extra)}"


def _this_swarm(extra: str) -> str:
    """What pip takes for the swarm that runs here, with an extra."""
    from importlib.metadata import PackageNotFoundError, distribution  # here: it imports the half of `email`

    try:
        distribution(NAME)
    except PackageNotFoundError:
        return f'-e "{Path(__file__).parents[1]}[{extra}]"'
    return f'"{NAME}[{extra}]"'
