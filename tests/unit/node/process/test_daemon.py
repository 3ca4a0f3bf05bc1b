"""From what happened to an exit code."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.errors import ConfigError, DuplicateNodeError, ExperimentError, StoreError, SwarmError
from swarm.node.base.context import NodeContext
from swarm.node.process import daemon
from swarm.node.process.daemon import run_node
from swarm.records.listing import nodes_with_logs
from tests.layout import Layout
from tests.unit.node.factories import make_settings


def run_failing(monkeypatch: pytest.MonkeyPatch, path: Path, error: BaseException) -> int:
    """A worker that ends like this."""

    async def work(ctx: NodeContext) -> int:
        raise BaseExceptionGroup("tasks", [BaseExceptionGroup("steps", [error])])

    monkeypatch.setattr(daemon, "_work", work)
    return run_node(make_settings(path, node_id="alice"))


def events_of(path: Path) -> list[str]:
    lines = Layout(path, "exp").events_file("alice").read_bytes().splitlines()
    return [msgspec.json.decode(line)["event"] for line in lines]


def test_an_error_on_purpose_becomes_its_exit_code_and_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run_failing(monkeypatch, tmp_path, StoreError("gone")) == 1
    assert events_of(tmp_path) == ["node.starting", "process.failed"]


@pytest.mark.parametrize(
    ("error", "code"), [(DuplicateNodeError("two"), 2), (ConfigError("what?"), 2), (ExperimentError("other"), 2)]
)
def test_a_node_that_is_refused_before_it_has_its_name_leaves_no_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: SwarmError, code: int
) -> None:
    assert run_failing(monkeypatch, tmp_path, error) == code
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    assert nodes_with_logs(Layout(tmp_path, "exp").run) == []


def test_any_other_exception_is_never_an_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Exceptions were once swallowed and "training complete" logged with exit code 0."""
    with pytest.raises(BaseExceptionGroup):
        run_failing(monkeypatch, tmp_path, RuntimeError("the gradient exploded"))
    assert events_of(tmp_path) == ["node.starting", "process.crashed"]


def test_a_node_takes_one_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a node has one model"):
        run_node(make_settings(tmp_path, node_id="alice", model=("a", "b")))
    assert not list(tmp_path.iterdir())
