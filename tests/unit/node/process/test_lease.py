"""One process at a time holds a device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarm.policy.leased import DeviceLease, lease_folder
from tests.patience import PATIENCE

HOLDER = """
import sys
from pathlib import Path
from swarm.policy.leased import DeviceLease

with DeviceLease(Path(sys.argv[1])).held("cuda:0"):
    print("held", flush=True)
    sys.stdin.read()
"""


def waiting(folder: Path, until: float, then: Callable[[], object]) -> DeviceLease:
    """A lease whose time passes while it waits; after so many seconds something happens."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 1.0)
        if now[0] >= until:
            then()

    return DeviceLease(folder, now=lambda: now[0], sleep=sleep)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "leases").mkdir(mode=0o700)
    return tmp_path / "leases"


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


def test_a_lease_is_freed_when_its_holder_is_killed_and_the_wait_is_measured(folder: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        def kill() -> None:
            other.kill()
            other.wait(PATIENCE)

        lease = waiting(folder, 3.0, kill)
        with lease.held("cuda:0"):
            assert other.poll() == -signal.SIGKILL
    assert (lease.take_waited(), lease.take_waited()) == (3.0, 0.0)


def test_a_long_wait_is_said_once_a_minute(folder: Path) -> None:
    with ExitStack() as holder, capture_logs() as logs:
        holder.enter_context(DeviceLease(folder).held("cuda:0"))
        with waiting(folder, 200.0, holder.close).held("cuda:0"):
            pass
    assert [entry["seconds"] for entry in logs if entry["event"] == "lease.waiting"][:3] == [60, 120, 180]


def test_another_device_is_another_lease(folder: Path) -> None:
    lease = DeviceLease(folder)
    with DeviceLease(folder).held("cuda:0"), lease.held("GPU/../1"):
        pass
    assert lease.take_waited() < 1.0
    assert {file.name for file in folder.iterdir()} == {"device-cuda-0.lock", "device-GPU-..-1.lock"}


def test_a_folder_that_others_can_write_to_costs_the_lease_and_is_said_once(folder: Path) -> None:
    folder.chmod(0o777)
    lease, entered = DeviceLease(folder), 0
    with capture_logs() as logs:
        for _ in range(2):
            with lease.held("cuda:0"):
                entered += 1
    (complaint,) = logs
    assert (entered, complaint["event"], complaint["log_level"]) == (2, "lease.unusable", "warning")
    assert "0700" in complaint["error"]


def test_a_symlink_where_the_lock_should_be_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "device-cpu.lock").symlink_to(tmp_path / "victim")
    with capture_logs() as logs, DeviceLease(folder).held("cpu"):
        pass
    assert [entry["event"] for entry in logs] == ["lease.unusable"]
    assert not (tmp_path / "victim").exists()


def test_what_fails_while_the_lease_is_held_frees_it(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), DeviceLease(folder).held("cpu"):
        1 / 0  # noqa: B018
    with DeviceLease(folder, sleep=lambda _: pytest.fail("waits")).held("cpu"):
        pass


def test_the_leases_of_a_machine_are_in_its_temporary_folder_one_per_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert lease_folder() == tmp_path / f"swarm-{os.getuid()}"
