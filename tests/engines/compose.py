"""Runs the services of docker-compose.test.yml as processes of this machine, for want of a container engine.

Kept as they are: commands, entrypoints, environment, health checks, and the order that `depends_on` asks for. Replaced,
for there are no images and no network of their own here:

    image: swarm-test          the environment of these tests; its entrypoint is read from the Dockerfile
    image: motoserver/moto     `.venv-servers`, which must hold moto of the version that the image's tag names
    python                     that of the image's environment
    store:5000, 0.0.0.0, 5000  a free port of loopback
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.engines.installed import run
from tests.engines.s3_servers import PYTHON, free_port
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.test.yml"
SWARM, MOTO = "swarm-test", "motoserver/moto"
POLL_SECONDS = 0.2


def services() -> dict[str, dict[str, Any]]:
    """Name -> service, as the file has it."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
    return found


@dataclass
class Compose:
    """The services as processes; what they say is in files of `folder`."""

    folder: Path
    services: dict[str, dict[str, Any]] = field(default_factory=services)
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    healthy: set[str] = field(default_factory=set)

    def up(self, until: Callable[[], bool]) -> None:
        """Start the services, each when it may, until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            left = sorted(self.services.keys() - self.processes.keys())
            assert time.monotonic() < deadline, f"{left} were not started"
            for name in left:
                needs = self.services[name].get("depends_on", {})
                if all(self._holds(other, one["condition"]) for other, one in needs.items()):
                    self.start(name)
            time.sleep(POLL_SECONDS)

    def start(self, name: str, **changed: Any) -> subprocess.Popen[bytes]:
        """Start one service, or one that differs from it."""
        service = self.services[name] | changed
        with (self.folder / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [*self._entrypoint(service), *map(self.here, service.get("command", []))],
                env=self.environment(service),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes[name] = started
        return started

    def check_health(self, name: str) -> bool:
        """Run the health check of a service once."""
        service = self.services[name]
        kind, *command = service["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(
            self._program(service, [self.here(word) for word in command]),
            env=self.environment(service),
            cwd=self.folder,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            self.healthy.add(name)
        return done.returncode == 0

    def environment(self, service: dict[str, Any]) -> dict[str, str]:
        """What the file says, and what every container has."""
        said = {name: self.here(value) for name, value in service.get("environment", {}).items()}
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT), **said}

    def here(self, text: str) -> str:
        """The store's address on this machine."""
        local = text.replace("store:", "127.0.0.1:").replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"\b5000\b", str(self.port), local)

    def logs(self) -> str:
        """The end of what all services said."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{file.name}: {file.read_text('utf-8', 'replace')[-1500:]}" for file in files)

    def _holds(self, name: str, condition: str) -> bool:
        process = self.processes.get(name)
        if process is None:
            return False
        if condition == "service_healthy":
            assert process.poll() is None, f"{name} ended\n{self.logs()}"
            return name in self.healthy or self.check_health(name)
        assert condition == "service_completed_successfully"
        assert process.poll() in (None, 0), f"{name} ended with {process.returncode}\n{self.logs()}"
        return process.returncode == 0

    def _entrypoint(self, service: dict[str, Any]) -> list[str]:
        own = service.get("entrypoint") or (_entrypoint() if service["image"] == SWARM else ["moto_server"])
        return self._program(service, own)

    def _program(self, service: dict[str, Any], command: list[str]) -> list[str]:
        """A command with its program out of the environment that stands for the image."""
        image, _, tag = service["image"].partition(":")
        if image == MOTO:
            assert run(PYTHON, "-c", "import moto; print(moto.__version__)").strip() == tag
        python = {SWARM: Path(sys.executable), MOTO: PYTHON}[image]
        program, *arguments = command
        return [str(python if program == "python" else python.parent / program), *arguments]


def _entrypoint() -> list[str]:
    """Of the image that the Dockerfile makes."""
    (line,) = re.findall(r"^ENTRYPOINT (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    found: list[str] = json.loads(line)
    return found


@contextmanager
def compose(folder: Path) -> Iterator[Compose]:
    """Services that end with the block."""
    made = Compose(folder)
    try:
        yield made
    finally:
        for process in made.processes.values():
            process.kill()
            process.wait()
