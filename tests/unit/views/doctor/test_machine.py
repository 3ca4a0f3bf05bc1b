"""This machine."""

from __future__ import annotations

import msgspec
import pytest

from swarm.views.doctor import machine
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING

GOOD = machine.MachineFacts(4096, 8 * 2**30)


def verdicts(**other: object) -> dict[str, object]:
    return {finding.check: finding.verdict for finding in machine.judge_machine(msgspec.structs.replace(GOOD, **other))}


def test_a_good_machine_is_well_and_so_is_this_one() -> None:
    assert set(verdicts().values()) == {OK}
    found = {finding.check: finding for finding in machine.judge_machine(machine.measure_machine())}
    assert {*found} == {"open files", "memory"}


@pytest.mark.parametrize(
    ("other", "check", "verdict"),
    [
        ({"open_files": 512}, "open files", WARNING),
        ({"open_files": 48}, "open files", FAILURE),
        ({"memory": 2**28}, "memory", WARNING),
    ],
)
def test_each_trouble_is_found_and_nothing_else(other: dict[str, object], check: str, verdict: object) -> None:
    assert {name: found for name, found in verdicts(**other).items() if found is not OK} == {check: verdict}


def test_the_memory_is_what_the_plan_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "host_memory", lambda: (10**8, 10**10))
    (found,) = (finding for finding in machine.judge_machine(machine.measure_machine()) if finding.check == "memory")
    assert (found.verdict, found.measured) == (WARNING, "100 MB available")
