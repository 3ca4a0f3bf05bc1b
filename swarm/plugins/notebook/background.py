"""`%swarm background COMMAND`: a command that outlives the cell and the kernel that started it.

    %swarm background up ... ─▶ swarm up ..., in a session of its own ─▶ swarm.log, which it holds locked to its end
                     └ shows what it says for a while ─▶ exit code: its own if it has ended, else 0

The lock belongs to the open file, so whoever asks it knows whether the command still runs, whatever became of others.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from swarm.children import child_environment, module_command
from swarm.errors import ConfigError, ExperimentError, StoreError
from swarm.systems import require_for

if sys.platform != "win32":  # which runs no nodes
    import fcntl

OUTPUT = Path("swarm.log")
"""In the working folder."""
SHOWN_FOR = 15.0
"""Seconds for which its output is shown: what is refused is refused by then, but for models that are fetched first."""
POLL_SECONDS = 0.1
_BEGINS = "$ swarm "
"""Start of the line that names a command, above its output."""


def run_in_background(words: Sequence[str]) -> int:
    """Starts a command that goes on when this notebook is gone, and adds its output to swarm.log, here.

    It shows what the command says in the first 15 seconds. One command runs at a time in one working folder.

    Args:
        words: the command, without `swarm`.

    Returns:
        the command's exit code if it has ended by then, else 0.

    Raises:
        ConfigError: no command, or Windows, which runs no nodes.
        ExperimentError: another command runs in this working folder.
        StoreError: the file of the output cannot be written or locked.
    """
    require_for("`%swarm background`")
    if not words:
        raise ConfigError("expected a command, such as `%swarm background up --nodes 4`, got none")
    command = shlex.join(["swarm", *words])
    with _opened() as output:
        if not _locked(output):
            return _runs_already(command)
        begins = output.seek(0, os.SEEK_END)
        output.write(f"$ {command}\n".encode())
        output.flush()
        started = subprocess.Popen(
            module_command("swarm", *words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=child_environment(os.environ) | {"PYTHONUNBUFFERED": "1"},
        )
    code = _show(started, begins)
    if code is None:
        _say(f"it goes on in the background as process {started.pid}; its output: {OUTPUT.absolute()}")
        return 0
    return code if code >= 0 else 128 - code


@contextmanager
def _opened() -> Iterator[IO[bytes]]:
    """The file of the output, to be appended to. Raises StoreError: it cannot be written."""
    try:
        descriptor = os.open(OUTPUT, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{OUTPUT.absolute()}: {error.strerror}; go to a folder that is writable") from None
    with open(descriptor, "ab+") as output:
        yield output


def _locked(output: IO[bytes]) -> bool:
    """Take the lock, for all that have this open file; False: another one has it."""
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        what = f"{OUTPUT.absolute()} cannot be locked ({error.strerror})"
        raise StoreError(f"{what}; go to a folder on a local disk") from None
    return True


def _runs_already(command: str) -> int:
    """0 where it is this very command.

    Raises:
        ExperimentError: it is another one.
    """
    lines = OUTPUT.read_text("utf-8", "replace").splitlines()
    there = next((line.removeprefix("$ ") for line in reversed(lines) if line.startswith(_BEGINS)), "another command")
    if there != command:
        raise ExperimentError(
            f"`{there}` runs here already, its output: {OUTPUT.absolute()}. End it first (`swarm down`), or start this "
            "one in another working folder"
        )
    _say(f"`{command}` runs already, nothing was started; its output: {OUTPUT.absolute()}")
    return 0


def runs_in_background() -> bool:
    """Tells whether a command that was started here still runs: it holds the file of its output locked."""
    if sys.platform == "win32":
        return False
    try:
        with open(OUTPUT, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _show(started: subprocess.Popen[bytes], begins: int) -> int | None:
    """Print what it says, for SHOWN_FOR; its exit code, None: it goes on."""
    ends = time.monotonic() + SHOWN_FOR
    with open(OUTPUT, "rb") as output:
        output.seek(begins)
        while True:
            code, over = started.poll(), time.monotonic() >= ends  # before its last words are read
            if said := output.read().decode("utf-8", "replace"):
                _say(said.removesuffix("\n"))
            if code is not None or over:
                return code
            time.sleep(POLL_SECONDS)


def _say(text: str) -> None:
    """Shows text in the cell at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
