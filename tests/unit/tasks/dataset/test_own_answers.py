"""Rows whose own answer earns less than 1 are said before a run asks them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ConfigError
from swarm.tasks.dataset import own_answers
from tests.unit.tasks.dataset.making import json_lines, prepared

LONG = [list(range(1_000))]


def rows(answers: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"question": f"q{number}", "answer": answer} for number, answer in enumerate(answers)]


SCORER = """
import os
def f(row, answer):
    while answer == 'hang': pass
    if answer == 'end': os._exit(1)
    return {'a': 1, 'half': 0.5}[answer]
"""


@pytest.mark.parametrize(
    ("scorer", "answers", "said"),
    [
        ("json", [[1], LONG, [3]], ["[tasks.mine]: of 3 rows the own answer of 1 does not earn 1 by json", "row 2: "]),
        ("json", [LONG, [1]], ["4,892 characters, and of a completion's 2,000 are read"]),
        ("f", ["a", "half", "hang"], ["'half' earns 0.5", "row 3: 'hang' needs more than 0.05 s of processor time"]),
        ("f", ["a", "no"], ["row 2: 'no' raises KeyError"]),
        (
            "f",
            ["a", "end", "a", "b"],
            ["of 3 rows (of 4 in all) the own answer of 1", "'end' its scoring had to be ended"],
        ),
        ("regex", [r"\d+"], []),  # which holds no answer
    ],
)
def test_a_row_whose_own_answer_earns_less_than_1_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scorer: str,
    answers: list[Any],
    said: list[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(own_answers, "ROW_SECONDS", 0.05)
    (tmp_path / "my_own_scorer.py").write_text(SCORER)
    json_lines(tmp_path / "q.jsonl", rows(answers))
    prepared(tmp_path, dataset="q.jsonl", scorer="my_own_scorer:f" if scorer == "f" else scorer)
    told = capsys.readouterr().err
    assert [words for words in said if words not in told] == []
    assert bool(told) == bool(said)


def test_where_most_own_answers_earn_nothing_the_task_is_refused_with_the_first_rows_of_those_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_lines(tmp_path / "q.jsonl", rows([[1], *[LONG] * 9]))
    with pytest.raises(ConfigError, match=r"of 10 rows the own answer of 9 .* row \d+: .*; and 4 more; mend"):
        prepared(tmp_path, dataset="q.jsonl", scorer="json")
    monkeypatch.setattr(own_answers, "SECONDS", 1e-6)
    monkeypatch.setattr(own_answers, "BUSY", 1e9)
    json_lines(tmp_path / "q.jsonl", rows([LONG] * 20))
    with pytest.raises(ConfigError, match=r"of 1 rows \(of 20 in all\) the own answer of 1 does"):
        prepared(tmp_path, dataset="q.jsonl", scorer="json")


@pytest.mark.parametrize(("scorer", "scoring"), [("number", 3), ("number", 1), ("exact", 2)])
def test_a_scoring_that_this_version_does_not_have_is_refused(tmp_path: Path, scorer: str, scoring: int) -> None:
    json_lines(tmp_path / "q.jsonl", rows(["5"]))
    with pytest.raises(ConfigError, match=f"scoring of {scorer} must be .*, got {scoring}"):
        prepared(tmp_path, dataset="q.jsonl", scorer=scorer, scoring=scoring)
