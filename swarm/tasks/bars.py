"""Bars of a scoring server and its children: what the kernel refuses them, whatever code runs there.

    server, once, after its imports   put_up: no new privileges, no capabilities, Landlock (files, TCP, signals)
    child, once it is limited         Bars.close_calls: seccomp, a list of the few system calls that computing needs

Each bar is optional and independent: where the system has none of them, scoring works as with all, behind the limits of
swarm.tasks.bounded and the audit hook of swarm.tasks.sandbox alone. `python -P -m swarm.tasks.bars` says which are up.

**Landlock**: this process and all that it forks open, make, execute and connect to nothing from here on. What is open
stays usable. The kernel's versions ("ABI", https://docs.kernel.org/userspace-api/landlock.html) each add rights that
can be taken away; all that the running one knows are, and no path and no port is excepted.

**seccomp**: the few system calls that computing needs, and no others.

    another architecture's calls   the process is killed: i386 calls have other numbers
    ALLOWED                        memory, time, random bytes, output to what is open, the end of the process
    mmap, mprotect                 allowed but for memory that can be executed
    NEVER                          the process is killed: no honest scorer comes near
    all others                     EPERM, as a library's start may try one (uname, ioctl) and go on without

The list says what is allowed, not what is refused, so that calls of later kernels are refused too. Among all others are
stat and its like, which Landlock leaves open; setpriority, sched_* and kill, by which a child reached its parent;
setitimer, rt_sigaction and rt_sigprocmask, by which it stopped or ignored its own timer; prlimit; clone and fork;
memfd_create, io_uring, userfaultfd, keyctl, perf_event_open, inotify; sleeping; reading.

All goes through ctypes: PyPI's landlock is a development version, pyseccomp is of 2021 and needs the libseccomp of the
system, and a list of some twenty calls is forty instructions.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

_CALLS: Mapping[str, tuple[int, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigreturn": (15, 139),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
    "socket": (41, 198),
    "execve": (59, 221),
    "kill": (62, 129),
    "ptrace": (101, 117),
    "mount": (165, 40),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "unshare": (272, 97),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "finit_module": (313, 273),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "pidfd_send_signal": (424, 424),
    "capset": (126, 91),
    "seccomp": (317, 277),
}
"""System call -> its numbers on x86_64 and aarch64."""


class Architecture(NamedTuple):
    """One architecture, as the kernel's filters see it."""

    audit_arch: int
    """AUDIT_ARCH_* of linux/audit.h."""
    numbers: Mapping[str, int]
    """System call -> its number."""


