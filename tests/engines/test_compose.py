"""docker-compose.test.yml: Compose takes it, and its services, run as processes, do what it says of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engines.compose import FILE, compose, services

pytestmark = pytest.mark.engine
CHECK = "check"


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_takes_the_file() -> None:
    done = subprocess.run(
        ["docker-compose", "-f", str(FILE), "config", "--services"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(services())


def test_every_service_that_goes_on_has_a_health_check() -> None:
    ends_by_itself = {"bucket", CHECK}
    for name, service in services().items():
        assert service["healthcheck"].get("disable", False) == (name in ends_by_itself), name


def test_its_swarm_of_two_models_over_a_bucket_is_whole_and_healthy_while_it_beats_and_the_checker_decides(
    tmp_path: Path,
) -> None:
    with compose(tmp_path) as running:

        def ended(name: str) -> bool:
            return name in running.processes and running.processes[name].poll() is not None

        running.up(until=lambda: ended("bucket"))
        assert not running.check_health("coordinator")
        running.up(until=lambda: "coordinator" in running.processes and running.check_health("coordinator"))
        running.up(until=lambda: ended(CHECK))
        assert running.processes[CHECK].returncode == 0, running.logs()
        assert not running.check_health("coordinator")
        assert running.start(CHECK, command=["validate", "--rounds", "4"]).wait() == 1, "rounds that it does not have"
