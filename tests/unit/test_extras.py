"""What is installed on request is asked for in one way, which installs it beside the program that asks."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.errors import ConfigError
from swarm.extras import installed_by
from swarm.signing.trust import make_trust

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
COMMAND = re.compile(r"\bpip3? install [^\n`]*|\b(?:pipx|uv|uvx|poetry|conda) (?:install|run|add|tool|pip)\b[^\n`]*")
OURS = re.compile(r"^[\"']?swarm[-_.]?\w*", re.IGNORECASE)
"""A name that pip would look for on an index, where it may be anybody's; `swarm @ URL` and a file are none."""


def texts() -> Iterator[tuple[Path, str]]:
    for folder in ("swarm", "services", "docs", "benchmarks", "tests/plugins/outside"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".md", ".ipynb", ".toml", ".yaml", ".html"):
                yield file, file.read_text("utf-8")
    for file in ROOT.glob("*"):
        if file.is_file() and file.name != "CHANGELOG.md":
            yield file, file.read_text("utf-8")


def test_no_page_or_message_installs_swarm_by_a_name_on_the_index() -> None:
    said = [(file.name, found) for file, text in texts() for found in COMMAND.findall(text)]
    assert len(said) > 20
    for file, command in said:
        named = [word for word in command.split() if OURS.match(word) and not word.strip("\"'").endswith(".whl")]
        assert not named or " @ " in command, f"{file}: {command}"


def test_no_package_of_ours_depends_on_swarm_by_a_name_on_the_index() -> None:
    for file, text in texts():
        assert not re.search(r'dependencies = \["swarm', text), file


def test_every_extra_that_a_page_installs_is_declared() -> None:
    pattern = re.compile(r"pip install [^\n`]*(?:\.|whl|swarm-sapo)\[([\w,]+)\]")
    named = [
        (file.name, extra) for file, text in texts() for found in pattern.findall(text) for extra in found.split(",")
    ]
    assert len(named) > 10
    assert [(file, extra) for file, extra in named if extra not in DECLARED] == []


def test_the_command_names_the_libraries_and_is_of_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_by("signing") == f'{sys.executable} -m pip install "cryptography>=43"'
    assert installed_by("bucket").endswith('pip install "obstore<0.13,>=0.12" "zstandard>=0.23"')
    monkeypatch.setattr(sys, "executable", "/my programs/python")
    assert installed_by("signing").startswith('"/my programs/python" -m pip')


def test_a_checkout_that_is_not_installed_is_installed_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", nowhere)
    assert installed_by("bucket").endswith(f'-m pip install -e "{ROOT}[bucket]"')


def test_who_has_no_cryptography_is_told_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "swarm.signing.signatures", None)
    for command in (["keys", "new"], ["keys", "show"]):
        assert run(command) == 2
        assert f"`swarm keys` needs cryptography, not installed: {installed_by('signing')}" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"SWARM_SIGNING needs cryptography.*or leave signing off"):
        make_trust("on", tmp_path, tmp_path, "exp")
