"""docs/guarantees.md, tests/ATTACKS.md: each promise and attack names the test that holds it, and the test is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.unit.named_tests import is_there, named_in

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "guarantees.md", ROOT / "tests" / "ATTACKS.md"]


def rows() -> Iterator[str]:
    """The lines of all tables but their heads."""
    for page in PAGES:
        lines = page.read_text("utf-8").splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            if line.startswith("| ") and not below.startswith("|---"):
                yield line


def test_each_promise_names_a_test_that_is_there() -> None:
    for row in rows():
        assert (named := named_in(row)), f"no test holds this: shorten it, or name one: {row[:100]}"
        assert [test for test in named if not is_there(test)] == [], f"no such test, or more than one: {row[:100]}"


def test_a_row_with_no_test_or_with_one_that_is_gone_is_seen() -> None:
    assert named_in("| they go | quarantined, see `node/intake.py` |") == []
    for gone in ("`test_of_nothing.py`", "`test_doors.py::test_of_nothing`", "`python -m tests.nothing`"):
        (named,) = named_in(f"| they go | held by {gone} |")
        assert not is_there(named)
    for there in (
        "`test_doors.py`",
        "`tests/conformance`",
        "`python -m tests.simulation --runs 9`",
        "`make test-chaos`",
    ):
        (named,) = named_in(there)
        assert is_there(named)
    assert not is_there("test_redo.py"), "two have this name"
