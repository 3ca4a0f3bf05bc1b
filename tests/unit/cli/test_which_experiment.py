"""Where nobody names an experiment, a command looks at the only one, or the only one that is not over, or asks."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from swarm.cli import flags
from swarm.cli.flags import open_experiment_when_there
from swarm.config import Settings
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import make_experiment, set_clock

LOOKING = (
    *("status", "status --json", "logs", "inspect", "summary", "validate --partial", "export --table rewards -o -"),
    *("doctor --seconds 0.1", "web --export page.html", "down", "keys show --known"),
)


@pytest.fixture(autouse=True)
def nobody_names_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EXPERIMENT_NAME", raising=False)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_the_only_one_is_looked_at(tmp_path: Path, typed: Typed) -> None:
    make_experiment(tmp_path, name="demo")
    for command in LOOKING:
        said = typed(*command.split(), codes=(0, 1))  # a doctor may find something to say of this machine
        assert said.out, command
        assert "no experiment" not in said.out + said.err, command


def test_of_several_the_one_that_is_not_over_is_looked_at(tmp_path: Path, typed: Typed) -> None:
    make_experiment(tmp_path, name="over")
    set_clock(make_experiment(tmp_path, name="going"), 1, finished=False)
    assert msgspec.json.decode(typed("status", "--json").out)["experiment"] == "going"


def test_several_that_are_over_are_asked_for(tmp_path: Path, typed: Typed) -> None:
    for name in ("first", "second"):
        make_experiment(tmp_path, name=name)
    said = typed("status", code=2).err
    assert "first, second" in said
    assert "name one, such as --experiment second" in said
    typed("status", "--experiment", "second")


def test_empty_folders_odd_names_and_links_are_not_meant(tmp_path: Path, typed: Typed) -> None:
    beside = make_experiment(tmp_path, name="demo").root.parent
    (beside / "empty").mkdir()
    (beside / "weird\nname").mkdir()
    (beside / "link").symlink_to("/usr")
    assert msgspec.json.decode(typed("status", "--json").out)["experiment"] == "demo"
    make_experiment(tmp_path, name="other")
    said = typed("status", code=2).err
    assert "holds 2 experiments" in said
    assert "weird" not in said


def test_an_empty_place_is_said_to_have_none(tmp_path: Path, typed: Typed) -> None:
    assert str(tmp_path) in typed("status", code=2).err


def test_who_looks_before_the_experiment_is_there_waits_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flags, "POLL_SECONDS", 0.001)
    make_experiment(tmp_path, name="another")
    begun = threading.Timer(0.05, lambda: make_experiment(tmp_path, name="demo"))
    begun.start()
    found = open_experiment_when_there(Settings(path=str(tmp_path), experiment="demo"))
    begun.join()
    assert found.experiment == "demo"
    assert f"waiting for the experiment demo in {tmp_path}, there are another" in capsys.readouterr().err


def test_of_many_experiments_only_the_first_are_named(tmp_path: Path, typed: Typed) -> None:
    for number in range(50):
        (tmp_path / "experiments" / f"run-{number:02}").mkdir(parents=True)
    said = typed("status", "--experiment", "urn-49", code=2).err
    assert "run-19 and 30 more; " in said
    assert "did you mean 'run-49'?" in said
    assert "run-20" not in said
