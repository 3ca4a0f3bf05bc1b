"""What only looks, and what only keeps time, is light."""

import os
import resource
import subprocess
import sys

from tests.integration.swarms import daemons, environment, events, eventually, run_swarm


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def least_cpu(*arguments: str, env: dict[str, str]) -> float:
    """CPU seconds of one command, the least of five: what others do on the machine only adds to it."""
    costs = []
    for _ in range(5):
        before = cpu_of_children()
        run_swarm(env, *arguments)
        costs.append(cpu_of_children() - before)
    return min(costs)


def test_the_coordinator_is_ready_within_half_a_second_of_cpu(tmp_path):
    with daemons() as start:
        coordinator = start("services.coordinator", environment(tmp_path))
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the coordinator")
        with open(f"/proc/{coordinator.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < 0.5


def test_version_and_status_take_less_than_a_fifth_of_a_second_of_cpu(tmp_path):
    env = environment(tmp_path)
    with daemons() as start:
        start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the coordinator")
        assert least_cpu("--version", env=env) < 0.2
        assert run_swarm(env, "status").returncode == 0
        assert least_cpu("status", env=env) < 0.2


def test_the_coordinator_and_looking_commands_import_no_heavy_package():
    code = (
        "import sys, swarm.node.coordinator.coordinator, swarm.node.process.daemon, swarm.cli.main\n"
        "import swarm.cli.status, swarm.cli.logs\n"
        "import swarm.cli.doctor\n"
        "print([m for m in ('torch', 'transformers', 'numpy', 'reasoning_gym', 'pandas') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
