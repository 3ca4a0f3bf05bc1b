"""Plugins by entry points: whose they are, what is said of one that dangles, and that the core asks for none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from swarm import entry_points
from swarm.cli.main import run
from tests.distributions import install

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
Put = Callable[..., None]

COMMANDS = """
from swarm.cli.command import Command

COMMANDS = {"%(word)s": Command("%(module)s:say", "Say something.", "--loud")}

def say(*, loud: bool = False) -> None:
    print("AHA" if loud else "aha")
"""


def commands(word: str, module: str) -> str:
    return COMMANDS % {"word": word, "module": module}


@pytest.fixture
def put(tmp_path: Path, monkeypatch: Patch) -> Put:
    """Installs a distribution of this name, with these groups and modules, in a folder of its own on the path."""
    folders = (tmp_path / str(number) for number in count())
    return lambda name, groups, **modules: monkeypatch.syspath_prepend(install(next(folders), name, groups, **modules))


def test_entry_points_are_found_by_name_with_their_distribution(put: Put) -> None:
    put("their-tasks", {"swarm.tasks": {"dice": "dice:DICE"}}, dice="DICE = 7")
    entry = entry_points.found("swarm.tasks")["dice"]
    assert entry.distribution == "their-tasks"
    assert entry_points.load(entry) == 7
    assert "dice" not in entry_points.bundled("swarm.tasks")
    assert "dice" not in entry_points.found("swarm.sinks")


def test_of_two_with_one_name_ours_wins_then_the_first_in_the_alphabet(put: Put) -> None:
    for name in ("swarm-sapo", "aaa", "zzz"):
        groups = {"swarm.sinks": {"both": f"{name}:x", **({"ours": f"{name}:x"} if name != "aaa" else {})}}
        put(name, groups)
    found = entry_points.found("swarm.sinks")
    assert [found[name].distribution for name in ("both", "ours")] == ["swarm-sapo"] * 2
    put("swarm-sapo", {})
    found = entry_points.found("swarm.sinks")
    assert [found[name].distribution for name in ("both", "ours")] == ["aaa", "zzz"]


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ({}, "ModuleNotFoundError: No module named 'gone_away'"),
        ({"gone_away": "1 / 0"}, "ZeroDivisionError: division by zero"),
        ({"gone_away": "other = 1"}, "AttributeError: module 'gone_away' has no attribute 'x'"),
    ],
)
def test_one_that_dangles_says_whose_it_is_and_what_to_type(
    put: Put, monkeypatch: Patch, module: dict[str, str], why: str
) -> None:
    monkeypatch.delitem(sys.modules, "gone_away", raising=False)
    put("theirs", {"swarm.places": {"dav": "gone_away:x"}}, **module)
    with pytest.raises(entry_points.DanglingError) as refused:
        entry_points.load(entry_points.found("swarm.places")["dav"])
    assert str(refused.value) == (
        f"dav (swarm.places) of theirs cannot be had: gone_away:x raises {why}; "
        "install theirs again, or remove it: pip uninstall theirs"
    )


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_command_from_outside_runs_and_is_helped_and_completed(put: Put, capsys: Said) -> None:
    module = commands("greet world", "greeting")
    put("theirs", {"swarm.commands": {"greeting": "greeting"}}, greeting=module)
    assert run(["greet", "world", "--loud"]) == 0
    assert run(["--help"]) == 0
    assert run(["completion", "bash"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("AHA\n")
    assert said.out.count("greet") > 1
    assert said.err == ""


def test_a_dangling_one_is_said_and_the_others_work(put: Put, capsys: Said) -> None:
    groups = {"swarm.commands": {"aaa": "no_such_module", "odd": "odd_table", "wave": "waving"}}
    put("theirs", groups, odd_table="COMMANDS = 7", waving=commands("wave", "waving"))
    assert run(["wave"]) == 0
    said = capsys.readouterr()
    assert said.out == "aha\n"
    assert "aaa (swarm.commands) of theirs cannot be had" in said.err
    assert "odd_table of theirs has no table of commands" in said.err
    assert said.err.count("\n") == 2


@pytest.mark.parametrize("words", ["status", "experiment list", "experiment", "status all", "one two three"])
def test_no_plugin_takes_another_commands_words(put: Put, capsys: Said, words: str) -> None:
    name = f"taking_{words.replace(' ', '_')}"
    put("theirs", {"swarm.commands": {name: name}}, **{name: commands(words, name)})
    assert run(["--help"]) == 0
    assert f"`swarm {words}` of theirs is left out" in capsys.readouterr().err


def test_a_command_of_the_core_asks_for_no_entry_points() -> None:
    words = [line.split() for line in ("--version", "status --help", "experiment list --help", "node --help")]
    code = (
        "import sys, importlib.metadata as metadata\n"
        "asked = []\n"
        "metadata.distribution = metadata.entry_points = lambda *given, **named: asked.append(given or named)\n"
        "from swarm.cli.main import run\n"
        f"codes = [run(each) for each in {words!r}]\n"
        "sys.exit(repr(asked) if asked else max(codes))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_our_own_plugins_that_metadata_does_not_name_are_said_where_a_word_is_unknown(put: Put, capsys: Said) -> None:
    put("swarm-sapo", {})
    assert run(["no-such-word"]) == 2
    said = capsys.readouterr().err
    named, _, why = said.splitlines()[-1].partition(": not registered since swarm was updated")
    assert "study" in named
    assert "install it again" in why
