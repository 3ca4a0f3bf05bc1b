"""`%swarm background`: what ends at once, what goes on without its starter, and that nothing is started twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from swarm.errors import ConfigError, StoreError
from swarm.plugins.notebook.background import run_in_background
from tests.integration.swarms import eventually

STARTS = (
    "import sys; from swarm.plugins.notebook import background\n"
    "background.SHOWN_FOR = 0; sys.exit(background.run_in_background(sys.argv[1:]))"
)
WAITS = ("copy", "a", "b", "--experiment", "exp", "--follow", "--every", "2400")
"""A command that waits for an experiment that never comes."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[int]:
    """The id of a process that was started in the background, and goes on."""
    done = start(*WAITS)
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(r"goes on in the background as process (\d+)", done.stdout)
    try:
        yield int(found)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(found), signal.SIGKILL)


def start(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", STARTS, *words], capture_output=True, text=True)


def output(tmp_path: Path) -> str:
    return (tmp_path / "swarm.log").read_text()


def test_what_ends_at_once_is_shown_with_its_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_in_background(["status", "--experiment", "nope"]) == 2
    assert run_in_background(["settings", "seed"]) == 0
    said = capfd.readouterr().out
    assert "$ swarm status --experiment nope\nswarm: " in said
    assert "no experiment 'nope'" in said
    assert "$ swarm settings seed\n" in said
    assert output(tmp_path) == said, "and nothing else, one behind the other"


def test_what_goes_on_outlives_its_starter_in_a_session_of_its_own(tmp_path: Path, waiting: int) -> None:
    assert os.getsid(waiting) == waiting
    eventually(lambda: "waiting for the experiment exp" in output(tmp_path), "its words")


def test_nothing_is_started_twice_until_it_ends(tmp_path: Path, waiting: int) -> None:
    again, other = start(*WAITS), start("settings", "seed")
    assert (again.returncode, other.returncode) == (0, 1)
    assert "runs already, nothing was started" in again.stdout
    assert "--follow --every 2400` runs here already" in other.stderr
    os.kill(waiting, signal.SIGKILL)
    eventually(lambda: start("settings", "seed").returncode == 0, "the end of the first")


def test_no_command_and_a_link_in_the_way_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a command"):
        run_in_background([])
    (tmp_path / "swarm.log").symlink_to("elsewhere")
    with pytest.raises(StoreError):
        run_in_background(["settings", "seed"])
    assert not (tmp_path / "elsewhere").exists()
