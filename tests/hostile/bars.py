"""What hostile code in a scoring child may try, and which bar stops it.

    python -m tests.hostile.bars            the table: each thing with no bars, with each bar alone, and with all

Each attempt runs in a child of its own, confined as `swarm.tasks.scoring_server` confines one: by the limits of
swarm.tasks.bounded always, by the named bars, and for `audit` by the hook of swarm.tasks.sandbox. It came through if
nothing was raised, or the kernel took it up and found fault with its arguments; else it was refused, or the child
ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from swarm.children import child_environment, code_command
from tests.patience import PATIENCE

ATTEMPTS: Mapping[str, str] = {
    # files
    "open a file": "os.open('/etc/passwd', os.O_RDONLY)",
    "stat a file": "os.stat('/etc/passwd')",
    "lstat a file": "os.lstat('/')",
    "access a file": "assert os.access('/etc/passwd', os.R_OK)",
    "list a folder": "os.listdir('/')",
    "read a link": "os.readlink('/proc/self/exe')",
    "make a file": "os.close(os.open(scratch + '/made', os.O_CREAT | os.O_WRONLY))",
    "make a folder": "os.mkdir(scratch + '/folder')",
    "make a pipe in a folder": "os.mkfifo(scratch + '/pipe')",
    "link": "os.symlink('/', scratch + '/link')",
    "rename": "os.rename(scratch + '/there', scratch + '/elsewhere')",
    "remove a file": "os.unlink(scratch + '/there')",
    "change permissions": "os.chmod(scratch + '/there', 0)",
    "change the working folder": "os.chdir('/')",
    "size of the disk": "os.statvfs('/')",
    "read the parent's memory map": "os.open(f'/proc/{os.getppid()}/maps', os.O_RDONLY)",
    "read its own environment": "os.open('/proc/self/environ', os.O_RDONLY)",
    # processes
    "fork": "os.fork()",
    "execute a program": "os.execv(scratch + '/program', ['program'])",
    "spawn a program": "import subprocess; subprocess.run(['/bin/true'])",
    "start a thread": "import threading; t = threading.Thread(target=int); t.start(); t.join()",
    "ask whether the parent lives": "os.kill(os.getppid(), 0)",
    "signal the parent": "os.kill(os.getppid(), signal.SIGURG)",
    "signal the parent by a pidfd": "signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGURG)",
    "renice the parent": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 1)",
    "pin the parent": "os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))",
    "renice itself": "os.nice(1)",
    "limits of the parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
    "raise an own limit": "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))",
    "trace the parent": "call(101, 0x4206, os.getppid(), 0, 0)",
    "read the parent's memory": "call(310, os.getppid(), ctypes.byref(vec), 1, ctypes.byref(there), 1, 0)",
    "become another user": "os.setuid(65534)",
    # its own limits in time
    "stop the timer": "signal.setitimer(signal.ITIMER_REAL, 0)",
    "ignore the alarm": "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "block signals": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})",
    "sleep": "time.sleep(0.001)",
    # network and channels
    "a socket": "socket.socket()",
    "a local socket": "socket.socket(socket.AF_UNIX)",
    "a pair of sockets": "socket.socketpair()",
    "a pipe": "os.pipe()",
    "duplicate a descriptor": "os.dup(2)",
    "wait on descriptors": "select.select([], [2], [], 0)",
    "an event queue": "select.epoll()",
    # memory
    "memory that can be executed": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "a file in memory": "os.memfd_create('x')",
    "shared memory": "call(31, call(29, 0, 4096, 0o1600), 0, 0)",
    "a message queue": "call(71, call(68, 0, 0o1600), 0, 0)",
    "semaphores": "call(66, call(64, 0, 1, 0o1600), 0, 0)",
    "lock memory": "call(149, ctypes.byref(vec), 4096)",
    # the kernel
    "keys": "call(250, 0, -3, 1)",
    "namespaces": "call(272, 0x10000000)",
    "mount": "call(165, 0, 0, 0, 0, 0)",
    "change the root": "os.chroot('/')",
    "io_uring": "call(425, 1, ctypes.byref((ctypes.c_char * 120)()))",
    "performance counters": "call(298, ctypes.byref((ctypes.c_char * 128)()), 0, -1, -1, 0)",
    "userfaultfd": "call(323, 1)",
    "bpf": "call(321, 0, 0, 0)",
    "the host's name": "os.uname()",
    # Python itself
    "import a module": "import wave",
    "a harmless system call by ctypes": "call(39)",
    "execute a string": "exec('1')",
    "read the parent's status": "os.open(f'/proc/{os.getppid()}/status', os.O_RDONLY)",
    "write to a standard stream": "os.write(2, b'x' * 10**6)",
    "write to the server": "os.write(3, b'')",
    "a hook at fork": "os.register_at_fork(before=int)",
}
"""Name -> code. Numbers of system calls are those of x86_64."""
HARMLESS: Mapping[str, str] = {
    "compute": "assert sum(range(1000)) == 499500",
    "take memory": "assert len(bytearray(2**24))",
    "ask for the time": "time.time()",
    "random numbers": "import random; random.random()",
}
"""What honest scorers do."""
STAYS_OPEN = {
    "write to a standard stream": "what is said is cut",
    "write to the server": "what is sent is bounded and checked",
    "a hook at fork": "it is never called, as nothing can fork",
    "a harmless system call by ctypes": "getpid, which is on the list",
}
"""What comes through all bars, and why it may."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "limits": (),
    "capabilities": ("privileges", "capabilities"),
    "landlock": ("privileges", "landlock"),
    "seccomp": ("privileges", "seccomp"),
    "audit": ("audit",),
    "all": ("privileges", "capabilities", "landlock", "seccomp", "audit"),
}
"""Column -> what stands; `privileges` is what the kernel asks for before the others, the limits are always there."""
_SERVER = """
import ctypes, errno, mmap, os, random, select, signal, socket, subprocess, sys, tempfile, threading, time
import msgspec
from swarm.tasks import bounded, sandbox
from swarm.tasks.bars import put_up
from swarm.tasks.bounded import Limits, run_bounded

attempts, names = msgspec.json.decode(sys.argv[1]), msgspec.json.decode(sys.argv[2])
signal.signal(signal.SIGURG, signal.SIG_IGN)
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
libc.__errno_location.restype = ctypes.POINTER(ctypes.c_int)
errno_here = libc.__errno_location()  # ctypes.get_errno would be audited, when the call is made already
TAKEN_UP = (errno.EFAULT, errno.EINVAL, errno.ENOEXEC)

def call(number, *given):
    found = libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in (number, *given)))
    if found < 0:
        raise OSError(errno_here[0], "refused")
    return found

class Vec(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_size_t))

space = ctypes.create_string_buffer(4096)
vec, there = Vec(ctypes.addressof(space), 8), Vec(ctypes.addressof(space), 8)
jobs, scratches = {}, []
for name, code in attempts.items():
    scratch = tempfile.TemporaryDirectory()
    scratches.append(scratch)
    open(scratch.name + "/there", "w").close()
    os.close(os.open(scratch.name + "/program", os.O_CREAT | os.O_WRONLY, 0o755))
    exec(f"def job(scratch={scratch.name!r}): {code}")
    jobs[name] = job
bounded.prepare()
bars = put_up([name for name in names if name != "audit"])

def confined(job, emit):
    bars.close_calls()
    if "audit" in names:
        sandbox.enter()
    try:
        job()
    except OSError as error:
        if error.errno not in TAKEN_UP:
            return
    except BaseException:
        return
    emit(b"done")

done = [name for name, job in jobs.items() if b"done" in run_bounded(lambda emit: confined(job, emit), Limits())]
os.write(1, msgspec.json.encode([done, bars.up]))
os._exit(0)
"""


