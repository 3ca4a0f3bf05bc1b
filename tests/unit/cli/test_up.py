"""What `swarm up` refuses, says and starts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.cli import plan, up
from swarm.errors import ExperimentError, MemoryPlanError
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.cli.conftest import Typed
from tests.unit.cli.memory import have_free
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
