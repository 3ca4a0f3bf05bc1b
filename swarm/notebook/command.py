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
from typing import IO, TYPE_CHECKING

from swarm.children import child_environment, module_command

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
    """One command to its end; its exit code.

    Args:
        output: where its words go; None: this process's standard output.
    """
    with subprocess.Popen(
        module_command("swarm", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(os.environ) | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for ask in (_ask, subprocess.Popen.kill):
            try:
                _pass_on(process.stdout, output or sys.stdout)
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
