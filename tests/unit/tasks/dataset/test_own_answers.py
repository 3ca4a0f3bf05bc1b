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


def test_a_row_whose_own_answer_cannot_be_given_is_said_with_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_lines(tmp_path / "q.jsonl", rows([[1], LONG, [3]]))
    prepared(tmp_path, dataset="q.jsonl", scorer="json")
    said = capsys.readouterr().err
    assert "[tasks.mine]: of 3 rows the own answer of 1 does not earn 1 by json" in said
    assert "row 2: " in said
    assert "4,892 characters, and of a completion's 2,000 are read" in said


def test_where_most_own_answers_earn_nothing_the_task_is_refused_with_the_first_rows(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", rows([[1], *[LONG] * 9]))
    with pytest.raises(ConfigError, match=r"of 10 rows the own answer of 9 .* row \d+: .*; and 4 more; mend"):
        prepared(tmp_path, dataset="q.jsonl", scorer="json")


def test_a_function_of_ones_own_is_told_where_it_pays_its_rows_less_raises_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(own_answers, "ROW_SECONDS", 0.05)
    (tmp_path / "my_own_scorer.py").write_text(
        "def f(row, answer):\n    if answer == 'c':\n        while True: pass\n    return {'a': 1, 'b': 0.5}[answer]\n"
    )
    json_lines(tmp_path / "q.jsonl", rows("abcd"))
    prepared(tmp_path, dataset="q.jsonl", scorer="my_own_scorer:f")
    said = capsys.readouterr().err
    assert "row 2: 'b' earns 0.5" in said
    assert "row 3: 'c' needs more than 0.05 s of processor time" in said
    assert "row 4: 'd' raises KeyError" in said


def test_a_row_that_ends_its_process_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_ending_scorer.py").write_text(
        "import os\ndef f(row, answer):\n    if answer == 'b': os._exit(1)\n    return float(answer == 'a')\n"
    )
    json_lines(tmp_path / "q.jsonl", rows("abad"))
    prepared(tmp_path, dataset="q.jsonl", scorer="my_ending_scorer:f")
    said = capsys.readouterr().err
    assert "of 3 rows (of 4 in all) the own answer of 1" in said
    assert "row 2: 'b' its scoring had to be ended" in said


def test_of_a_file_that_takes_too_long_a_part_is_looked_at_and_its_size_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_answers, "SECONDS", 1e-6)
    monkeypatch.setattr(own_answers, "BUSY", 1e9)
    json_lines(tmp_path / "q.jsonl", rows([LONG] * 20))
    with pytest.raises(ConfigError, match=r"of 1 rows \(of 20 in all\) the own answer of 1 does"):
        prepared(tmp_path, dataset="q.jsonl", scorer="json")


def test_what_holds_no_answer_is_not_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_lines(tmp_path / "q.jsonl", rows([r"\d+"]))
    prepared(tmp_path, dataset="q.jsonl", scorer="regex")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("scorer", "scoring"), [("number", 3), ("number", 1), ("exact", 2)])
def test_a_scoring_that_this_version_does_not_have_is_refused(tmp_path: Path, scorer: str, scoring: int) -> None:
    json_lines(tmp_path / "q.jsonl", rows(["5"]))
    with pytest.raises(ConfigError, match=f"scoring of {scorer} must be .*, got {scoring}"):
        prepared(tmp_path, dataset="q.jsonl", scorer=scorer, scoring=scoring)
