"""seccomp: the few system calls that computing needs, and no others.

    another architecture's calls   the process is killed: i386 calls have other numbers
    ALLOWED                        memory, time, random bytes, output to what is open, the end of the process
    mmap, mprotect                 allowed but for memory that can be executed
    NEVER                          the process is killed: no honest scorer comes near
    all others                     EPERM, as a library's start may try one (uname, ioctl) and go on without

The list says what is allowed, not what is refused, so that calls of later kernels are refused too. Among all others are
stat and its like, which Landlock leaves open; setpriority, sched_* and kill, by which a child reached its parent;
setitimer, rt_sigaction and rt_sigprocmask, by which it stopped or ignored its own timer; prlimit; clone and fork;
memfd_create, io_uring, userfaultfd, keyctl, perf_event_open, inotify; sleeping; reading.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from swarm.tasks.bars.calls import machine, ready

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


def filter_here(allowed: Sequence[str] = ALLOWED) -> Callable[[], int]:
    """Returns a function that puts a process under this machine's filter for good; the process must have no new
    privileges.

    It is assembled here, once; what is returned raises OSError. Raises NotHereError.
    """
    here = machine()
    instructions = list(assemble(here.audit_arch, here.numbers, allowed))
    program = _Program(len(instructions), b"".join(instructions))
    return ready(here.numbers["seccomp"], _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(program))


def assemble(audit_arch: int, numbers: Mapping[str, int], allowed: Sequence[str] = ALLOWED) -> Iterator[bytes]:
    """Yields the instructions; struct sock_filter each."""
    yield _instruction(_LOAD, _ARCH)
    yield _instruction(_IF_EQUAL, audit_arch, 1, 0)
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
