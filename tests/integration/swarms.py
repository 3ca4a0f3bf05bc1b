"""Real daemons on a real folder, for tests: start, await, kill, read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.layout import Layout
from tests.patience import PATIENCE

LIGHT = "tests.chaos.light_worker"
"""A worker whose policy needs no torch: the module to start where it does not matter what is learned."""


def environment(path: Path, **settings: object) -> dict[str, str]:
    """This process's environment without settings of its own, plus small and quick ones.

    Nobody waits for workers that nobody expects, and nobody is given up for being slow; a test in which somebody dies
    shortens the liveness timeout.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWARM_", "GDRIVE_", "NODE_", "EXPERIMENT_"))}
    quick = {
        "GDRIVE_PATH": path,
        "XDG_STATE_HOME": f"{path}-state",
        "EXPERIMENT_NAME": "test",
        "MODEL_NAME": "tiny-2-qwen2",
        "MAX_ROUNDS": 4,
        "NUM_TRAIN_SAMPLES": 2,
        "NUM_TRANSPLANT_TREES": 2,
        "NUM_GENERATIONS": 4,
        "COORDINATOR_ROUND_INTERVAL": 2400,
        "SWARM_SETTLE_TIME": 0,
        "SWARM_MAX_NEW_TOKENS": 8,
        "SWARM_THREADS": 1,
        "SWARM_HEARTBEAT_INTERVAL": 0.2,
        "SWARM_LIVENESS_TIMEOUT": 60,
        "SWARM_RECONCILE_INTERVAL": 0.5,
    }
    return clean | {name: str(value) for name, value in (quick | settings).items()}


def eventually(condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> Any:
    """Look again and again until the condition holds; its value. The pause is no barrier, only politeness."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.02)
    return value


def listen_to_ctrl_c() -> None:
    """What runs in the background of a shell ignores SIGINT, and hands that down."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Daemon:
    """One node process. What it says goes into a file: a pipe that nobody reads stops who writes when it is full."""

    def __init__(
        self,
        module: str,
        env: dict[str, str],
        *arguments: str,
        piped: bool = False,
        enter: Sequence[str] = (),
        python: str | Path = sys.executable,
    ) -> None:
        """
        Args:
            piped: what it says can be read meanwhile, at `process.stdout`.
            enter: words before the command, such as those that enter a namespace.
            python: another interpreter.
        """
        self._said = None if piped else tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [*enter, python, "-m", module, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._said or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_ctrl_c,
        )
        self.output = ""

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit code, with all that it said in `output`."""
        said, _ = self.process.communicate(timeout=timeout)
        self.output += said or ""
        self.listen()
        return self.process.returncode

    def listen(self) -> str:
        """All that it said until now, unless that is piped; also in `output`."""
        if self._said:  # read without moving the place at which its children may still write
            number = self._said.fileno()
            self.output += os.pread(number, os.fstat(number).st_size, len(self.output.encode())).decode()
        return self.output

    def says(self, event: str) -> int:
        """How often it has said something until now."""
        return self.listen().count(event)

    def close(self) -> None:
        """Kill it if it still runs, and let go of what it said."""
        if self.process.poll() is None:
            self.kill()
        if self._said:
            self._said.close()
            self._said = None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As the machine would: nothing is said or saved."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()


Start = Callable[..., Daemon]
"""As Daemon: what `daemons` gives."""


@contextmanager
def daemons() -> Iterator[Start]:
    """A function that starts daemons; whatever is left of them is killed at the end."""
    started: list[Daemon] = []

    def start(module: str, env: dict[str, str], *arguments: str, **options: Any) -> Daemon:
        started.append(Daemon(module, env, *arguments, **options))
        return started[-1]

    try:
        yield start
    finally:
        for daemon in started:
            daemon.close()


def run_swarm(env: dict[str, str], *arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """One `swarm` command line, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "swarm", *arguments], env=env, capture_output=True, text=True, timeout=timeout
    )


def well(env: dict[str, str], *arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """One `swarm` command line that has to end well."""
    done = run_swarm(env, *arguments, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def layout(path: Path) -> Layout:
    return Layout(path, "test")


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Whole lines of a file that may still grow; none where it is not there."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def rows(path: Path, node: str) -> list[dict[str, Any]]:
    return json_lines(layout(path).metrics_file(node))


def events(path: Path, node: str, name: str) -> list[dict[str, Any]]:
    return [e for e in json_lines(layout(path).events_file(node)) if e["event"] == name]


def rollouts(path: Path, node: str) -> dict[str, Any]:
    """Everything that a node published, by round, without the time of day."""
    found = {}
    for file in sorted(layout(path).rollouts.glob(f"round_*/stage_0/{node}.json")):
        content = json.loads(file.read_bytes())
        del content["timestamp"]
        found[file.parent.parent.name] = content
    return found
