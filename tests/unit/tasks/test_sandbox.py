"""The sandbox by itself: even if a string were executed, it could not reach the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swarm.tasks.sandbox import REFUSED_EXIT
from tests.patience import PATIENCE

ATTEMPTS = {
    "shell": "os.system('touch PLANTED')",
    "write": "open('PLANTED', 'w')",
    "mkdir": "os.mkdir('PLANTED')",
    "remove": "os.remove('victim')",
    "read": "open('victim').read()",
    "socket": "socket.socket()",
    "native code": "ctypes.CDLL(None)",
    "import": "__import__('wave')",
    "eval": "eval('1 + 1')",
    "exec of code": "exec(compile('1', 's', 'exec'))",
}


def run_confined(code: str, folder: Path, scoring: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the code inside the sandbox, wrapped as a scorer's bare except would."""
    program = f"""
import array, ast, contextlib, ctypes, decimal, os, socket, subprocess, sys
from swarm.tasks import sandbox
confinement = sandbox.enter()
with confinement.scoring() if {scoring} else contextlib.nullcontext():
    try: {code}
    except: pass
os.write(1, b'survived')
os._exit(0)
"""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)


OF_LIBRARIES = ("read", "import", "eval", "exec of code")
"""What a library tries by itself at some texts."""


@pytest.mark.parametrize(
    ("name", "scoring"), [*((name, name not in OF_LIBRARIES) for name in ATTEMPTS), ("mkdir", False)]
)
def test_reaching_for_the_system_ends_the_process_before_it_happens(name: str, scoring: bool, tmp_path: Path) -> None:
    """All of it while questions are made, and where answers are scored what no library tries because of a text."""
    (tmp_path / "victim").write_text("precious")
    ended = run_confined(ATTEMPTS[name], tmp_path, scoring)
    assert (ended.returncode, ended.stdout) == (REFUSED_EXIT, "")
    assert "it tried" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]


def test_what_a_library_tries_by_itself_fails_while_answers_are_scored_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    tries = [f"try: {ATTEMPTS[name]}\n        except (ImportError, OSError): failed += 1" for name in OF_LIBRARIES]
    lines = "\n        ".join(["", "failed = 0", *tries, "os.write(1, b'%d ' % failed)"])
    ended = run_confined(lines, tmp_path, scoring=True)
    assert (ended.returncode, ended.stdout) == (0, f"{len(OF_LIBRARIES)} survived")
    assert ended.stderr.count("was refused: it tried") == len(OF_LIBRARIES)


def test_computing_is_allowed(tmp_path: Path) -> None:
    code = "ast.literal_eval('[[1]]'), decimal.Decimal('1e9') / 3, id(1), array.array('l', [1]), int('x')"
    ended = run_confined(code, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "survived"), ended.stderr


STATES = {
    "stderr closed": "os.close(2)",
    "stderr full": "r, w = os.pipe(); [os.write(w, bytes(4096)) for _ in range(16)]; os.dup2(w, 2)",
    "writing replaced in Python": "os.write = None",
    "exiting replaced in Python": "os._exit = print",
    "the sandbox changed": "sandbox.REFUSED_EXIT = sandbox.ALLOWED_EVENTS = None",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_breach_ends_the_process_whatever_became_of_stderr_and_the_modules(state: str, tmp_path: Path) -> None:
    """A scorer's bare except would go on after an error in the hook; a hook that waits would hold up the server."""
    assert run_confined(f"{state}; os.mkdir('PLANTED')", tmp_path).returncode == REFUSED_EXIT
    ended = run_confined(f"{state}; sys.audit('x' * 10**6)", tmp_path)
    assert (ended.returncode, len(ended.stderr) < 300) == (REFUSED_EXIT, True), "whatever its name"
