"""What a session in a notebook sets up: Google Drive, secrets, settings, a model; commands; the live view."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins import notebook
from swarm.plugins.notebook import command, live, session
from tests.unit.views.factories import make_experiment, make_peer, set_clock

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


class SecretNotFoundError(Exception):
    pass


class NotebookAccessError(Exception):
    pass


@pytest.fixture
def colab(monkeypatch: Patch) -> list[str]:
    """A Colab with one secret, and one that this notebook may not see; what was mounted."""
    mounted: list[str] = []

    def get(name: str) -> str:
        if name == "HIDDEN":
            raise NotebookAccessError
        if name != "TOKEN":
            raise SecretNotFoundError
        return "hunter2"

    made: Any = ModuleType("google.colab")
    made.userdata, made.drive = ModuleType("userdata"), ModuleType("drive")
    made.userdata.get, made.drive.mount = get, mounted.append
    made.userdata.SecretNotFoundError, made.userdata.NotebookAccessError = SecretNotFoundError, NotebookAccessError
    google: Any = ModuleType("google")
    google.colab = made
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", made)
    return mounted


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: Patch, tmp_path: Path) -> None:
    ours = ("SWARM_PATH", "GDRIVE_PATH", "EXPERIMENT_NAME", "SWARM_MIRROR", "MODEL_NAME")
    for name in ("TOKEN", "HIDDEN", "OTHER", *ours):
        monkeypatch.setenv(name, "")
    monkeypatch.chdir(tmp_path)


def test_drive_is_mounted_where_a_place_lies_in_it_and_only_in_colab(colab: list[str], monkeypatch: Patch) -> None:
    session.mount_drive(["/content/runs", "/content/drive/MyDrive/swarm"])
    session.mount_drive(["/content/runs", "s3://bucket", "", "/content/drives"])
    assert colab == ["/content/drive"]
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(ConfigError, match="this is no Colab"):
        session.mount_drive(["/content/drive/MyDrive"])


def test_secrets_are_taken_from_where_they_are_or_asked_for_and_never_shown(
    colab: list[str], monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setenv("OTHER", "correct horse")
    session.take_secrets(["TOKEN", "HIDDEN", "OTHER"])
    assert [os.environ[name] for name in ("TOKEN", "HIDDEN", "OTHER")] == ["hunter2", "", "correct horse"]
    said = capsys.readouterr()
    assert said.out == "TOKEN: from Colab's secrets\nHIDDEN: none\nOTHER: from the environment\n"
    assert "hunter2" not in said.err
    monkeypatch.setenv("OTHER", "")
    monkeypatch.setattr(session, "getpass", lambda prompt: "typed" if prompt.startswith("OTHER") else "")
    session.take_secrets(["OTHER", "HIDDEN"], ask=True)
    assert (os.environ["OTHER"], os.environ["HIDDEN"]) == ("typed", "")
    assert capsys.readouterr().out == "OTHER: from what was typed\nHIDDEN: none\n"


def test_settings_are_exported_and_those_of_an_earlier_choice_go(monkeypatch: Patch, capsys: Said) -> None:
    monkeypatch.setenv("GDRIVE_PATH", "/elsewhere")
    monkeypatch.setenv("SWARM_MIRROR", "/earlier")
    session.set_up(path="/my place", experiment="demo", model="tiny-2-gpt2")
    assert capsys.readouterr().out.splitlines() == [
        "export SWARM_PATH='/my place'",
        "export EXPERIMENT_NAME=demo",
        "export MODEL_NAME=tiny-2-gpt2",
    ]
    assert not {"GDRIVE_PATH", "SWARM_MIRROR"} & os.environ.keys()


def test_without_a_gpu_an_embedded_model_takes_anothers_place_which_is_said(monkeypatch: Patch, capsys: Said) -> None:
    for gpu, asked, got in (
        (False, "gpt2", "tiny-2-qwen2"),
        (True, "gpt2", "gpt2"),
        (False, "tiny-2-gpt2", "tiny-2-gpt2"),
    ):
        device = type("Device", (), {"is_gpu": gpu})
        monkeypatch.setattr(session, "device_memory", lambda _, device=device: device)
        assert session.model_here(asked) == got
    assert capsys.readouterr().out.count("no GPU is here: tiny-2-qwen2") == 1


def test_a_command_says_its_words_and_gives_its_exit_code() -> None:
    said = io.StringIO()
    assert command.run_command(["settings", "seed"], said) == 0
    assert "SEED" in said.getvalue()
    assert command.run_command(["settings", "sed"], said) == 2
    assert "swarm: " in said.getvalue(), "what went wrong, too"


def test_the_stop_button_asks_a_command_to_end_and_is_no_failure(tmp_path: Path) -> None:
    class Pressed(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting for" in text:
                kernel = threading.main_thread().ident
                threading.Timer(0.2, signal.pthread_kill, [kernel, signal.SIGINT]).start()  # it reads by then
            return super().write(text)

    words = ["logs", "-f", "--path", str(tmp_path), "--experiment", "never"]
    assert command.run_command(words, Pressed()) in command.STOPPED


def test_any_command_says_its_words_as_it_runs_and_gives_its_exit_code(tmp_path: Path, capsys: Said) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['WHO']); print('wrong', file=sys.stderr); sys.exit(4)"
    env = os.environ | {"WHO": "anna"}
    assert notebook.run_with_live_output([sys.executable, "-c", code], cwd=tmp_path, env=env) == 4
    assert capsys.readouterr().out == f"{tmp_path.resolve()} anna\nwrong\n"
    with pytest.raises(ConfigError, match="list of words"):
        notebook.run_with_live_output("swarm up")


def test_the_live_view_follows_what_runs_and_says_when_nobody_does_any_more(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    layout = make_experiment(tmp_path)
    set_clock(layout, 3, max_rounds=9, finished=False)
    (tmp_path / "swarm.log").write_text("".join(f"line {n}\n" for n in range(20)))
    running, looks = [True, True, False, False], []
    monkeypatch.setattr(live, "runs_in_background", lambda: running[len(looks)])
    monkeypatch.setattr("swarm.plugins.notebook.live.time.sleep", looks.append)
    with pytest.raises(ExperimentError, match="nobody is at work in exp any more"):
        live.watch(str(tmp_path), "exp", every=7)
    assert looks == [7, 7, 7]
    said = capsys.readouterr().out
    assert "stopped in round 3" in said
    assert "swarm.log:\n  line 12\n" in said


def test_the_live_view_waits_for_an_experiment_that_is_not_there_yet(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(live, "runs_in_background", lambda: not (tmp_path / "experiments").exists())
    monkeypatch.setattr("swarm.plugins.notebook.live.time.sleep", lambda _: make_experiment(tmp_path))
    live.watch(str(tmp_path), "exp")
    said = capsys.readouterr().out
    assert "no experiment 'exp'" in said
    assert "finished: 3 of 3 rounds" in said


def test_what_a_peer_wrote_stays_text_in_the_live_view(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "alice", status="active", phase="<script>alert(1)</script>\x1b[2J")
    look = live._looks(live.load_settings({"path": str(tmp_path), "experiment": "exp"}, {}))
    bundle = live._bundle(look()[1] + "<b>&\x1b[2J")
    assert "<b>" not in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "\x1b" not in bundle["text/html"] + bundle["text/plain"]
