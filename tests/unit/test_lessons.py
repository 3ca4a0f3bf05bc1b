"""The table of lessons in tests/README.md names tests that are there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_that_the_table_of_lessons_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (TESTS / "README.md").read_text()))
    there = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 30
    assert named - there == set()
