"""Looking at studies works on a system that lacks what Windows lacks; running one says what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugins.study.report.report_factory import write_study
from tests.unit.test_windows import IMPORTS, answers, python
from tests.unit.views.factories import make_experiment
from tests.unit.views.tables.small_study import SMALL


def test_studies_are_listed_there_as_here_and_running_one_says_what_is_missing_and_where_to_go() -> None:
    listing = ["study", "list", "--path", str(SMALL)]
    there, answer = answers("windows", listing, ["study", "run", "sapo"])
    assert [there] == answers("this", listing)
    assert there.code == 0
    assert "small" in there.out
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("swarm: `swarm study run")
    assert all(word in answer.err for word in ("fork", "fcntl", "WSL2", "Docker", "Colab"))


@pytest.mark.engine
def test_tables_figures_and_reports_are_there_what_they_are_here_to_the_byte(tmp_path: Path) -> None:
    """Two processes write them, so that the same input is shown to give the same bytes as well."""
    assert int(python(IMPORTS, "analysis")) > 30
    found = {}
    for there in ("windows", "this"):
        place = tmp_path / there / "place"
        shutil.copytree(SMALL, place)
        make_experiment(place)
        write_study(place, study="one", configurations=("8/0",), seeds=(1,))
        where = ["--path", str(place)]
        answered = answers(
            there,
            ["export", "--study", "small", *where, "--output", "-"],
            ["export", "exp", *where, "--table", "rollouts", "--output", str(place / "r.parquet")],
            ["summary", *where, "--experiment", "exp", "--plot", str(place / "plot.png")],
            ["study", "compare", "small:4/0", "small:2/2", *where],
            ["study", "report", "one", *where],
            ["experiment", "clean", "exp", *where, "--rollouts", "--yes"],
            analysis=True,
        )
        said = [answer._replace(out=answer.out.replace(str(place), "PLACE")) for answer in answered]
        files = {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}
        found[there] = said, files
    assert found["windows"] == found["this"]
    said, files = found["this"]
    assert [answer.code for answer in said] == [0] * len(said)
    assert "studies/one/report/report.md" in files
    report = [name.rpartition("/")[2] for name in files if name.startswith("studies/one/report/figures/")]
    drawn = {name.partition(".")[0] for name in report}
    assert drawn > {"cumulative_reward", "mean_over_seeds"}
    assert {*report} == {f"{name}.{form}" for name in drawn for form in ("png", "svg", "pdf")}
    assert not [name for name in files if name.startswith("experiments/exp/rollouts")]
