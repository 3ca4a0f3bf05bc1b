"""What is refused, or waits, leaves nothing in the shared folder; what `swarm up` says and starts."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from swarm.cli import plan, up
from swarm.cli.main import run
from swarm.config import Settings
from swarm.errors import ExperimentError, MemoryPlanError
from swarm.store.place import open_place
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.cli.conftest import Typed
from tests.unit.cli.swarms import have_free
from tests.unit.node.factories import run_of
from tests.unit.views.factories import make_experiment, make_start


def test_a_swarm_that_does_not_fit_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_free(monkeypatch, 800e6)
    monkeypatch.setattr(plan, "cores", lambda: 2)
    monkeypatch.setattr(up, "_run", None)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    would = r"would fit, and nothing does by itself: .*--adapter lora --in-process \(.*--nodes 1\. .*--force"
    with pytest.raises(MemoryPlanError, match=rf"does not fit: 4 nodes .*{would}"):
        up.up(nodes=4)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def recorded(layout: Layout, node: str, **settings: object) -> None:
    """A start of a worker as its record has it."""
    start = make_start(layout, node, role="worker", settings=settings)
    run_of(layout, node).store.append_records(keys.starts(node), [msgspec.json.encode(start)], durable=False)


def test_up_never_mixes_workers_into_what_others_made_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path, "demo")
    recorded(layout, "anna")
    recorded(layout, "ben")
    run = run_of(layout)
    up._refuse_other_workers(run, ["worker-0"])  # nothing was done in it
    layout.root.joinpath(keys.ROLLOUTS, "round_0").mkdir(parents=True)
    with pytest.raises(ExperimentError, match=r"has the workers (ben, anna|anna, ben); .* by worker-0"):
        up._refuse_other_workers(run, ["worker-0"])
    up._refuse_other_workers(run, ["anna", "ben"])
    assert capsys.readouterr().out == ""
    up._refuse_other_workers(run, ["anna", "carol"])
    said = capsys.readouterr().out
    assert "new in this experiment, with the weights of their models: carol" in said
    assert "took part in it before and are not started: ben" in said


def test_each_node_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    have_free(monkeypatch, 64e9)
    monkeypatch.setattr("anyio.run", lambda *_: 0)
    monkeypatch.setattr(plan, "cores", lambda: 2)
    said = typed("up", "--path", tmp_path, "--nodes", "3", "--rounds", "7").out
    coordinator, *workers, _ = said.splitlines()  # the last line opens the page
    assert coordinator.split(maxsplit=1) == ["coordinator", "opens the rounds, 7 of them, for 3 workers"]
    trains = "trains tiny-2-qwen2 on I 4, J 4, G 8, 1 thread"
    assert [line.split(maxsplit=1) for line in workers] == [["worker-0", trains], ["worker-{1..2}", trains]]


def test_a_finished_experiment_is_an_error_or_shown_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    have_free(monkeypatch, 64e9)
    layout = make_experiment(tmp_path)
    line = ["up", "--path", str(tmp_path), "--experiment", layout.experiment, "--rounds", "3"]
    layout.checkpoint(3, "bob").mkdir(parents=True)
    monkeypatch.setattr(up, "read_experiment", lambda _: "there")
    monkeypatch.setattr(up, "differences", lambda *_: [])
    assert "is finished after 3 rounds: ask for more --rounds" in typed(*line, code=2).err
    said = typed(*line, "--unless-finished").out
    assert "cumulative reward" in said
    assert "is finished after 3 rounds: ask for more --rounds" in said


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
