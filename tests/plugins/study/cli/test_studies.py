"""`swarm study report` and `swarm study compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from swarm.cli.main import run
from swarm.errors import ConfigError
from swarm.plugins.study.cli import studies
from tests.plugins.study.report.report_factory import write_study


def compared(capsys: pytest.CaptureFixture[str], path: Path, a: str, b: str) -> str:
    assert run(["study", "compare", a, b, "--path", str(path)]) == 0
    return capsys.readouterr().out


def test_compare_tests_configurations_of_three_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path)
    text = compared(capsys, tmp_path, "small:8/0", "small:4/4")
    assert "small:4/4 against small:8/0, over the first 12 rounds" in text
    assert "cumulative reward: Welch t(" in text
    assert "median round of first reaching" in text


def test_compare_of_two_experiments_prints_no_p_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path)
    text = compared(capsys, tmp_path, "small-0-s1", "small-1-s1")
    row = next(line.split() for line in text.splitlines() if line.startswith("bytes fetched"))
    assert row == ["bytes", "fetched", "0", "72,000", "72,000", "-"]
    assert "no p-value: that takes 3 runs on either side" in text
    assert "Welch" not in text


def test_compare_says_where_one_trained_on_more_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = {"local_groups": 4, "external_wanted": 0}
    write_study(tmp_path, study="small", **four)
    write_study(tmp_path, study="big", **(four | {"external_wanted": 4}))
    text = compared(capsys, tmp_path, "small:8/0", "big:8/0")
    assert text.splitlines()[-1] == (
        "a round of big:8/0 trains on 8 groups, one of small:8/0 on 4: 2 times as many. So the difference is not the "
        "effect of sharing alone"
    )
    assert "times as many" not in compared(capsys, tmp_path, "small:8/0", "small:4/4")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "find_spec", lambda name: None if name == "scipy" else object())
    with pytest.raises(ConfigError, match=r'needs scipy, not installed: .* -m pip install .*"scipy'):
        studies.report("small")
    with pytest.raises(ConfigError, match="a comparison needs scipy"):
        studies.compare("a", "b")


def test_a_report_is_of_a_study_or_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path, seeds=(1,), rounds=4, configurations=("8/0",))
    target = tmp_path / "page"
    first = ["study", "report", "small", "--path", str(tmp_path), "--output", str(target), "--format", "csv"]
    assert run([*first, "--window", "2"]) == 0
    assert capsys.readouterr().out == f"wrote {target / 'report.md'}\n"
    assert {file.suffix for file in target.rglob("*.*")} == {".md", ".csv", ".json"}
    assert "--window 2" in (target / "report.md").read_text("utf-8").replace("\\", "")
    again = ["study", "report", "--from-tables", str(target / "tables"), "--output", str(tmp_path / "again")]
    assert run([*again, "--format", "csv"]) == 0
    assert (tmp_path / "again" / "tables" / "comparison.csv").exists()
    capsys.readouterr()
    for wrong, said in (
        (["study", "report"], "name either a study, or a folder of tables"),
        ([*first, "--from-tables", str(target)], "name either a study, or a folder of tables"),
    ):
        assert run(wrong) == 2
        assert said in capsys.readouterr().err
