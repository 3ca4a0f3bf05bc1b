"""What only looks, and what only keeps time, is light: measured against a bare interpreter's start beside it."""

import os
import resource
import statistics
import subprocess
import sys

import pytest

from tests.integration.swarms import daemons, environment, events, eventually

pytestmark = pytest.mark.engine

COMMAND = 40
"""Bare starts of CPU time that a light command may take; torch alone is more than 100."""
COORDINATOR = 80
"""And a coordinator until it is ready."""
TRIES = 5
"""What else runs on the machine makes both costs larger, not always alike: one of so many ratios has to be small."""


def cost(*arguments: str, env: dict[str, str]) -> float:
    """CPU seconds of one run of the interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bare_start(env: dict[str, str]) -> float:
    return cost("-c", "pass", env=env)


def cost_so_far(pid: int) -> float:
    """CPU seconds of a process that still runs."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_starts(took: float, beside: tuple[float, float]) -> float:
    """A cost in bare starts, by the mean of the two beside it."""
    return took / statistics.mean(beside)


@pytest.mark.skipif(sys.platform != "linux", reason="the cost of a running process is read from /proc")
def test_the_coordinator_is_ready_within_eighty_bare_starts_of_cpu(tmp_path):
    env = environment(tmp_path)
    ratios: list[float] = []
    for path in (tmp_path / str(number) for number in range(TRIES)):
        if min(ratios, default=COORDINATOR) < COORDINATOR:
            break
        before = bare_start(env)
        with daemons() as start:
            coordinator = start("services.coordinator", environment(path))
            eventually(lambda path=path: events(path, "coordinator", "coordinator.ready"), "the coordinator")
            ready = cost_so_far(coordinator.process.pid)
        ratios.append(bare_starts(ready, (before, bare_start(env))))
    assert min(ratios) < COORDINATOR, ratios


@pytest.mark.parametrize("command", ["--version", "status"])
def test_a_command_that_looks_takes_less_than_forty_bare_starts_of_cpu(tmp_path, command):
    env = environment(tmp_path)
    with daemons() as start:
        start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the coordinator")
        costs = (cost("-m", "swarm", command, env=env) for _ in range(TRIES))
        assert any(bare_starts(each, (bare_start(env), bare_start(env))) < COMMAND for each in costs)
