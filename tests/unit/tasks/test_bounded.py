"""Bounded children. Each case forks a fresh interpreter: forking the multi-threaded test runner is no fair trial."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROLOGUE = """
import contextlib, os, resource, signal, subprocess, sys, time
from swarm.tasks import bounded
from swarm.tasks.bounded import Limits, run_bounded
quick = Limits(cpu_s=1, wall_s=1.0, memory_bytes=64 * 2**20, output_bytes=2**20)
def show(job, limits=quick): print(run_bounded(job, limits))
"""
CASES = {
    "frames of any size come back in order": (
        """
show(lambda emit: [emit(b'one'), emit(b''), emit(b'three')])
print([len(f) for f in run_bounded(lambda emit: emit(bytes(900_000)), quick)])
""",
        "[b'one', b'', b'three']\n[900000]",
    ),
    "a job that raises keeps what it emitted before": (
        "show(lambda emit: [emit(b'before'), 1 / 0, emit(b'after')])",
        "[b'before']",
    ),
    "a memory bomb hits its limit and not the machine": (
        """
for size in (16, 128): show(lambda emit: [emit(b'before'), emit(b'%d' % len(bytearray(size * 2**20)))])
""",
        "[b'before', b'16777216']\n[b'before']",
    ),
    "endless output is cut": (
        "print(len(run_bounded(lambda emit: [emit(bytes(1000)) for _ in iter(int, 1)], quick)) < 1200)",
        "True",
    ),
    "a child can neither open nor write files nor leave a core": (
        """
limits = [resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC]
show(lambda emit: [emit(str({resource.getrlimit(one) for one in limits}).encode()), open('/dev/null'), emit(b'after')])
""",
        "[b'{(0, 0)}']",
    ),
    "a child is alone in its session and holds none of the server's descriptors": (
        """
os.dup2(os.open('/dev/null', os.O_RDONLY), 77)
def job(emit):
    emit(b'alone' if os.getsid(0) == os.getpid() else b'not alone')
    os.fstat(77)
    emit(b'descriptor 77 is open')
show(job)
""",
        "[b'alone']",
    ),
    "processes that a child starts die with it": (
        """
bounded.resource.RLIMIT_NPROC = bounded.resource.RLIMIT_CORE  # so that forking is possible at all
read_fd, write_fd = os.pipe()
bounded._HIGHEST_FD = 4  # so that the pipe stays open in the child
def job(emit):
    if os.fork() == 0: os.write(write_fd, b'started')
    time.sleep(600)
run_bounded(job, quick)
os.close(write_fd)
print(os.read(read_fd, 9), os.read(read_fd, 9))  # the second read ends when nobody is left to write
""",
        "b'started' b''",
    ),
    "a hundred megabytes on stderr are cut and cost neither memory nor time": (
        """
read_fd, write_fd = os.pipe()
os.dup2(write_fd, 2)
os.set_blocking(read_fd, False)
def job(emit):
    for _ in range(100):  # an unread pipe is full after 64 KiB, and nobody waits for room
        with contextlib.suppress(BlockingIOError): os.write(2, b'flood\\n' * 170_000)
    emit(b'not held up')
show(job)
said = os.read(read_fd, 10**6)
print(said.count(b'\\n'), set(said.splitlines()))
run_bounded(lambda emit: os.write(2, b'x' * 60_000), quick)
print(len(os.read(read_fd, 10**6)) - 1 == bounded.STDERR_BYTES)  # of one line
""",
        "[b'not held up']\n10 {b'flood'}\nTrue",
    ),
    "nobody needs to hear that a child failed": (
        "show(lambda emit: [emit(b'said'), os.close(2), 1 / 0])",
        "[b'said']",
    ),
    "children work where few files may be open": (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)); show(lambda emit: emit(b'works'))",
        "[b'works']",
    ),
}
HANGS = {
    "burns the processor": "while True: pass",
    "swallows everything": """
    while True:
        try: time.sleep(6000)
        except: pass""",
    "closes its pipe and goes on": "os.close(3); time.sleep(6000)",
    "has no timer and ignores signals": """
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    time.sleep(6000)""",
}


def outcome(code: str) -> str:
    """What the code prints, run with PROLOGUE in an interpreter of its own."""
    command = [sys.executable, "-c", PROLOGUE + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()


@pytest.mark.parametrize(("code", "printed"), CASES.values(), ids=CASES)
def test_a_bounded_child_does_its_job_within_its_limits_and_no_more(code: str, printed: str) -> None:
    assert outcome(code) == printed


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_hanging_child_is_cut_and_reaped(body: str) -> None:
    """Else it would outlive the time that `outcome` gives."""
    code = f"""
def job(emit):
    emit(b'before')
    {body}
show(job)
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print('no child left')
"""
    assert outcome(code) == "[b'before']\nno child left"


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's own")
def test_a_child_dies_with_its_server() -> None:
    code = """
bounded._HIGHEST_FD = 4  # so that the pipe stays open in the child
read_fd, write_fd = os.pipe()
if os.fork() == 0:
    def job(emit):
        os.write(write_fd, b'%d\\n' % os.getpid())
        time.sleep(6000)
    run_bounded(job, Limits(wall_s=60))
os.close(write_fd)
child = int(os.read(read_fd, 100))
server = int(open(f'/proc/{child}/stat').read().split()[3])
os.kill(server, signal.SIGKILL)
print('ended' if os.read(read_fd, 1) == b'' else 'alive')
"""
    assert outcome(code) == "ended"
