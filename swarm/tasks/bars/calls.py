"""System calls that the C library has no function for, by ctypes, and their numbers."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Architecture(NamedTuple):
    """One architecture, as the kernel's filters see it."""

    audit_arch: int
    """AUDIT_ARCH_* of linux/audit.h."""
    numbers: Mapping[str, int]
    """System call -> its number."""


_X86_64 = Architecture(
    0xC000003E,
    {
        "read": 0,
        "write": 1,
        "close": 3,
        "mmap": 9,
        "mprotect": 10,
        "munmap": 11,
        "brk": 12,
        "rt_sigreturn": 15,
        "writev": 20,
        "sched_yield": 24,
        "mremap": 25,
        "madvise": 28,
        "getpid": 39,
        "exit": 60,
        "gettid": 186,
        "gettimeofday": 96,
        "time": 201,
        "futex": 202,
        "restart_syscall": 219,
        "clock_gettime": 228,
        "clock_getres": 229,
        "exit_group": 231,
        "getrandom": 318,
        "socket": 41,
        "execve": 59,
        "kill": 62,
        "ptrace": 101,
        "mount": 165,
        "reboot": 169,
        "init_module": 175,
        "unshare": 272,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "finit_module": 313,
        "bpf": 321,
        "execveat": 322,
        "pidfd_send_signal": 424,
        "capset": 126,
        "seccomp": 317,
    },
)
_AARCH64 = Architecture(
    0xC00000B7,
    {
        "read": 63,
        "write": 64,
        "close": 57,
        "mmap": 222,
        "mprotect": 226,
        "munmap": 215,
        "brk": 214,
        "rt_sigreturn": 139,
        "writev": 66,
        "sched_yield": 124,
        "mremap": 216,
        "madvise": 233,
        "getpid": 172,
        "exit": 93,
        "gettid": 178,
        "gettimeofday": 169,
        "futex": 98,
        "restart_syscall": 128,
        "clock_gettime": 113,
        "clock_getres": 114,
        "exit_group": 94,
        "getrandom": 278,
        "socket": 198,
        "execve": 221,
        "kill": 129,
        "ptrace": 117,
        "mount": 40,
        "reboot": 142,
        "init_module": 105,
        "unshare": 97,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "finit_module": 273,
        "bpf": 280,
        "execveat": 281,
        "pidfd_send_signal": 424,
        "capset": 91,
        "seccomp": 277,
    },
)
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}
_WIDTH = 8
"""Bytes of a pointer: under a kernel of 64 bits a Python of 32 makes other calls."""

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_syscall = _libc.syscall if _libc is not None else None
if _syscall is not None:
    _syscall.restype = ctypes.c_long


class NotHereError(Exception):
    """This system lacks what a bar needs; says what and which would have it."""


def machine() -> Architecture:
    """Returns the kind of machine on which this process runs. Raises NotHereError where its numbers are not known."""
    name = os.uname().machine
    known = _MACHINES.get(name)
    if sys.platform != "linux" or known is None or ctypes.sizeof(ctypes.c_void_p) != _WIDTH:
        raise NotHereError(f"needs Linux on {' or '.join(_MACHINES)}, got {sys.platform} on {name}")
    return known


def call(number: int, *arguments: object) -> int:
    """Make a system call; integers are passed as 64 bits. Raises OSError, NotHereError where this is no Linux."""
    return ready(number, *arguments)()


def ready(number: int, *arguments: object) -> Callable[[], int]:
    """Returns a system call with all that ctypes needs for it made already; raises as `call`.

    In a fresh fork that is more than half of what a call costs: each object made there copies a page of the parent.
    """
    if _syscall is None:
        raise NotHereError(f"needs Linux, got {sys.platform}")
    passed = (ctypes.c_long(number), *map(_as_long, arguments))
    return functools.partial(_make, _syscall, passed)


def _make(syscall: Callable[..., int], passed: tuple[object, ...]) -> int:
    result = syscall(*passed)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def control(option: int, *arguments: int) -> None:
    """prctl(2), whose unused arguments are 0. Raises as `call`."""
    if _libc is None:
        raise NotHereError(f"needs Linux, got {sys.platform}")
    padded = (*arguments, 0, 0, 0, 0)[:4]
    if _libc.prctl(option, *map(ctypes.c_ulong, padded)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _as_long(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
