"""Instances of a real Syncthing on loopback: no discovery, no relays, no reports, nothing beyond this machine.

Debian's package `syncthing`; where it is missing, `apt-get install syncthing` as root, and otherwise the tests skip.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from swarm.plugins.syncthing.syncthing import Syncthing
from tests.engines.s3_servers import free_port

OFF = (
    *("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "startBrowser"),
    *("crashReportingEnabled", "announceLANAddresses", "setLowPriority"),
)


class Instance:
    """One Syncthing with a home of its own."""

    def __init__(self, home: Path) -> None:
        """Make its key and configuration; nothing is started."""
        self.home = home
        said = subprocess.run(
            ["syncthing", "generate", f"--home={home}", "--no-default-folder"],
            capture_output=True,
            text=True,
            check=True,
        )
        (self.device,) = re.findall(r"Device ID: (\S+)", said.stdout + said.stderr)
        self.gui, self.port = free_port(), free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._configure()
        self.process: subprocess.Popen[bytes] | None = None

    def _configure(self) -> None:
        tree = ET.parse(self.home / "config.xml")
        options = tree.getroot().find("options")
        gui = tree.getroot().find("gui/address")
        assert options is not None
        assert gui is not None
        gui.text = f"127.0.0.1:{self.gui}"
        for name, value in (dict.fromkeys(OFF, "false") | self._quiet()).items():
            if (element := options.find(name)) is None:
                element = ET.SubElement(options, name)
            element.text = value
        tree.write(self.home / "config.xml")

    def _quiet(self) -> dict[str, str]:
        return {
            "listenAddress": self.address,
            "urAccepted": "-1",
            "autoUpgradeIntervalH": "0",
            "reconnectionIntervalS": "1",
            "stunServer": "",
        }

    @property
    def environment(self) -> dict[str, str]:
        """By which `swarm` finds it."""
        return {"STHOMEDIR": str(self.home)}

    @property
    def rest(self) -> Syncthing:
        return Syncthing.found({**os.environ, **self.environment})

    def start(self) -> None:
        command = ["syncthing", "serve", f"--home={self.home}", "--no-browser", "--no-restart", "--no-default-folder"]
        with open(self.home / "said.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"STNOUPGRADE": "1", "GOMAXPROCS": "1"},
                start_new_session=True,
            )
        self.wait()

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + 60
        while True:
            with suppress(Exception):
                self.rest.device()
                return
            assert self.process is not None
            assert self.process.poll() is None, (self.home / "said.log").read_text()
            assert time.monotonic() < deadline, "syncthing does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """As the machine would."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)  # it watches over a child that does the work
            self.process.wait()
            self.process = None


@contextmanager
def instances(folder: Path, *names: str) -> Iterator[dict[str, Instance]]:
    """Running ones, by name."""
    if not shutil.which("syncthing"):
        pytest.skip("syncthing is not installed: apt-get install syncthing")
    found = {name: Instance(folder / name) for name in names}
    try:
        for instance in found.values():
            instance.start()
        yield found
    finally:
        for instance in found.values():
            instance.kill()
