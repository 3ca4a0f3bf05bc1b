"""The snippets of docs/metrics.md do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from swarm.cli.main import run
from tests.unit.views.tables.small_study import copy_of_small

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text("utf-8")


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
    assert names["given_tagged"].tolist() == [0.5] * 9
    assert names["learned_from"].loc["worker-0", "worker-1"] == 36
    assert names["trajectory"].unique().tolist() == [2.0]
    assert len(names["cut_off"]) == 3 * 2
    assert names["pass_at_1"]["4/0"] == names["given_answered"]["4/0"] == 0.5
    assert len(names["small"]) == len(names["metrics"])
    assert names["table"]["my_reward"].sum() == names["cumulative"]
    assert capfdbinary.readouterr().out.count(b"question_id") == 154
