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


def outcome(code: str) -> str:
    """What the code prints, run with PROLOGUE in an interpreter of its own."""
    command = [sys.executable, "-c", PROLOGUE + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()


def test_frames_of_any_size_come_back_in_order() -> None:
    assert outcome("show(lambda emit: [emit(b'one'), emit(b''), emit(b'three')])") == "[b'one', b'', b'three']"
    assert outcome("print([len(f) for f in run_bounded(lambda emit: emit(bytes(900_000)), quick)])") == "[900000]"


def test_a_job_that_raises_keeps_what_it_emitted_before() -> None:
    assert outcome("show(lambda emit: [emit(b'before'), 1 / 0, emit(b'after')])") == "[b'before']"


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


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_hanging_child_is_cut_and_reaped(body: str) -> None:
    """Else it would outlive the time that `outcome` gives."""
    indented = "\n".join("    " + line for line in body.splitlines())
    code = f"""
def job(emit):
    emit(b'before')
{indented}
show(job)
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print('no child left')
"""
    assert outcome(code) == "[b'before']\nno child left"


def test_a_memory_bomb_hits_its_limit_and_not_the_machine() -> None:
    job = "lambda emit: [emit(b'before'), emit(b'%d' % len(bytearray({size} * 2**20)))]"
    assert outcome(f"show({job.format(size=16)})") == "[b'before', b'16777216']"
    assert outcome(f"show({job.format(size=128)})") == "[b'before']"


def test_endless_output_is_cut() -> None:
    assert "True" in outcome(
        "print(len(run_bounded(lambda emit: [emit(bytes(1000)) for _ in iter(int, 1)], quick)) < 1200)"
    )


def test_a_child_can_neither_open_nor_write_files_nor_leave_a_core() -> None:
    assert outcome("show(lambda emit: [emit(b'before'), open('/dev/null'), emit(b'after')])") == "[b'before']"
    code = """
limits = [resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC]
show(lambda emit: emit(str({resource.getrlimit(limit) for limit in limits}).encode()))
"""
    assert outcome(code) == "[b'{(0, 0)}']"


def test_a_child_is_alone_in_its_session_and_holds_none_of_the_servers_descriptors() -> None:
    code = """
secret = os.open('/dev/null', os.O_RDONLY)
os.dup2(secret, 77)
def job(emit):
    emit(b'alone' if os.getsid(0) == os.getpid() else b'not alone')
    os.fstat(77)
    emit(b'descriptor 77 is open')
show(job)
"""
    assert outcome(code) == "[b'alone']"


def test_processes_that_a_child_starts_die_with_it() -> None:
    code = """
import swarm.tasks.bounded as bounded
bounded.resource.RLIMIT_NPROC = bounded.resource.RLIMIT_CORE  # so that forking is possible at all
read_fd, write_fd = os.pipe()
bounded._HIGHEST_FD = 4  # so that the pipe stays open in the child
def job(emit):
    if os.fork() == 0: os.write(write_fd, b'started')
    time.sleep(600)
run_bounded(job, quick)
os.close(write_fd)
print(os.read(read_fd, 9), os.read(read_fd, 9))  # the second read ends when nobody is left to write
"""
    assert outcome(code) == "b'started' b''"


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


def test_a_flood_on_stderr_is_cut_and_costs_neither_memory_nor_time() -> None:
    """A hundred megabytes, in lines: an unread pipe is full after 64 KiB, and nobody waits for room."""
    code = """
read_fd, write_fd = os.pipe()
os.dup2(write_fd, 2)
os.set_blocking(read_fd, False)
def job(emit):
    for _ in range(100):
        with contextlib.suppress(BlockingIOError): os.write(2, b'flood\\n' * 170_000)
    emit(b'not held up')
emitted = run_bounded(job, quick)
said = os.read(read_fd, 10**6)
print(emitted, said.count(b'\\n'), set(said.splitlines()))
run_bounded(lambda emit: os.write(2, b'x' * 60_000), quick)
print(len(os.read(read_fd, 10**6)) - 1 == bounded.STDERR_BYTES)
"""
    assert outcome(code) == "[b'not held up'] 10 {b'flood'}\nTrue", "lines, and one line"


def test_nobody_needs_to_hear_that_a_child_failed() -> None:
    code = """
def job(emit):
    emit(b'said')
    os.close(2)
    raise ValueError
print(run_bounded(job, quick))
"""
    assert outcome(code) == "[b'said']"


def test_children_work_where_few_files_may_be_open() -> None:
    few = "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
    assert outcome(few + "show(lambda emit: emit(b'works'))") == "[b'works']"
