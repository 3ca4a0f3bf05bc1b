"""docs/metrics.md lists every column of every table, and its snippets do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from swarm.cli.main import run
from swarm.study.tables.columns import RUN
from swarm.study.tables.frames import TABLES
from tests.unit.study.tables.small_study import copy_of_small

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PAGE = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text("utf-8")


def rows_below(headline: str) -> dict[str, list[str]]:
    """The table of a section: column -> dtype, unit, meaning."""
    section = re.search(rf"^## {headline}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section, f"the page has no section {headline}"
    lines = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", section[1], re.MULTILINE)
    return {name: rest for name, *rest in lines}


@pytest.mark.parametrize(
    ("headline", "columns"), [("Studies", RUN), *((name, table.columns) for name, table in TABLES.items())]
)
def test_the_page_lists_every_column_with_its_dtype_in_order(headline: str, columns: dict[str, str]) -> None:
    listed = rows_below(headline)
    assert {name: rest[0] for name, rest in listed.items()} == columns
    assert list(listed) == list(columns)
    assert all(meaning for _, _, meaning in listed.values())


def test_the_snippets_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    copy_of_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(code, names)
        for line in code.splitlines() if language == "sh" else ():
            assert run(shlex.split(line)[1:]) == 0
    assert names["cumulative"] == 252 / 64
    assert names["per_round"][0] == 9 / 64
    assert names["means"]["4/0"] == 159 / 64
    assert names["learned_from"].loc["worker-0", "worker-1"] == 36
    assert names["trajectory"].unique().tolist() == [2.0]
    assert len(names["cut_off"]) == 3 * 2
    assert names["pass_at_1"]["4/0"] == 0.5
    assert len(names["small"]) == len(names["metrics"])
    assert names["table"]["my_reward"].sum() == names["cumulative"]
    assert capfdbinary.readouterr().out.count(b"question_id") == 154
