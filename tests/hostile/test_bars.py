"""What hostile code in a scoring child may try is stopped, by which bar, and honest work is not."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from tests.hostile.bars import ATTEMPTS, HARMLESS, STAYS_OPEN, Table, measure

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the attempts are system calls of Linux on x86_64"
)
NEEDED = {
    "landlock": {"link", "remove a file", "make a folder", "rename", "execute a program"},
    "seccomp": {"stat a file", "stop the timer", "renice the parent", "pin the parent", "shared memory", "keys"},
    "audit": {"execute a string", "change permissions", "signal the parent", "fork"},
    "capabilities": {"become another user", "change the root"} if os.geteuid() == 0 else set(),
}
"""What each stops by itself, and the limits do not."""


@pytest.fixture(scope="module")
def table() -> Table:
    return measure()


def test_with_all_bars_nothing_comes_through_but_what_is_bounded(table: Table) -> None:
    assert len(ATTEMPTS) >= 40
    if "seccomp" not in table.up:
        pytest.skip("this kernel filters no system calls")
    assert table.done["all"] & {*ATTEMPTS} == {*STAYS_OPEN}


def test_honest_work_goes_on_behind_each_of_them(table: Table) -> None:
    assert all(done >= {*HARMLESS} for done in table.done.values())


@pytest.mark.parametrize("bar", NEEDED)
def test_each_bar_stops_by_itself_what_it_is_for(table: Table, bar: str) -> None:
    if bar not in table.up | {"audit"}:
        pytest.skip(f"this kernel has no {bar}")
    assert not table.done[bar] & NEEDED[bar]
    assert table.done["limits"] >= NEEDED[bar] - {"fork"}, "what the limits stop shows nothing (only root may fork)"
