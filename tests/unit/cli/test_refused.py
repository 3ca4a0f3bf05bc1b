"""Commands that are refused, or wait for what is not there, leave nothing in the shared folder."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from swarm.cli import up
from swarm.cli.main import run
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.store.place import open_place
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.factories import make_experiment

REFUSED = (
    (["node", "--role", "coordinator"], {"SWARM_CLOCK": "own"}),
    (["node", "--standby"], {"SWARM_CLOCK": "own"}),
    (["node", "--model", "a,b"], {"SWARM_CLOCK": "own"}),
    (["node"], {"SWARM_CLOCK": "own", "SWARM_TASKS": "chess"}),
    (["node", "--nodes", "2"], {"SWARM_CLOCK": "own", "SWARM_TASKS": "chess"}),
    (["node", "--nodes", "2", "--role", "coordinator"], {}),
)


@pytest.mark.parametrize(("words", "more"), REFUSED, ids=lambda given: " ".join(given))
def test_a_node_that_is_refused_leaves_nothing(
    words: list[str], more: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | more
    with mock.patch.dict(os.environ, environment, clear=True):
        assert run([*words, "--path", str(tmp_path / "place"), "--experiment", "typo"]) == 2
    assert capsys.readouterr().err.startswith("swarm: ")
    assert not (tmp_path / "place").exists()


def test_a_judge_waits_for_an_experiment_and_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    looks = iter([None, None])

    def sleep(seconds: float) -> None:
        if next(looks, "tired") == "tired":
            raise KeyboardInterrupt

    monkeypatch.setattr("swarm.cli.flags.time.sleep", sleep)
    assert run(["judge", "run", "--path", str(tmp_path), "--experiment", "typo"]) == 130
    said = capsys.readouterr().err
    assert said.count("waiting for the experiment typo") == 1
    assert "there are exp" in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def aborted(tmp_path: Path) -> Layout:
    """An experiment that a coordinator of another seed made, and no more."""
    layout = Layout(tmp_path, "exp")
    layout.put(
        layout.experiment_file, b'{"experiment_name":"exp","created_at":1.0,"created_by":"c","identity":{"seed":7}}'
    )
    return layout


def test_up_begins_anew_what_an_aborted_start_left(aborted: Layout) -> None:
    up._refuse_what_cannot_go_on(Settings(path=str(aborted.path), experiment="exp"), aborted.run)
    assert not aborted.experiment_file.exists()


def test_up_never_begins_anew_what_was_begun(aborted: Layout) -> None:
    (aborted.root / keys.ROLLOUTS / "round_0").mkdir(parents=True)
    run = open_place(aborted.path).open("exp", writer="up")
    with pytest.raises(ExperimentError, match="SEED was 7, now 42"):
        up._refuse_what_cannot_go_on(Settings(path=str(aborted.path), experiment="exp"), run)
    assert aborted.experiment_file.exists()