class Table(msgspec.Struct, frozen=True):
    """What came through where."""

    done: dict[str, frozenset[str]]
    """Column -> attempts."""
    up: frozenset[str]
    """Bars that this machine has."""


def measure(attempts: Mapping[str, str] = MappingProxyType({**ATTEMPTS, **HARMLESS})) -> Table:
    """Try everything in every column."""
    done, up = {}, set[str]()
    for column, names in COLUMNS.items():
        done[column], here = _column(attempts, names)
        up |= here
    return Table(done, frozenset(up))


def _column(attempts: Mapping[str, str], names: Sequence[str]) -> tuple[frozenset[str], set[str]]:
    given = (msgspec.json.encode(dict(attempts)).decode(), msgspec.json.encode(names).decode())
    with tempfile.TemporaryDirectory() as scratch:  # what a server with Landlock cannot remove goes with it
        ran = subprocess.run(
            code_command(_SERVER, *given),
            env=child_environment({**os.environ, "TMPDIR": scratch}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=True,
        )
    done, up = msgspec.json.decode(ran.stdout, type=tuple[frozenset[str], set[str]])
    return done, up


def main() -> None:
    """Print the table: `-` where it was stopped."""
    table = measure()
    lines = [f"{'':34}" + "".join(f"{column:>14}" for column in COLUMNS)]
    for attempt in (*ATTEMPTS, *HARMLESS):
        cells = ("done" if attempt in done else "-" for done in table.done.values())
        lines.append(f"{attempt:34}" + "".join(f"{cell:>14}" for cell in cells))
    stopped = {column: len({*ATTEMPTS} - done) for column, done in table.done.items()}
    lines.append(f"{f'stopped, of {len(ATTEMPTS)}':34}" + "".join(f"{count:>14}" for count in stopped.values()))
    lines.append(f"bars of this machine: {', '.join(sorted(table.up))}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
