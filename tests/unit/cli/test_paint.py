"""Colours: on terminals, and nowhere else."""

from __future__ import annotations

import io

import pytest

from swarm.cli.say import painted


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ok       folder: write time", 32),
        ("failure  folder: rename", 31),
        ("round    4  5/9 done  reward 0.5", 1),
        ("12:00:00.123 alice        error    checkpoint.failed", 31),
    ],
)
def test_words_that_say_how_things_are_have_a_colour_on_a_terminal_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, line: str, code: int
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert f"\x1b[{code}m" in painted(line, _Terminal())
    assert painted(line, io.StringIO()) == line
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert painted(line, _Terminal()) == line
