"""Short campaigns of kill -9 over a bucket; longer ones: `python -m tests.chaos.bucket_kill`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import bucket_kill
from tests.engines.s3_servers import CREDENTIALS

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def test_kills_of_nodes_and_server_lose_and_double_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = bucket_kill.run(tmp_path, kills=5, rounds=8, seed=0, pause=1.0)
    assert code == 0, capsys.readouterr().out


@pytest.mark.slow
def test_kills_of_the_server_change_no_reward(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = bucket_kill.run(tmp_path, kills=3, rounds=8, seed=1, pause=1.0, victims=bucket_kill.SERVER)
    assert code == 0, capsys.readouterr().out
