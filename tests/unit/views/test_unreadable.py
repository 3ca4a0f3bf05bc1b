"""What cannot be read, for want of a permission, is stepped around by who looks, and named by `validate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.errors import ProtocolError
from swarm.store.folder.place import FolderPlace
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from tests.layout import Layout
from tests.permissions import close, permissions_count, reopen
from tests.unit.views.factories import make_experiment

FILES: dict[str, Callable[[Layout], Path]] = {
    "rollouts": lambda layout: layout.rollout_file(RoundKey(1), "bob"),
    "reward": lambda layout: layout.reward_file(RoundKey(1), "bob"),
    "vote": lambda layout: layout.winners_file(1, "bob"),
    "registration": lambda layout: layout.peer_file("bob"),
    "rows": lambda layout: layout.metrics_file("bob"),
    "events": lambda layout: layout.events_file("bob"),
    "output": lambda layout: layout.stdout_file("bob"),
    "state": lambda layout: layout.state_file,
    "folder of logs": lambda layout: layout.metrics_file("bob").parent,
    "folder of checkpoints": lambda layout: layout.checkpoint(3, "alice").parent,
    "folder of a round": lambda layout: layout.rollout_file(RoundKey(1), "bob").parents[1],
}
COMMANDS = ("status", "summary", "logs", "experiment list", "validate", "validate --partial")


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    yield make_experiment(tmp_path)
    reopen(tmp_path)


@pytest.mark.parametrize("what", FILES)
def test_who_looks_steps_around_what_cannot_be_read(
    layout: Layout, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    place = FILES[what](layout)
    close(place)
    for command in COMMANDS:
        more = ["--experiment", "exp"] if command != "experiment list" else []
        with permissions_count():
            code = run([*command.split(), "--path", str(layout.path), *more])
        said = capsys.readouterr()
        assert "Traceback" not in said.err, command
        assert code in ((0, 1) if "validate" in command else (0,)), command
        if command in ("status", "summary", "logs"):
            assert "alice" in said.out, command
        if command == "validate" and what not in ("vote", "registration", "output", "folder of checkpoints"):
            assert code == 1
            assert "bob" in said.out or place.name in said.out


def test_permissions_count_for_root_too(tmp_path: Path) -> None:
    """Without this none of these tests could fail."""
    (tmp_path / "a.json").write_bytes(b"{}")
    close(tmp_path / "a.json")
    with permissions_count(), pytest.raises(ProtocolError, match=r"unreadable: .*Permission denied"):
        FolderStore(tmp_path).get("a.json", 100)


CLOSED: dict[str, Callable[[Layout], Path]] = {
    "the place": lambda layout: layout.path,
    "its experiments": lambda layout: layout.root.parent,
    "the experiment": lambda layout: layout.root,
}
LOOKING = {
    "status": ("--experiment", "exp"),
    "logs": ("--experiment", "exp"),
    "inspect": ("--experiment", "exp"),
    "summary": ("--experiment", "exp"),
    "validate": ("--experiment", "exp"),
    "web": ("--experiment", "exp", "-o", "page.html"),
    "export exp": ("--table", "events", "-o", "events.csv"),
    "experiment list": (),
    "status --started": ("--experiment", "exp"),
    "experiment prune exp": ("--keep", "1", "--yes"),
    "experiment clean exp": ("--yes",),
    "keys show --known": ("--experiment", "exp"),
    "doctor": ("--experiment", "exp", "--seconds", "0.01"),
    "model export alice": ("--experiment", "exp", "-o", "model"),
    "judge exam": ("--experiment", "exp", "--questions", "2"),
    "down": ("--experiment", "exp"),
    "up": ("--experiment", "exp", "--dry-run"),
    "node": ("--role", "coordinator", "--experiment", "exp"),
}
ALL_THERE_IS = ("experiment list", "doctor", "down", "keys")
"""These say what they can, whatever is closed."""


@pytest.mark.parametrize("what", CLOSED)
def test_a_place_that_is_closed_to_this_user_is_said_and_what_to_do(
    layout: Layout,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    close(CLOSED[what](layout))
    for command, more in LOOKING.items():
        with permissions_count():
            code = run([*command.split(), "--path", str(layout.path), *more])
        said = capsys.readouterr()
        assert "Traceback" not in said.err, command
        if not command.startswith(ALL_THERE_IS):
            assert code == 1, command
            assert "permission" in said.err.lower() or "may not" in said.err, command


def test_an_experiment_that_leads_to_a_closed_place_hides_no_other(layout: Layout) -> None:
    (layout.path / "closed" / "inner").mkdir(parents=True)
    (layout.root.parent / "linked").symlink_to(layout.path / "closed" / "inner")
    close(layout.path / "closed")
    with permissions_count():
        assert FolderPlace(layout.path).experiments() == ["exp"]
