"""`swarm keys`: what this machine knows of an experiment, and forgetting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.signing.known_keys import KnownKeys
from tests.unit.cli.conftest import Typed

ID = "0123456789abcdef" * 2


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownKeys:
    for name, value in (("PATH", tmp_path / "shared"), ("KEY_FOLDER", tmp_path / "me")):
        monkeypatch.setenv(f"SWARM_{name}", str(value))
    monkeypatch.setenv("EXPERIMENT_NAME", "exp")
    return KnownKeys(tmp_path / "me", tmp_path / "shared", "exp")


def test_what_is_known_of_an_experiment_is_listed_and_forgotten_by_the_name_that_is_listed(
    known: KnownKeys, typed: Typed
) -> None:
    known.pin("anna", "her-key")
    known.add_id(ID)
    said = typed("keys", "show", "--known").out
    assert ID in said
    assert "her-key" in said
    for name in ("@experiment", "anna"):
        assert name in said
        typed("keys", "forget", name)
    assert not list(known)
    assert known.ids() == []
    typed("keys", "forget", "@experiment", code=2)  # there is none any more