MACHINES = {
    name: Architecture(arch, {call: number for call, each in _CALLS.items() if (number := each[at]) is not None})
    for at, (name, arch) in enumerate([("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
}
ALLOWED = (
    *("brk", "mmap", "mprotect", "munmap", "mremap", "madvise"),
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "getrandom"),
    *("write", "writev", "close"),
    *("futex", "sched_yield", "restart_syscall", "rt_sigreturn", "getpid", "gettid"),
    *("exit", "exit_group"),
)
"""Names; one that an architecture lacks is left out."""
READING = (*(name for name in ALLOWED if name not in ("futex", "sched_yield")), "read")
"""Calls of a child that is spoken to: it has no descriptor but its own pipes, and no way to wait but to read from
them."""
NEVER = (
    *("execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "kill", "pidfd_send_signal", "socket"),
    *("mount", "unshare", "setns", "bpf", "init_module", "finit_module", "reboot"),
)
_WIDTH = 8
"""Bytes of a pointer: under a kernel of 64 bits a Python of 32 makes other calls."""
_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_syscall = _libc.syscall if _libc is not None else None
if _syscall is not None:
    _syscall.restype = ctypes.c_long


class Bar(msgspec.Struct, frozen=True):
    name: str
    up: bool
    detail: str
    """What it has here; where it is not up, why not."""


class Bars(NamedTuple):
    bars: Sequence[Bar] = ()
    alone: Callable[[], int] | None = None
    """Puts a child under its filter, where there is one; of a child that is spoken to: `reading`."""
    reading: Callable[[], int] | None = None

    @property
    def up(self) -> tuple[str, ...]:
        return tuple(bar.name for bar in self.bars if bar.up)

    def close_calls(self, *, reading: bool = False) -> None:
        """Closes all calls but those of computing, in a child whose limits are all set.

        Raises OSError where the filter that the server tried fails, and nothing is to be scored then.

        Args:
            reading: it may read from what is open, too.
        """
        filter_ = self.reading if reading else self.alone
        if filter_ is not None:
            filter_()


class NotHereError(Exception):
    """This system lacks what a bar needs; says what and which would have it."""


def put_up(names: Sequence[str] = ("privileges", "capabilities", "landlock", "seccomp")) -> Bars:
    """Put up the named bars of this process for good; it must have one thread, and everything open that it needs.

    `privileges` is the condition of landlock and seccomp for all but root.
    """
    steps: dict[str, Callable[[], str]] = {
        "privileges": _no_new_privileges,
        "capabilities": _no_capabilities,
        "landlock": _landlock,
        "seccomp": _try_filter,
    }
    bars = [_attempt(name, step) for name, step in steps.items() if name in names]
    up = any(bar.name == "seccomp" and bar.up for bar in bars)
    return Bars(bars, _filter_here(ALLOWED), _filter_here(READING)) if up else Bars(bars)


def _attempt(name: str, step: Callable[[], str]) -> Bar:
    try:
        return Bar(name, True, step())
    except (NotHereError, OSError) as error:
        return Bar(name, False, str(error))


def _no_new_privileges() -> str:
    """Programs with the set-user-id bit run as anybody's."""
    if _libc is None:
        raise NotHereError(f"needs Linux, got {sys.platform}")
    if _libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return "none from executed files"


def _no_capabilities() -> str:
    """Takes root's capabilities from a node: no mounting, tracing, changing of users, of the clock and of others'
    priorities."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    _call(_machine().numbers["capset"], header, (ctypes.c_uint32 * 6)())
    return "none left"


# ── Landlock ────────────────────────────────────────────────────────────────────────────────────────────────────────
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
"""The same on every architecture that Python runs on."""
_ASK_VERSION = 1
_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))
"""ABI -> rights on files: execute, write, read, list, remove, make; move to another folder; truncate; device ioctl."""
_PORTS = ((4, 2),)
"""TCP bind and connect."""
_SCOPES = ((6, 2),)
"""Abstract sockets of, and signals to, processes outside."""


class _Rules(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


def _landlock() -> str:
    """Restrict this process for good. Raises NotHereError, OSError: the kernel has no Landlock, or it is switched
    off."""
    try:
        abi = _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError as error:
        raise NotHereError(f"needs a kernel of 5.13 or newer that has landlock among its lsm=; got {error}") from None
    known = 8 * (1 + (abi >= _PORTS[0][0]) + (abi >= _SCOPES[0][0]))  # an older kernel refuses fields it does not know
    ruleset = _call(_CREATE_RULESET, ctypes.byref(_Rules(*rights(abi))), known, 0)
    try:
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return f"ABI {abi}"


def rights(abi: int) -> tuple[int, ...]:
    """Returns all rights that this ABI knows: on files, ports, and processes outside."""
    most = (max((count for since, count in table if abi >= since), default=0) for table in (_FILES, _PORTS, _SCOPES))
    return tuple((1 << count) - 1 for count in most)


# ── seccomp ─────────────────────────────────────────────────────────────────────────────────────────────────────────
_NOT_EXECUTABLE = frozenset({"mmap", "mprotect"})
_PROT_EXEC = 4
_SET_MODE_FILTER = 1
_SPEC_ALLOW = 4
"""No mitigation of speculative reads, which kernels before 5.16 would add: a child has nothing to hide from itself."""
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCH, _THIRD_ARGUMENT = 0, 4, 32
"""Offsets into struct seccomp_data; the low half of the argument, on these little-endian machines."""


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter_here(allowed: Sequence[str]) -> Callable[[], int]:
    """Returns a function that puts a process under this machine's filter for good; the process must have no new
    privileges.

    It is assembled here, once; what is returned raises OSError. Raises NotHereError.
    """
    here = _machine()
    instructions = list(assemble(here, allowed))
    program = _Program(len(instructions), b"".join(instructions))
    return _ready(here.numbers["seccomp"], _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(program))


def _try_filter() -> str:
    """Tries the filter in a fork, as the server itself has to open pipes and fork."""
    filter_ = _filter_here(ALLOWED)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            filter_()
            _exit_well_if_refused()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise NotHereError("needs a kernel that filters system calls for this process; the filter did not hold here")
    return f"{len(ALLOWED)} system calls are left"


def _exit_well_if_refused() -> None:
    try:
        os.stat("/")
    except PermissionError:
        os._exit(0)


def assemble(machine: Architecture, allowed: Sequence[str] = ALLOWED) -> Iterator[bytes]:
    """Yields the filter's instructions; struct sock_filter each."""
    numbers = machine.numbers
    yield _instruction(_LOAD, _ARCH)
    yield _instruction(_IF_EQUAL, machine.audit_arch, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    for name in allowed:
        if name in numbers and name not in _NOT_EXECUTABLE:
            yield from _returning(numbers[name], _ALLOW)
    for name in NEVER:
        yield from _returning(numbers[name], _KILL)
    for name in sorted(_NOT_EXECUTABLE):
        yield _instruction(_IF_EQUAL, numbers[name], 0, 4)
        yield _instruction(_LOAD, _THIRD_ARGUMENT)
        yield _instruction(_IF_ANY_BIT, _PROT_EXEC, 0, 1)
        yield _instruction(_RETURN, _REFUSE)
        yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_RETURN, _REFUSE)


def _returning(number: int, action: int) -> tuple[bytes, bytes]:
    return _instruction(_IF_EQUAL, number, 0, 1), _instruction(_RETURN, action)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


# ── system calls ────────────────────────────────────────────────────────────────────────────────────────────────────
def _machine() -> Architecture:
    """Returns the kind of machine on which this process runs. Raises NotHereError where its numbers are not known."""
    name = os.uname().machine
    known = MACHINES.get(name)
    if sys.platform != "linux" or known is None or ctypes.sizeof(ctypes.c_void_p) != _WIDTH:
        raise NotHereError(f"needs Linux on {' or '.join(MACHINES)}, got {sys.platform} on {name}")
    return known


def _call(number: int, *arguments: object) -> int:
    """Make a system call; integers are passed as 64 bits. Raises OSError, NotHereError where this is no Linux."""
    return _ready(number, *arguments)()


def _ready(number: int, *arguments: object) -> Callable[[], int]:
    """Returns a system call with all that ctypes needs for it made already; raises as `_call`.

    In a fresh fork that is more than half of what a call costs: each object made there copies a page of the parent.
    """
    if _syscall is None:
        raise NotHereError(f"needs Linux, got {sys.platform}")
    passed = (ctypes.c_long(number), *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
    return functools.partial(_make, _syscall, passed)


def _make(syscall: Callable[..., int], passed: tuple[object, ...]) -> int:
    result = syscall(*passed)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(put_up().bars) + b"\n")
