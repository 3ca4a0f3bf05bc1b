"""Honest text is no attack: whatever script it is in, no scorer's child meets a closed door because of it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.hostile import honest
from tests.patience import part_of_today

READ_AS_LITERALS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
CHEAP = ("exact", "number", "choice", "json", "regex")


def check(asked: tuple[list[honest.QuestionRequest], dict[str, object]]) -> None:
    found = anyio.run(honest.met, *asked, part_of_today(2))
    assert found.answers > 100 * len(asked[0])
    assert found.breaches == []
    assert not found.killed.total()


def test_honest_answers_in_ten_scripts_meet_no_closed_door_at_the_default_tasks() -> None:
    check(honest.of_the_nine(["tiny-2"]))


def test_nor_at_datasets_that_read_answers_as_literals() -> None:
    check(honest.of_gym(READ_AS_LITERALS))


def test_nor_at_the_scorers_of_datasets(tmp_path: Path) -> None:
    check(honest.of_scorers(tmp_path, CHEAP))


@pytest.mark.engine
def test_nor_at_mathematics_where_other_answers_are_given_each_day(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    found = anyio.run(honest.met, *honest.of_scorers(tmp_path, ["math", "sums"]), part_of_today(5))
    assert found.breaches == []
