"""Who is told: a command of the user's, which is started without a shell, or a webhook."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import anyio

from swarm.errors import ConfigError

TIMEOUT = 10.0
"""Seconds that a command or a webhook may take."""
LONGEST_SAID = 200
"""Bytes that are read of what a failing command said."""
EXAMPLE = "such as --notify 'notify-send swarm' or --notify https://example.org/hook"

Send = Callable[[bytes], None]
"""Delivers a message. Raises UndeliveredError."""


class UndeliveredError(Exception):
    """A message was not taken; says why, without the address of a webhook, which may hold a secret."""


def target(text: str, timeout: float = TIMEOUT) -> Send:
    """Returns who is told by what a user typed. Raises ConfigError: it is neither a command nor a webhook."""
    if "://" in text.partition(" ")[0]:
        return _webhook(text, timeout)
    try:
        words = shlex.split(text, posix=os.name == "posix")
    except ValueError as error:
        raise ConfigError(f"--notify: expected a command or a URL, {EXAMPLE}, got {text!r:.200}: {error}") from None
    if not words:
        raise ConfigError(f"--notify: expected a command or a URL, {EXAMPLE}, got nothing")
    if shutil.which(words[0]) is None:
        raise ConfigError(f"--notify: there is no program {words[0]!r:.200} here; give its whole path")
    return partial(_run, words, timeout)


def _run(words: Sequence[str], timeout: float, message: bytes) -> None:
    """Starts a command with a message on its standard input, and ends it after the time-out."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
        except OSError as error:
            raise UndeliveredError(f"{words[0]} cannot be started: {error.strerror or error}") from None
        try:
            process.communicate(message, timeout)
        except subprocess.TimeoutExpired:
            raise UndeliveredError(f"{words[0]} was not done after {timeout:g} s and was ended") from None
        finally:
            if process.poll() is None:
                _end(process)
        if process.returncode:
            said.seek(0)
            why = said.read(LONGEST_SAID).decode(errors="replace").strip()
            raise UndeliveredError(f"{words[0]} ended with exit code {process.returncode}{why and f': {why}'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and all that it started, where the system has groups of processes."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _webhook(url: str, timeout: float) -> Send:
    try:
        parts = urlsplit(url)
        there = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        there = False
    if not there or any(character.isspace() for character in url):
        raise ConfigError(f"--notify: expected http:// or https:// and a host, {EXAMPLE}")
    return lambda message: anyio.run(_post, url, timeout, message)


async def _post(url: str, timeout: float, message: bytes) -> None:
    """Posts a message; of the answer its status alone is read. A redirect is not followed."""
    import httpx

    host = urlsplit(url).hostname
    try:
        with anyio.fail_after(timeout):
            async with (
                httpx.AsyncClient(timeout=timeout) as client,
                client.stream("POST", url, content=message, headers={"Content-Type": "application/json"}) as answer,
            ):
                status = answer.status_code
    except TimeoutError:
        raise UndeliveredError(f"{host} did not answer within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise UndeliveredError(f"{host} cannot be reached ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise UndeliveredError(f"{host} answered {status}")
