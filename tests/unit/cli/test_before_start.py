"""What is known to fail is said once, by every command that starts nodes, and nothing is started or left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from swarm.cli import before_start, up
from swarm.config import Settings
from swarm.errors import ModelError
from swarm.policy.embedded import embedded_path
from swarm.store.base import Room
from swarm.store.folder import place
from swarm.store.place import open_place
from tests.fake_hub import FakeHub, fake_hub, go_to
from tests.permissions import permissions_count
from tests.unit.cli.conftest import Typed

NAME = "owner/small"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub of one model, an empty cache, and commands that would fail the test if they started anything."""
    with fake_hub(NAME, embedded_path("tiny-2-qwen2")) as running:
        go_to(running.endpoint, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(up, "_run", None)
        yield running


STARTING = [
    ["up", "--nodes", "3"],
    ["up", "--nodes", "3", "--in-process"],
    ["up", "--nodes", "3", "--dry-run"],
    ["node"],
    ["node", "--nodes", "3"],
    ["join", "{place}", "--experiment", "demo"],
    ["plan"],
]
LINUX = pytest.mark.skipif(not Path("/proc/self").exists(), reason="Linux's folder of processes")
BAD = {
    "a hub id with a slip": ("MODEL_NAME", "owner/smal", "knows none of this name"),
    "a path that is not there": ("MODEL_NAME", "./nothere", "no folder is at"),
    "a device that is not there": ("SWARM_DEVICE", "cuda:7", "device 'cuda:7' cannot be used"),
}


@pytest.mark.parametrize(
    ("words", "bad"),
    [(words, bad) for words in STARTING for bad in BAD if words == ["node"] or "device" not in bad],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_what_cannot_start_is_refused_once_with_its_cause_and_nothing_is_left(
    words: list[str], bad: str, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    variable, value, cause = BAD[bad]
    monkeypatch.setenv(variable, value)
    place = str(tmp_path / "place")
    where = [] if words[0] == "join" else ["--path", place]
    said = typed(*(word.format(place=place) for word in words), *where, code=1 if "hub" in bad else 2)
    assert said.err.count(cause) == 1
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_none_is_refused_with_the_one_that_was_meant(hub: FakeHub, typed: Typed) -> None:
    assert "did you mean 'tiny-2-qwen2'" in typed("plan", "--model", "tiny-2-qwen", codes=(1, 2)).err


def test_two_models_that_cannot_be_had_are_both_named(hub: FakeHub) -> None:
    nodes = [Settings(model=(name,)) for name in ("owner/smal", "./nothere", "owner/smal")]
    with pytest.raises(ModelError) as caught:
        before_start.refuse_unstartable(nodes)
    assert len(str(caught.value).splitlines()) == 2


def test_a_coordinator_needs_no_model(hub: FakeHub, tmp_path: Path) -> None:
    before_start.make_ready([Settings(role="coordinator", model=("owner/smal",), path=str(tmp_path))])
    assert hub.asked == []


def test_a_model_is_fetched_before_nodes_start_visibly(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before_start.make_ready([Settings(model=(NAME,), path=str(tmp_path / "p"))] * 2)
    said = capsys.readouterr().err
    assert said.count(f"swarm: {NAME}: fetching ") == 1
    assert said.count(f"{NAME}: fetched in") == 1
    before_start.make_ready([Settings(model=(NAME,), path=str(tmp_path / "p"))])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "below", "cause"),
    [
        (["up"], "file/runs", "file is no folder"),
        (["up", "--dry-run"], "dangling/runs", "dangling is a link that leads to nothing"),
        (["node"], "loop", "loop: "),
        (["node", "--role", "coordinator"], "n" * 300, "name too long"),
        (["join"], "file/runs", "file is no folder"),
        pytest.param(["up"], "/proc/runs", "/proc is the system's own (proc)", marks=LINUX),
    ],
)
def test_a_place_that_cannot_be_made_is_refused_with_the_true_cause(
    words: list[str], below: str, cause: str, tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to("loop")
    path = str(tmp_path / below)
    said = typed(*words, *([path] if words == ["join"] else ["--path", path]), code=1).err.lower()
    assert f"--path {path} cannot be used: ".lower() in said
    assert cause in said


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (Room(0, None, 0), ""),
        (Room(0, None, 9), "is full"),
        (Room(9, 0, 9), "has room for no more files"),
        (Room(9, 9, 9), ""),
    ],
)
def test_a_disk_is_full_only_where_its_size_is_known(
    room: Room, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "room_at", lambda _: room)
    problem = open_place(tmp_path / "runs").problem()
    assert (said in problem) if said else (problem == "")


def test_a_place_below_a_closed_folder_names_that_folder(tmp_path: Path) -> None:
    (tmp_path / "closed" / "in").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    with permissions_count():
        problem = open_place(tmp_path / "closed" / "in" / "runs").problem()
    (tmp_path / "closed").chmod(0o700)
    assert problem == f"this user may not write in {tmp_path / 'closed'}"
