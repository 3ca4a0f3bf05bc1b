"""`%swarm COMMAND`: a command of the terminal in a cell.

Unlike with `!swarm`, its output comes as lines and never as what moves a terminal's cursor, one that fails stops the
notebook, and the stop button asks it once to end, as Ctrl-C does: it is in a process group of its own, which a kernel's
interrupt does not reach.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from swarm.children import child_environment, module_command
from swarm.errors import ConfigError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

STOPPED = (128 + signal.SIGINT, -signal.SIGINT)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext swarm.notebook`: from then on a kernel knows `%swarm`."""
    shell.register_magic_function(run_line, "line", "swarm")


def run_line(line: str) -> None:
    """Run `swarm` with these words, in the kernel's environment, and show what it says.

    Raises:
        UsageError: it failed; says with which exit code.
    """
    from IPython.core.error import UsageError

    code = run_command(shlex.split(line))
    if code not in (0, *STOPPED):
        raise UsageError(f"swarm {line}: exit code {code}")


def run_command(words: list[str], output: IO[str] | None = None) -> int:
    """One command of ours to its end; its exit code.

    Args:
        output: where its words go; None: this process's standard output.
    """
    return _run(module_command("swarm", *words), None, child_environment(os.environ), output or sys.stdout)


def run_with_live_output(
    command: Sequence[str], cwd: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None
) -> int:
    """Run any command, show what it says line by line as it says it, and return its exit code.

    The stop button asks it once to end; a second time it is killed.

    Args:
        command: the program and its arguments, such as `[sys.executable, "-P", "-m", "services.node"]`.
        cwd: its working folder; None: this one's.
        env: its environment; None: this one's.
    """
    if isinstance(command, str):
        raise ConfigError(f"expected a list of words, got the text {command!r:.200}; shlex.split makes one of it")
    return _run(command, cwd, os.environ if env is None else env, sys.stdout)


def _run(command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str], output: IO[str]) -> int:
    with subprocess.Popen(
        list(command),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**env, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for ask in (_ask, subprocess.Popen.kill):
            try:
                _pass_on(process.stdout, output)
                return process.wait()
            except KeyboardInterrupt:
                ask(process)
        return process.wait()


def _ask(process: subprocess.Popen[str]) -> None:
    """To end, as Ctrl-C does; Windows knows only at once."""
    process.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)


def _pass_on(said: IO[str], output: IO[str]) -> None:
    for line in said:
        output.write(line)
        output.flush()
