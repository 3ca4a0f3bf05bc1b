"""Whether the process that holds a node id is still there."""

from __future__ import annotations

import os
import subprocess
import sys

from swarm.node.process.host import host_identity, is_running, process_started_at


def start_child() -> subprocess.Popen[bytes]:
    """A process that waits for the end of its input."""
    return subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_a_process_is_gone_as_soon_as_it_is_dead() -> None:
    child = start_child()
    with child:
        started = process_started_at(child.pid)
        assert started > 0
        assert is_running(child.pid, started)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(child.pid, started), "a zombie holds nothing"
    assert not is_running(child.pid, started)


def test_another_process_under_a_recycled_id_is_not_the_holder() -> None:
    assert not is_running(os.getpid(), process_started_at(os.getpid()) - 1)


def test_a_process_of_somebody_else_is_running_all_the_same() -> None:
    assert is_running(1, process_started_at(1))


def test_an_id_that_no_process_can_have_is_nobodys() -> None:
    assert not is_running(2**70, 1.0)


def test_the_identity_of_this_host_does_not_change() -> None:
    assert host_identity() == host_identity()
    assert host_identity().count("/") >= 2
