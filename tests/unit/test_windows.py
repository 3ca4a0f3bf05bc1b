"""What only looks works on a system that lacks what Windows lacks; what runs nodes says what is missing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from swarm import entry_points
from swarm.cli.main import COMMANDS
from swarm.entry_points import load
from swarm.errors import AlreadyThereError
from swarm.store.folder.beneath import is_taken_apart, native
from swarm.store.folder.store import FolderStore
from tests.unit.views.factories import make_experiment
from tests.windows import missing

ROOT = Path(__file__).parents[2]
CHILD = """
import contextlib, io, json, os, sys, time, traceback
from tests import windows
there, first, folder, commands = json.loads(sys.argv[1])
time.time = lambda: 1.8e9
if there == "windows":
    windows.pretend(*(windows.ANALYSIS if first else ()))
from swarm.cli.main import run
answers = []
sys.path.insert(0, os.getcwd())
os.chdir(folder)
for command in commands:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(command)
        except BaseException as error:
            code = error.code if isinstance(error, SystemExit) else None
            if code is None:
                traceback.print_exc()
        out.flush()
    answers.append((code, out.buffer.getvalue().decode(), err.getvalue()))
print(json.dumps(answers))
"""
IMPORTS = """
import importlib, pkgutil, sys
from tests import windows
windows.pretend()
import swarm
left_out = ("__main__", "swarm.policy", "swarm.plugins.lab.warmup", "swarm.plugins.lab.mean_weights")
left_out += ("swarm.planner.trace", "swarm.plugins.study")
left_out += tuple(f"swarm.plugins.sinks.{kind}" for kind in ("tensorboard", "trackio", "wandb"))  # extras
names = [each.name for each in pkgutil.walk_packages(swarm.__path__, "swarm.")]
names = [name for name in names if not any(word in name for word in left_out)]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def python(code: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "ignore", "-c", code, *arguments]
    env = os.environ | environment
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers(there: str, *commands: list[str], analysis: bool = False, folder: Path = ROOT) -> list[Answer]:
    """What commands answer on `windows` or on `this` system, in a folder."""
    home = {} if folder == ROOT else {"HOME": str(folder), "SWARM_PATH": str(folder), "EXPERIMENT_NAME": "exp"}
    lines = python(CHILD, json.dumps([there, analysis, str(folder), commands]), **home).splitlines()
    return [Answer(*each) for each in json.loads(lines[-1])]


def both(*commands: list[str]) -> tuple[list[Answer], list[Answer]]:
    return answers("windows", *commands), answers("this", *commands)


