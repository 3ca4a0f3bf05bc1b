"""The help of every command: its flags with defaults, what they may be and variables, and an example that works."""

from __future__ import annotations

import re
import shlex

import pytest

from swarm.cli import main
from swarm.cli.main import add_plugins, app, run
from swarm.config.declared import DECLARED

add_plugins([])
COMMANDS = dict(main.KNOWN)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")


def help_of(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*words.split(), "--help-all"]) == 0
    return capsys.readouterr().out


def line_of(flag: str, text: str) -> str:
    (line,) = [line for line in text.splitlines() if re.search(rf"│ +{flag} ", line)]
    return line


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_shows_an_example_that_it_takes(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = f"swarm {words} {COMMANDS[words].example}".strip()
    assert f"Example: {example}" in help_of(words, capsys)
    app.parse_args(shlex.split(example)[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("words", ["up", "node", "join", "settings", "status", "experiment list"])
def test_every_flag_of_a_setting_has_its_default_its_range_and_its_variables(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(words, capsys)
    flags = {name: one for name, one in DECLARED.items() if one.flag and re.search(rf"│ +{one.flag} ", text)}
    assert "path" in flags
    for setting in flags.values():
        line = line_of(setting.flag, text)
        assert "[default: " in line
        assert f"[variable: {', '.join(setting.variables)}]" in line
        assert not setting.allowed or f"[allowed: {setting.allowed.replace('`', '')}]" in line


def test_help_shows_the_default_that_the_command_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[default: 40]" in line_of("--rounds", help_of("up", capsys))
    assert "[default: 2000]" in line_of("--rounds", help_of("node", capsys))
    assert "[default: 50]" in line_of("--lines", help_of("logs", capsys))
    assert "[default: 60.0]" in line_of("--timeout", help_of("down", capsys))


def test_help_shows_first_what_people_turn_and_says_how_much_more_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    everything = help_of("up", capsys)
    assert run(["up", "--help"]) == 0
    text = capsys.readouterr().out
    first, all_of_them = (set(re.findall(r"│ (?:\*  )?(--[\w-]+)", said)) for said in (text, everything))
    assert {"--experiment", "--rounds", "--model", "--external", "--against"} < first < all_of_them
    assert not {"--staleness", "--slurm-time", "--no-coordinator"} & first
    assert len(first) <= 24
    assert f"{len(all_of_them - first)} more: --help-all" in text
    assert "--help-all" not in everything.replace("more: --help-all", "")


def test_swarm_alone_shows_a_dozen_commands_by_what_people_want(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    text = capsys.readouterr().out
    shown = re.findall(r"│ ([a-z]+) ", text)
    assert shown == [word for words in main.WANTED.values() for word in words]
    assert 11 <= len(shown) <= 13
    assert all(f"─ {want} ─" in text for want in main.WANTED)
    assert run(["--help-all"]) == 0
    named = set(re.findall(r"│ ([a-z]+) ", capsys.readouterr().out))
    assert named == {words.partition(" ")[0] for words in COMMANDS}
