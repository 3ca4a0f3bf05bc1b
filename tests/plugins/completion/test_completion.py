"""`swarm completion`: what completes commands, flags and choices in a shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from swarm.cli.main import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_flags_and_choices(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("doctor", "adaptive-rule", "informative", "coordinator"):
        assert word in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_is_for_the_shell_of_the_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert run(["completion"]) == 0
    assert "complete -c swarm" in capsys.readouterr().out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run(["completion"]) == 2
    assert "expected $SHELL to be one of bash, zsh, fish, got tcsh" in capsys.readouterr().err
