"""One process at a time holds a device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarm.policy.leased import DeviceLease, lease_folder
from tests.patience import PATIENCE

HOLDER = """
import sys, time
from pathlib import Path
from swarm.policy.leased import DeviceLease

with DeviceLease(Path(sys.argv[1])).held("cuda:0"):
    print("held", flush=True)
    sys.stdin.read()
"""


class FakeClock:
    """Time that passes while somebody sleeps."""

    def __init__(self, until: float = float("inf"), then: object = None) -> None:
        self.seconds = 0.0
        self._until = until
        self._then = then

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 1.0)
        if self.seconds >= self._until and callable(self._then):
            self._then()


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lease until it is killed."""
    with start(HOLDER, folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def test_contenders_are_never_inside_together(tmp_path: Path) -> None:
    """Each opens the file for itself, so that the kernel takes them for as many processes."""
    inside: list[int] = []

    def contend(number: int) -> None:
        lease = DeviceLease(tmp_path / "leases")
        for _ in range(50):
            with lease.held("cuda:0"):
                inside.append(number)
                os.sched_yield()
                assert [inside.pop(), *inside] == [number]

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(contend, range(3)))


def test_a_lease_is_freed_when_its_holder_is_killed_and_the_wait_is_measured(tmp_path: Path) -> None:
    with holding(private(tmp_path / "leases")) as other:

        def kill() -> None:
            os.kill(other.pid, signal.SIGKILL)
            other.wait(PATIENCE)

        clock = FakeClock(3.0, kill)
        lease = DeviceLease(tmp_path / "leases", now=clock.now, sleep=clock.sleep)
        with lease.held("cuda:0"):
            assert other.poll() == -signal.SIGKILL
    assert lease.take_waited() == 3.0
    assert lease.take_waited() == 0.0


def test_a_long_wait_is_said_once_a_minute(tmp_path: Path) -> None:
    with ExitStack() as holder:
        holder.enter_context(DeviceLease(tmp_path / "leases").held("cuda:0"))
        clock = FakeClock(200.0, holder.close)
        lease = DeviceLease(tmp_path / "leases", now=clock.now, sleep=clock.sleep)
        with capture_logs() as logs, lease.held("cuda:0"):
            pass
    said = [entry["seconds"] for entry in logs if entry["event"] == "lease.waiting"]
    assert said[:3] == [60, 120, 180]


def test_another_device_is_another_lease(tmp_path: Path) -> None:
    lease = DeviceLease(tmp_path / "leases")
    with DeviceLease(tmp_path / "leases").held("cuda:0"), lease.held("GPU/../1"):
        pass
    assert lease.take_waited() < 1.0
    assert {file.name for file in (tmp_path / "leases").iterdir()} == {"device-cuda-0.lock", "device-GPU-..-1.lock"}


def test_a_folder_that_others_can_write_to_costs_the_lease_and_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "leases").mkdir(mode=0o777)
    (tmp_path / "leases").chmod(0o777)
    lease, entered = DeviceLease(tmp_path / "leases"), 0
    with capture_logs() as logs:
        for _ in range(2):
            with lease.held("cuda:0"):
                entered += 1
    assert entered == 2
    (complaint,) = logs
    assert (complaint["event"], complaint["log_level"]) == ("lease.unusable", "warning")
    assert "0700" in complaint["error"]


def test_a_symlink_where_the_lock_should_be_is_not_followed(tmp_path: Path) -> None:
    folder, victim = private(tmp_path / "leases"), tmp_path / "victim"
    (folder / "device-cpu.lock").symlink_to(victim)
    with capture_logs() as logs, DeviceLease(folder).held("cpu"):
        pass
    assert [entry["event"] for entry in logs] == ["lease.unusable"]
    assert not victim.exists()


def test_what_fails_while_the_lease_is_held_frees_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), DeviceLease(tmp_path / "leases").held("cpu"):
        1 / 0  # noqa: B018
    lease = DeviceLease(tmp_path / "leases", sleep=lambda _: pytest.fail("waits"))
    with lease.held("cpu"):
        pass


def test_the_leases_of_a_machine_are_in_its_temporary_folder_one_per_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert lease_folder() == tmp_path / f"swarm-{os.getuid()}"
