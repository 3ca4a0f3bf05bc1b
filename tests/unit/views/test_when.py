"""A moment as people name it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from swarm.cli.logs import moment
from swarm.errors import ConfigError

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("2d", 172_800.0), ("1w", 604_800.0), (" 1.5h ", 5400.0)],
)
def test_so_long_ago(text: str, ago: float) -> None:
    assert moment(text, NOW, "--since") == NOW - ago


def test_times_of_iso_8601() -> None:
    expected = datetime(2026, 7, 1, 12, 30, tzinfo=UTC).timestamp()
    assert moment("2026-07-01T12:30Z", NOW, "--since") == expected
    assert moment("2026-07-01T14:30:00+02:00", NOW, "--since") == expected
    assert moment("2026-07-01 12:30", NOW, "--since") == datetime(2026, 7, 1, 12, 30).astimezone().timestamp()
    assert moment("2026-07-01", NOW, "--since") == datetime(2026, 7, 1).astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "10", "m", "-5m", "10m ago", "2026-13-01", "1" * 400])
def test_anything_else_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--since .*expected how long ago, such as 90s"):
        moment(text, NOW, "--since")
