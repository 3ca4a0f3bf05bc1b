"""Links that others put into a place, where an experiment, an archive or a study is expected: nothing behind them is
read, written or deleted. Links on the way to the place are its user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.errors import StoreError
from swarm.store.place import Place, open_place
from tests.unit.views.factories import make_experiment

PRECIOUS = b"mine\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's own, of the form that an experiment has."""
    for name in ("exp/notes", "rollouts/notes", "logs/alice/metrics.jsonl"):
        (tmp_path / "outside" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "outside" / name).write_bytes(PRECIOUS)
    return tmp_path / "outside"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    make_experiment(tmp_path / "shared")
    return tmp_path / "shared"


def holds(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def link(at: Path, to: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_dir():
        at.rename(at.with_name(f"{at.name}.was"))
    at.symlink_to(to)


@pytest.mark.parametrize("at", ["archives", "archives/exp"])
def test_cleaning_deletes_nothing_behind_a_link(
    shared: Path, outside: Path, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link(shared / at, outside)
    before = holds(outside)
    assert run(["experiment", "clean", "exp", "--path", str(shared), "--yes"]) == 1
    assert "link" in capsys.readouterr().err
    assert holds(outside) == before


@pytest.mark.parametrize("at", ["experiments", "experiments/exp"])
def test_copying_writes_nothing_behind_a_link(shared: Path, outside: Path, tmp_path: Path, at: str) -> None:
    target = tmp_path / "target"
    link(target / at, outside)
    before = holds(outside)
    assert run(["copy", str(shared), str(target), "--experiment", "exp"]) == 1
    assert holds(outside) == before


@pytest.mark.parametrize("command", [["status"], ["validate"], ["summary"], ["logs"]])
def test_nothing_behind_a_link_is_shown(
    shared: Path, outside: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (outside / "logs" / "alice" / "stdout.log").write_text("a secret of another project\n")
    link(shared / "experiments" / "exp", outside)
    run([*command, "--path", str(shared), "--experiment", "exp"])
    assert "a secret" not in "".join(capsys.readouterr())


WRITING: dict[str, Callable[[Place], Callable[[], object]]] = {
    "experiments/exp put": lambda place: partial(place.store("exp", "anna").put, "peers/anna.json", b"{}"),
    "experiments/exp append": lambda place: partial(
        place.store("exp", "anna").append_records, "logs/alice/metrics.jsonl", [b"{}"], durable=False
    ),
    "experiments/exp remove": lambda place: partial(place.store("exp", "anna").remove_prefix, "rollouts"),
    "archives/exp put": lambda place: partial(place.beside("archives/exp", "anna").put, "rollouts/notes", b"x"),
    "studies/exp put": lambda place: partial(place.beside("studies/exp", "anna").put, "notes", b"x"),
}
"""Where, and what: opens a handle, and gives what it then does."""


@pytest.mark.parametrize("writing", WRITING)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_that_becomes_a_link_while_a_node_writes_leads_nothing_out(
    shared: Path, outside: Path, writing: str, depth: int
) -> None:
    write = WRITING[writing](open_place(shared))
    names = writing.partition(" ")[0].split("/")
    link(shared.joinpath(*names[:depth]), outside)
    before = holds(outside)
    with pytest.raises(StoreError):
        write()
    assert holds(outside) == before


def test_links_to_the_place_are_its_users_own(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "way").symlink_to(shared)
    assert run(["status", "--path", str(tmp_path / "way"), "--experiment", "exp"]) == 0
    open_place(tmp_path / "way").store("exp", "anna").put("peers/anna.json", b"{}")
    assert (shared / "experiments" / "exp" / "peers" / "anna.json").read_bytes() == b"{}"
