"""A study that is known to fail is refused once, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.plugins.study.cli import study
from tests.fake_hub import FakeHub
from tests.unit.cli.test_before_start import BAD, hub  # noqa: F401 - a fixture


@pytest.mark.parametrize("bad", BAD)
def test_a_study_that_cannot_start_is_refused_once_with_its_cause(
    bad: str,
    hub: FakeHub,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variable, value, cause = BAD[bad]
    monkeypatch.setattr(study, "run_all", None)
    monkeypatch.setenv(variable, value)
    assert run(["study", "run", "sapo", "--seeds", "3", "--path", str(tmp_path / "place")]) == 1
    assert capsys.readouterr().err.count(cause) == 1
    assert not list(tmp_path.iterdir())
