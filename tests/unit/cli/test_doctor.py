"""`swarm doctor` as a command, with the troubles brought about for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from swarm.cli.doctor import render
from swarm.views.doctor.check import Diagnosis, Finding, Verdict
from tests.patience import PATIENCE
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import make_experiment, make_peer

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def everything_below(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


@pytest.fixture
def doctor(typed: Typed) -> Typed:
    return partial(typed, "doctor", "--experiment", "exp", "--seconds", "0.1", "--path")


def failures(report: dict[str, Any]) -> dict[str, str]:
    return {f"{f['area']}: {f['check']}": f["measured"] for f in report["findings"] if f["verdict"] == "failure"}


def test_a_folder_that_is_not_there_is_examined_and_not_made(tmp_path: Path, doctor: Typed) -> None:
    text = doctor(tmp_path / "not" / "there").out
    assert "can be made" in text
    assert "nothing here stops a swarm" in text
    assert everything_below(tmp_path) == []


def test_a_torn_state_exits_1_with_its_mend_and_nothing_is_left_behind(tmp_path: Path, doctor: Typed) -> None:
    layout = make_experiment(tmp_path)
    (layout.checkpoint(3, "alice")).rmdir()
    before = everything_below(tmp_path)
    doctor(tmp_path)
    layout.state_file.write_bytes(b'{"round": ')
    report = json.loads(doctor(tmp_path, "--json", code=1).out)
    assert (report["ok"], list(failures(report))) == (False, ["state: clock"])
    assert everything_below(tmp_path) == before


def test_an_area_that_cannot_be_looked_at_does_not_hide_the_others(tmp_path: Path, doctor: Typed) -> None:
    layout = make_experiment(tmp_path)
    (layout.checkpoint(3, "alice")).rmdir()
    make_peer(layout, "carol")
    layout.logs.rename(layout.root / "elsewhere")
    layout.logs.write_text("no folder")
    report = json.loads(doctor(tmp_path, "--json", code=1).out)
    assert "hints: could be looked at" in failures(report)
    assert any(finding["area"] == "scoring" for finding in report["findings"])


def test_a_long_mend_is_wrapped_below_its_finding() -> None:
    finding = Finding("nodes", "alive", Verdict.FAILURE, "figures " * 20, "do this and that " * 10)
    text = render(Diagnosis("exp", "/x", False, (finding,)), width=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count("-> ") == 1
    assert text.endswith("fix the failures first: 0 ok, 0 warning, 1 failure")


def test_a_doctor_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "ghost")  # for which the doctor waits
    before = everything_below(tmp_path)
    call = [sys.executable, "-m", "swarm", "doctor", "--path", str(tmp_path), "--experiment", "exp", "--seconds", "60"]
    with subprocess.Popen(call, env=_environment(), stdout=subprocess.DEVNULL) as sigterm_gets:
        deadline = time.monotonic() + 30
        while everything_below(tmp_path) == before:
            assert time.monotonic() < deadline, "the doctor made no probe"
        sigterm_gets.terminate()
        assert sigterm_gets.wait(PATIENCE) == 143
    assert everything_below(tmp_path) == before


def test_a_full_file_system_is_found(tmp_path: Path) -> None:
    unshare = ["unshare", "-rm", "sh", "-e", "-c"]  # a shell that may mount for itself alone
    if not which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("`unshare -rm` is not allowed here, so nothing can be mounted for this test alone")
    fill = f"mount -t tmpfs -o size=1m none {tmp_path}; dd if=/dev/zero of={tmp_path}/filler bs=1k 2>/dev/null || true"
    call = f"{sys.executable} -m swarm doctor --path {tmp_path} --experiment exp --seconds 0.1 --json"
    words = [*unshare, f"{fill}; {call}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=_environment(), check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = failures(json.loads(done.stdout))
    assert "No space left" in found["folder: writable"]
    assert found["space: free space"].startswith("0 B free")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_", "GDRIVE_"))}
