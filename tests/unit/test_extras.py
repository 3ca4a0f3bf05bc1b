"""What is installed on request is asked for in one way, which installs it beside the program that asks."""

from __future__ import annotations

import re
import subprocess
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
COMMAND = re.compile(r"pip install [^\n`]*\[[^\n`]*")


def texts() -> Iterator[tuple[Path, str]]:
    for folder in ("swarm", "services", "docs", "benchmarks"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".md"):
                yield file, file.read_text("utf-8")
    yield ROOT / "README.md", (ROOT / "README.md").read_text("utf-8")


def test_every_page_and_message_names_the_same_command() -> None:
    said = [(file.name, found) for file, text in texts() for found in COMMAND.findall(text)]
    assert said
    for file, command in said:
        match = re.match(r'pip install (?:-e )?"(?:swarm-sapo|\.)\[(\w+|\{extra\})\]"', command)
        assert match, f"{file}: {command}"
        assert match[1] in {*DECLARED, "{extra}"}, file


def test_the_command_is_of_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_by("signing") == f'{sys.executable} -m pip install "swarm-sapo[signing]"'
    monkeypatch.setattr(sys, "executable", "/my programs/python")
    assert installed_by("signing").startswith('"/my programs/python" -m pip')


def test_a_checkout_that_is_not_installed_is_installed_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index has swarm: its bare name would be looked for there, and may be anybody's."""

    def nowhere(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", nowhere)
    assert installed_by("bucket").endswith(f'-m pip install -e "{ROOT}[bucket]"')


def test_where_an_environment_is_made_anew_swarm_comes_from_the_clone() -> None:
    made = [
        (file.name, line)
        for file, text in texts()
        for line in text.splitlines()
        if re.search(r"-m venv.*pip install", line)
    ]
    assert made
    for file, line in made:
        assert 'pip install ".[' in line, f"{file}: {line}"


def test_the_command_takes_the_swarm_that_is_installed_here_and_looks_for_no_other() -> None:
    """An index of nothing, as if nobody had published the package; the libraries of `signing` are here."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "swarm-sapo[signing]"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if "No module named pip" in ended.stderr:
        pytest.skip("this environment has no pip")
    assert ended.returncode == 0, ended.stderr
    assert "Requirement already satisfied: swarm-sapo[signing]" in ended.stdout


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
