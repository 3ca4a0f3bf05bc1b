"""Runs of another program that no plugin knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import ExperimentError
from swarm.records import made_by
from tests.unit.views.factories import make_experiment, run_of


@pytest.fixture(autouse=True)
def _no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_by, "makers", dict)


def test_a_node_refuses_a_folder_whose_clock_is_none_of_ours(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    layout.state_file.write_bytes(b'{"round": 5, "stage": 0, "updated_at": 1.5, "updated_by": "coordinator"}')
    with pytest.raises(ExperimentError, match="was made by another program"):
        made_by.refuse_foreign(run_of(layout))
    assert made_by.as_ours(run_of(layout)).store.describe() == run_of(layout).store.describe()


def test_a_file_of_a_users_own_in_our_run_makes_it_nobody_elses(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    (layout.root / "reward.png").touch()
    made_by.refuse_foreign(run_of(layout))
