"""Tasks that a stranger's experiment defines: nothing is read, fetched, published or crashed into by who joins it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from swarm.cli.node import with_tasks_of
from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.records import task_files
from swarm.tasks.dataset import files
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.cli.test_joining import begin, joined

SHA256 = "a" * 64


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("SWARM_PATH", str(tmp_path / "place"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Layout(tmp_path / "place", "demo")


def refused(layout: Layout, table: dict[str, Any]) -> None:
    """By who joins, and by who asks an experiment's questions."""
    experiment = begin(layout, task_table=table)
    with pytest.raises(ConfigError):
        joined(layout, experiment)
    with pytest.raises(ConfigError):
        with_tasks_of(layout.run, experiment, Settings())


@pytest.mark.parametrize("sha256", [{}, {"sha256": ""}, {"sha256": "A" * 64}, {"sha256": None}])
def test_a_file_of_ones_own_is_never_read_because_an_experiment_names_it(
    layout: Layout, tmp_path: Path, sha256: dict[str, Any]
) -> None:
    private = tmp_path / "private.csv"
    private.write_text("question,answer\nmy password?,hunter2\n")
    refused(layout, {"t": {"dataset": str(private), **sha256}})


@pytest.mark.parametrize("named", ["/etc/hosts", "../private.csv", "~/private.csv", "", "a\x1b[2J.csv"])
def test_datasets_of_an_experiment_are_names_of_files(layout: Layout, named: str) -> None:
    refused(layout, {"t": {"dataset": named, "sha256": SHA256}})


def test_nothing_is_fetched_from_the_hub_because_an_experiment_names_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(files, "fetch", lambda _name, dataset, *_: asked.append(dataset) or Path("/nowhere"))
    refused(layout, {"t": {"dataset": "mallory/bomb"}})
    refused(layout, {"t": {"dataset": "mallory/bomb", "sha256": SHA256}})
    assert asked == []


@pytest.mark.parametrize("scorer", ["os:system", "éos:system", "os.path:éxists", "os:ﬁle", "a-b:c", "os:system\n"])
def test_no_spelling_of_a_function_is_taken(layout: Layout, scorer: str) -> None:
    experiment = begin(layout, task_table={"t": {"dataset": "q.jsonl", "sha256": SHA256, "scorer": scorer}})
    with pytest.raises(ConfigError, match="names code of somebody else"):
        joined(layout, experiment)


@pytest.mark.parametrize(
    "table",
    [
        {"t": {"gym": "chain_sum", "weight": "abc"}},
        {"t": {"gym": "chain_sum", "weight": [1]}},
        {"t": {"gym": "chain_sum", "weight": -1}},
        {"t\x1b[31m": {"gym": "chain_sum"}},
        {"t": {"gym": "chain_sum", "max_terms": 10**18 * 10**18}},
        {"t": {"gym": ["chain_sum"]}},
        {"t": {"gym": "../../x"}},
    ],
)
def test_tables_that_cannot_be_are_refused_and_crash_nobody(layout: Layout, table: dict[str, Any]) -> None:
    refused(layout, table)


def test_one_file_that_many_tasks_name_is_not_multiplied_on_the_disk_of_who_joins(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "MOST_FETCHED", 100_000)
    data = b'{"question": "1", "answer": "1"}\n' + b"\n" * 20_000
    sha256 = hashlib.sha256(data).hexdigest()
    layout.run.store.put(keys.task_file(sha256), data)
    table = {f"t{n}": {"dataset": f"{n}.jsonl", "sha256": sha256} for n in range(32)}
    with pytest.raises(ConfigError, match="bytes"):
        task_files.localised(layout.run.store, table, tmp_path / "cache")
    fetched = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in fetched) <= 100_000
