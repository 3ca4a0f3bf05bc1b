"""The command line as a shell sees it: quick, and with the right exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from swarm.cli import main
from swarm.cli.main import run
from swarm.errors import StoreError
from tests.integration.swarms import listen_to_ctrl_c
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.views.factories import append_events, make_event, make_experiment, set_clock


def swarm(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "swarm", *arguments]


def wait_for(stream: object, text: str) -> None:
    for line in stream:  # type: ignore[attr-defined]
        if text in line:
            return
    raise AssertionError(f"the stream ended without {text!r}")


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    append_events(layout, "alice", *(make_event("e" * 200, float(n)) for n in range(2000)))
    command = swarm("logs", "--path", str(tmp_path), "--experiment", "exp", "-n", "2000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")


def test_a_closed_pipe_hides_no_failure(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    (tmp_path / "experiments" / "exp" / "checkpoints" / "no round").mkdir(parents=True)
    command = swarm("validate", "--path", str(tmp_path), "--experiment", "exp")
    nobody, pipe = os.pipe()
    os.close(nobody)
    with open(pipe, "wb") as unheard:
        assert subprocess.run(command, stdout=unheard, check=False, timeout=PATIENCE).returncode == 1


@pytest.mark.parametrize("command", [["logs", "--follow"], ["status", "--watch"]])
def test_ctrl_c_ends_quietly_with_130(tmp_path: Path, command: list[str]) -> None:
    set_clock(make_experiment(tmp_path), 3, max_rounds=9)
    process = subprocess.Popen(
        swarm(*command, "--path", str(tmp_path), "--experiment", "exp"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen_to_ctrl_c,
    )
    with process:
        wait_for(process.stdout, "alice")
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert (process.wait(PATIENCE), process.stderr.read()) == (130, "")


def test_a_status_that_is_watched_ends_with_its_experiment(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    assert run(["status", "--watch", "--path", str(tmp_path), "--experiment", "exp"]) == 0


def test_an_error_that_quotes_a_stranger_is_nothing_a_terminal_would_obey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise StoreError("taken by a \x1b[2J,\nchoose another")

    monkeypatch.setattr(main, "app", fail)
    assert run(["status"]) == StoreError.exit_code
    assert capsys.readouterr().err == "swarm: taken by a \ufffd[2J,\nchoose another [SWARM-STORE]\n"