def test_the_names_that_windows_lacks_are_those_of_the_documentation() -> None:
    gone, lacking = missing()
    assert {"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "posix", "syslog", "readline"} <= gone
    assert {"O_DIRECTORY", "O_NOFOLLOW", "fork", "setsid", "getuid", "sched_getaffinity", "pidfd_open"} <= lacking["os"]
    assert {"SIGKILL", "SIGHUP", "setitimer", "pthread_sigmask"} <= lacking["signal"]
    assert not {"open", "replace", "kill", "O_EXCL"} & lacking["os"]
    assert not {"subprocess", "json", "socket"} & gone


def test_all_that_looks_is_imported_without_them() -> None:
    assert int(python(IMPORTS)) > 200


LOOKING = (
    ["status"],
    ["status", "--json"],
    ["logs", "--metrics", "--lines", "40"],
    ["summary", "--json"],
    ["validate"],
)


def test_looking_commands_say_there_what_they_say_here(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    where = ["--path", str(tmp_path), "--experiment", "exp"]
    commands = [[*words, *where] for words in LOOKING]
    commands += [["experiment", "list", "--path", str(tmp_path)]]
    there, here = both(*commands)
    assert there == here
    assert [answer.code for answer in here] == [0] * len(commands)
    assert all(answer.out for answer in here)


def test_the_doctor_looks_at_all_it_can_and_says_that_no_node_runs_there(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    where = ["--path", str(tmp_path), "--experiment", "exp", "--seconds", "0.1"]
    (told,) = answers("windows", ["doctor", "--json", *where])
    findings = {(found["area"], found["check"]): found for found in json.loads(told.out)["findings"]}
    assert not [area for area, check in findings if check == "could be looked at"]
    system = findings["machine", "system"]
    assert system["verdict"] == "warning"
    assert "fork" in system["measured"]
    assert "WSL2" in system["fix"]
    assert {"folder", "visibility", "space", "state", "files", "machine"} <= {area for area, _ in findings}


ELSEWHERE = (
    *("up", "down", "plan", "node", "node --role coordinator", "join .", "ask --task bf", "probe"),
    *("answer . --name anna", "study run sapo"),
    *("judge run", "judge exam", "task try bf", "task audit bf", "keys new", "copy . away", "invite there --as lab"),
    *("model export alice", "model push alice --repo lab/anna", "model build models"),
)
"""Lines that say there that they cannot run."""
THERE = (
    *("status", "logs", "inspect", "summary --plot reward.png", "validate", "settings", "doctor --seconds 0.1"),
    *("web --export page.html", "top", "export exp -o rows.csv", "experiment list", "task new riddles"),
    *("task list", "keys show", "keys forget alice", "study list", "study report sapo", "study compare exp exp"),
    *("completion bash", "sink run tensorboard --once"),
    *("experiment prune exp --keep 1 --yes", "experiment clean exp --yes"),
)
"""Lines that work there, or say what any system would say."""


def test_every_command_ends_there_with_its_output_or_with_one_clear_sentence(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    lines = ELSEWHERE + THERE
    told = answers("windows", *map(shlex.split, lines), analysis=True, folder=tmp_path)
    for line, answer in zip(lines, told, strict=True):
        assert "Traceback" not in answer.err, f"{line}: {answer.err}"
        assert answer.code in (0, 1, 2), line
        assert (line in ELSEWHERE) == ("cannot run here: it needs what Windows lacks" in answer.err), line
        if line.split()[0] in ("up", "node", "down", "plan", "judge"):  # before anything starts
            assert (answer.code, answer.out) == (2, "")
            assert all(word in answer.err for word in ("fork", "fcntl", "WSL2", "Docker", "Colab"))
        assert answer.code != 2 or answer.err.startswith("swarm: "), line


def test_every_command_is_tried_there() -> None:
    plugins = [load(entry).COMMANDS for entry in entry_points.bundled(entry_points.COMMANDS).values()]
    known = {words for table in (COMMANDS, *plugins) for words in table}
    assert known - {" ".join(line.split()[:words]) for line in ELSEWHERE + THERE for words in (1, 2)} == set()


# ── paths and names ─────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "taken"), [("a\\b", True), ("c:", True), ("a.json:b", True), ("..", True), ("nul.json", False)]
)
def test_a_name_is_one_name_to_windows_or_refused(name: str, taken: bool) -> None:
    assert is_taken_apart(name, windows=True) is taken


def test_a_path_is_told_in_the_form_that_may_be_long_and_name_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.abspath", str)
    assert native("C:\\runs\\nul", windows=True) == "\\\\?\\C:\\runs\\nul"
    assert native("\\\\server\\share\\runs", windows=True) == "\\\\?\\UNC\\server\\share\\runs"
    assert native("\\\\?\\C:\\runs", windows=True) == "\\\\?\\C:\\runs"
    assert native("/runs", windows=False) == "/runs"


def test_a_file_is_written_and_removed_by_path_and_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    store = FolderStore(tmp_path / "place", "report", by_path=True)
    store.put("report/page", b"one")
    store.put("report/page", b"two")
    assert store.get("report/page", 10).data == b"two"
    (tmp_path / "place" / "led").symlink_to(outside)
    with pytest.raises(Exception, match="symbolic link"):
        store.put("led/page", b"three")
    store.remove_prefix("led")
    store.remove_prefix("report")
    store.remove_prefix("report")
    assert [entry.name for entry in store.list("").entries] == [".tmp"]
    assert [file.name for file in outside.iterdir()] == ["kept"]


def test_by_path_who_wants_to_be_first_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(*_: object, **__: object) -> None:
        raise NotImplementedError("link: follow_symlinks unavailable on this platform")

    monkeypatch.setattr(os, "link", not_there)
    store = FolderStore(tmp_path / "place", "report", by_path=True)
    store.put("report/page", b"one", if_absent=True)
    with pytest.raises(AlreadyThereError):
        store.put("report/page", b"two", if_absent=True)
    assert store.get("report/page", 10).data == b"one"


def test_what_only_nodes_write_is_refused_by_path(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="openat"):
        FolderStore(tmp_path, "anna", by_path=True).append_records("logs/anna/metrics.jsonl", [b"{}"], durable=False)


# ── encodings ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_console_of_few_characters_gets_all_as_escapes_and_json_means_the_same(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    line = {"timestamp": 1.0, "level": "info", "event": "said", "text": "→ 😀 é"}
    layout.events_file("alice").write_text(json.dumps(line, ensure_ascii=False) + "\n", "utf-8")
    command = [sys.executable, "-m", "swarm", "logs", "--path", str(tmp_path), "--experiment", "exp", "--event", "said"]
    environment = {"PYTHONIOENCODING": "cp1252", "PATH": ""}
    for more in ([], ["--json"]):
        done = subprocess.run([*command, *more], cwd=ROOT, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\\u2192 \\ud83d\\ude00" in done.stdout
    assert json.loads(done.stdout.decode("cp1252"))["text"] == line["text"]
