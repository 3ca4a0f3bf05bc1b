"""The image's recipe and the examples below services/, each held against a checker that knows its language."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engines.installed import run
from tests.engines.s3_servers import PYTHON

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "services/systemd").glob("*.service"))
pytestmark = pytest.mark.engine


def checker(name: str) -> Path:
    program = PYTHON.parent / name
    if not program.exists():
        pytest.fail(f"{program} is missing: make .venv-servers/.installed")
    return program


def test_hadolint_has_nothing_against_the_dockerfile() -> None:
    assert run(checker("hadolint"), "--no-color", ROOT / "Dockerfile") == ""


def test_the_manifests_have_the_form_that_kubernetes_wants() -> None:
    run(checker("kubernetes-validate"), "--strict", ROOT / "services/kubernetes/swarm.yaml")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    program = tmp_path / "swarm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here.write_text(unit.read_text().replace("/opt/swarm/bin/swarm", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)],
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])
