"""Colours: on terminals, and nowhere else."""

from __future__ import annotations

import io

import pytest

from swarm.cli.say import painted


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ok       folder: write time", 32),
        ("failure  folder: rename", 31),
        ("round    4  5/9 done  reward 0.5", 1),
        ("12:00:00.123 alice        error    checkpoint.failed", 31),
    ],
)
def test_words_that_say_how_things_are_have_a_colour_on_a_terminal(line: str, code: int) -> None:
    assert f"\x1b[{code}m" in painted(line, _Terminal())


def test_a_pipe_no_color_and_a_dumb_terminal_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "warning  nodes: alive"
    assert painted(line, io.StringIO()) == line
    monkeypatch.setenv("TERM", "dumb")
    assert painted(line, _Terminal()) == line
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted(line, _Terminal()) == line
