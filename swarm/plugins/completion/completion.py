"""`swarm completion`: the script that completes commands, flags and choices in a shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from swarm.cli.say import say
from swarm.errors import ConfigError

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[Shell | None, Parameter(help="Without one, that of $SHELL.")] = None,
    /,
    *,
    install: Annotated[bool, Parameter(help="Write it where the shell looks, and name the file.")] = False,
) -> None:
    """Print the script that completes `swarm`: `eval "$(swarm completion bash)"`, or once and for all --install."""
    from swarm.cli.main import add_plugins, app

    add_plugins([])
    chosen = shell or _of_user(os.environ.get("SHELL", ""))
    if install:
        say(f"written: {app.install_completion(shell=chosen)}; it counts in new shells")
    else:
        sys.stdout.write(app.generate_completion(prog_name="swarm", shell=chosen))


def _of_user(shell: str) -> Shell:
    name = Path(shell).name
    if name not in SHELLS:
        raise ConfigError(f"expected $SHELL to be one of {', '.join(SHELLS)}, got {name or 'none'}; name one of them")
    return name
