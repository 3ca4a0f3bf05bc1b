"""Says what nodes need of the operating system, and what views and reports do without.

Linux and macOS have it all. Windows has not; there swarm looks at what nodes write elsewhere.
"""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from swarm.errors import ConfigError

HERE_WORKS = "status, top, web, inspect, logs, summary, validate, doctor, export, study report, functions for notebooks"


def own_state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns where this program keeps what is this user's, and must outlive the process (XDG Base Directory)."""
    return Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "swarm"


def missing() -> list[str]:
    """Returns what nodes need and this system has not; empty where they run."""
    there = {
        "folders that are opened (openat)": os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY"),
        "fork": hasattr(os, "fork"),
        "file locks (fcntl)": find_spec("fcntl") is not None,
        "limits for child processes (resource)": find_spec("resource") is not None,
        "signals (SIGKILL, SIGHUP)": hasattr(signal, "SIGKILL") and hasattr(signal, "SIGHUP"),
    }
    return [name for name, has in there.items() if not has]


def require_for(what: str) -> None:
    """See that this system has what nodes need.

    Args:
        what: would be done with them, such as "`swarm up`".

    Raises:
        ConfigError: it lacks something; says what, and where to start nodes instead.
    """
    if lacking := missing():
        raise ConfigError(f"{what} cannot run here: {why_not(lacking)}. {instead()}")


def why_not(lacking: list[str]) -> str:
    """`it needs what Windows lacks: fork, ...`."""
    return f"it needs what {platform.system() or 'this system'} lacks: {', '.join(lacking)}"


def instead() -> str:
    """Says where nodes run, and what works here."""
    return (
        "Start it in WSL2 (type `wsl --install`, then install swarm in its Linux), in Docker, in Colab or on another "
        f"machine. These work here on a folder that both see: {HERE_WORKS}"
    )
