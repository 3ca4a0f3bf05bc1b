"""This machine."""

from __future__ import annotations

import msgspec
import pytest

from swarm.views.doctor import machine
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING

GOOD = machine.MachineFacts((3, 11), (machine.Package("torch", ">=2.11,<2.14", "2.13.0+cpu"),), 4096, 8 * 2**30)


def verdicts(**other: object) -> dict[str, object]:
    return {finding.check: finding.verdict for finding in machine.judge_machine(msgspec.structs.replace(GOOD, **other))}


def test_a_good_machine_is_well_and_so_is_this_one() -> None:
    assert set(verdicts().values()) == {OK}
    found = {finding.check: finding for finding in machine.judge_machine(machine.measure_machine())}
    assert (found["Python"].verdict, found["packages"].verdict) == (OK, OK)
    assert len(machine.packages()) >= 10


@pytest.mark.parametrize(
    ("other", "check", "verdict"),
    [
        ({"python": (3, 10)}, "Python", FAILURE),
        ({"packages": (machine.Package("torch", ">=2.11,<2.14", "2.9"),)}, "packages", FAILURE),
        ({"packages": (machine.Package("torch", ">=2.11", ""),)}, "packages", FAILURE),
        ({"packages": ()}, "packages", WARNING),
        ({"open_files": 512}, "open files", WARNING),
        ({"open_files": 48}, "open files", FAILURE),
        ({"memory": 2**28}, "memory", WARNING),
    ],
)
def test_each_trouble_is_found_and_nothing_else(other: dict[str, object], check: str, verdict: object) -> None:
    assert {name: found for name, found in verdicts(**other).items() if found is not OK} == {check: verdict}


@pytest.mark.parametrize(
    ("there", "wanted", "holds"),
    [
        ("2.13.0+cpu", ">=2.11,<2.14", True),
        ("2.14.0", ">=2.11,<2.14", False),
        ("2.14", "<2.14.1", True),
        ("0.1.25", ">=0.1.25,<0.2", True),
        ("10.0", ">=9", True),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_by_the_rules_of_packages(there: str, wanted: str, holds: bool) -> None:
    assert machine.satisfies(there, wanted) is holds


def test_the_memory_is_what_the_plan_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "host_memory", lambda: (10**8, 10**10))
    (found,) = (finding for finding in machine.judge_machine(machine.measure_machine()) if finding.check == "memory")
    assert (found.verdict, found.measured) == (WARNING, "100 MB available")
