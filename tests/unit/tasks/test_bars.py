"""The bars by themselves: what the kernel refuses, on any kernel that it can be asked of, and on one that has none."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Sequence

import pytest

from swarm.tasks.bars import ALLOWED, MACHINES, NEVER, READING, Architecture, assemble, put_up, rights
from tests.patience import PATIENCE

ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050001


def decide(
    machine: Architecture, number: int, *, arch: int | None = None, third: int = 0, allowed: Sequence[str] = ALLOWED
) -> int:
    """What the filter's program answers, run as the kernel runs it."""
    data = struct.pack("=IIQ6Q", number, machine.audit_arch if arch is None else arch, 0, 0, 0, third, 0, 0, 0)
    program = [struct.unpack("=HBBI", one) for one in assemble(machine, allowed)]
    value, at = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        match code:
            case 0x06:
                return int(operand)
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x15:
                at += if_true if value == operand else if_false
            case 0x45:
                at += if_true if value & operand else if_false
            case _:
                raise AssertionError(f"no instruction of ours: {code:#x}")


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Architecture:
    return MACHINES[request.param]


@pytest.mark.parametrize("allowed", [ALLOWED, READING], ids=["alone", "spoken to"])
def test_the_filter_allows_what_is_listed_kills_what_no_scorer_does_and_refuses_all_others(
    machine: Architecture, allowed: Sequence[str]
) -> None:
    listed = {machine.numbers[name] for name in allowed if name in machine.numbers}
    killed = {machine.numbers[name] for name in NEVER}
    for number in range(500):
        expected = ALLOW if number in listed else KILL if number in killed else REFUSE
        assert decide(machine, number, allowed=allowed) == expected, number


def test_a_child_that_is_spoken_to_may_read_and_wait_for_nothing_else() -> None:
    assert ({*READING} - {*ALLOWED}, {*ALLOWED} - {*READING}) == ({"read"}, {"futex", "sched_yield"})


def test_memory_that_can_be_executed_is_refused(machine: Architecture) -> None:
    for name in ("mmap", "mprotect"):
        assert decide(machine, machine.numbers[name], third=3) == ALLOW
        assert decide(machine, machine.numbers[name], third=7) == REFUSE


def test_calls_under_another_architectures_numbers_end_the_process(machine: Architecture) -> None:
    i386 = 0x40000003
    assert {decide(machine, number, arch=i386) for number in range(500)} == {KILL}
    assert decide(machine, 0x40000000 | machine.numbers["write"]) == REFUSE, "x32"


@pytest.mark.parametrize(
    ("abi", "known"),
    [(1, (0x1FFF, 0, 0)), (2, (0x3FFF, 0, 0)), (3, (0x7FFF, 0, 0)), (4, (0x7FFF, 3, 0)), (5, (0xFFFF, 3, 0))]
    + [(newer, (0xFFFF, 3, 3)) for newer in (6, 7, 99)],
)
def test_all_rights_that_a_version_of_landlock_knows_are_taken(abi: int, known: tuple[int, int, int]) -> None:
    assert rights(abi) == known


def run(code: str) -> str:
    """What the code prints, in a process of its own: bars never come down."""
    command = [sys.executable, "-c", f"import os, sys\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()


@pytest.mark.parametrize("system", ["darwin", "linux on a machine whose numbers are not known", "an old kernel"])
def test_where_there_is_nothing_no_bar_is_up_and_each_says_why(system: str) -> None:
    lack = {
        "darwin": "sys.platform, bars._libc, bars._syscall = 'darwin', None, None",
        "linux on a machine whose numbers are not known": "bars.MACHINES = {}",
        "an old kernel": "bars._syscall = lambda *_: (ctypes.set_errno(errno.ENOSYS), -1)[1]",
    }[system]
    code = f"""
import ctypes, errno
from swarm.tasks import bars
{lack}
found = bars.put_up()
found.close_calls()
print([bar.name for bar in found.bars if bar.up], all(bar.detail for bar in found.bars), os.stat('/') is not None)
"""
    up = {"darwin": "[]", "an old kernel": "['privileges']"}.get(system, "['privileges', 'landlock']")
    if system.endswith("known") and "landlock" not in here():
        up = "['privileges']"
    assert run(code) == f"{up} True True"


def here() -> tuple[str, ...]:
    """Bars that can be put up where the tests run."""
    return tuple(run("from swarm.tasks.bars import put_up; print(*put_up().up)").split())


def test_only_the_named_bars_are_put_up() -> None:
    assert put_up(()).up == ()
