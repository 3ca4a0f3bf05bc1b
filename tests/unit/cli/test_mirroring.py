"""`swarm up --mirror`: what is brought back before the start, when nothing is, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swarm.cli import copying
from swarm.cli.copying import bring_back, reached
from swarm.cli.main import run
from swarm.config import Settings
from swarm.errors import ConfigError, ExperimentError
from tests.layout import Layout
from tests.unit.cli.test_copying import made
from tests.unit.cli.test_processes import REGISTERS, process
from tests.unit.views.factories import make_experiment, make_peer, make_round, run_of


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


def settings_in(tmp_path: Path) -> Settings:
    return Settings(path=str(tmp_path / "vm"), mirror=str(tmp_path / "drive"), experiment="exp")


def in_mirror(tmp_path: Path, rounds: int = 3) -> Layout:
    return made(make_experiment(tmp_path / "drive", rounds=rounds), 1.0)


def in_place(tmp_path: Path, rounds: int = 3, made_at: float = 1.0) -> Layout:
    return made(make_experiment(tmp_path / "vm", rounds=rounds), made_at)


def rounds_in_place(tmp_path: Path) -> dict[str, int]:
    far = reached(run_of(Layout(tmp_path / "vm", "exp")))
    return {node: rounds for (what, node), rounds in far.items() if what == "rows"}


@pytest.mark.parametrize("there", [0, 2])
def test_a_place_that_is_gone_or_was_brought_back_in_part_is_brought_back_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: int
) -> None:
    in_mirror(tmp_path, rounds=4)
    if there:
        in_place(tmp_path, rounds=there)
    bring_back(settings_in(tmp_path), here=True)
    assert "4 rounds are here again" in capsys.readouterr().out
    assert rounds_in_place(tmp_path) == {"alice": 4, "bob": 4, "clock": 0}
    assert run(["validate", "--path", str(tmp_path / "vm"), "--experiment", "exp"]) == 0


def test_a_checkpoint_alone_is_brought_back(tmp_path: Path) -> None:
    in_mirror(tmp_path)
    checkpoint = in_place(tmp_path).checkpoint(3, "alice")
    (checkpoint / "state.json").unlink()
    checkpoint.rmdir()
    bring_back(settings_in(tmp_path), here=True)
    assert (checkpoint / "state.json").exists()


def test_a_place_that_is_as_far_or_further_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bring_back(settings_in(tmp_path), here=True)
    assert not (tmp_path / "vm").exists(), "there is nothing in the mirror yet"
    in_mirror(tmp_path, rounds=2)
    layout = in_place(tmp_path, rounds=3)
    before = {file: file.read_bytes() for file in layout.root.rglob("*") if file.is_file()}
    bring_back(settings_in(tmp_path), here=True)
    assert before == {file: file.read_bytes() for file in layout.root.rglob("*") if file.is_file()}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("ahead", "made_at"), [("bob", 1.0), ("", 2.0)], ids=["both went on", "another of that name"])
def test_two_experiments_are_not_mixed(tmp_path: Path, ahead: str, made_at: float) -> None:
    make_round(in_mirror(tmp_path), "alice", 3)
    layout = in_place(tmp_path, made_at=made_at)
    if ahead:
        make_round(layout, ahead, 3)
    before = rounds_in_place(tmp_path)
    with pytest.raises(ExperimentError, match=r"each have what the other lacks\. They are two experiments"):
        bring_back(settings_in(tmp_path), here=True)
    assert rounds_in_place(tmp_path) == before


def test_while_nodes_run_here_nothing_is_written_under_them(tmp_path: Path) -> None:
    in_mirror(tmp_path)
    with process(REGISTERS, tmp_path / "vm", "exp", "worker", "alice"):
        bring_back(settings_in(tmp_path), here=True)
    assert not (tmp_path / "vm").exists()


@pytest.mark.parametrize("still_there", [True, False])
def test_a_mirror_that_another_machine_still_writes_into_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, still_there: bool
) -> None:
    layout, beat = in_mirror(tmp_path), 7

    def beats(seconds: float) -> None:
        nonlocal beat
        beat += still_there
        make_peer(layout, "alice", host="another", status="active", beat=beat, last_seen=time.time())

    beats(0)
    monkeypatch.setattr(copying, "WATCHED", 0.2)
    monkeypatch.setattr("swarm.cli.processes.time.sleep", beats)
    if not still_there:
        bring_back(settings_in(tmp_path), here=True)
        assert rounds_in_place(tmp_path)["alice"] == 3
        return
    with pytest.raises(ExperimentError, match=r"another machine still writes into .*: alice go on there"):
        bring_back(settings_in(tmp_path), here=True)
    assert not (tmp_path / "vm").exists()


def test_the_place_itself_is_no_mirror_and_jobs_have_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected another place"):
        bring_back(Settings(path=str(tmp_path), mirror=f"{tmp_path}/", experiment="exp"), here=True)
    with pytest.raises(ConfigError, match="for nodes of this machine"):
        bring_back(settings_in(tmp_path), here=False)
