"""Notebooks as somebody runs them: filled in, on a machine of their own, in an environment without swarm.

Machine: a home, a working folder, an environment with Python packages but swarm's ─▶ run(notebook) ─▶ its outputs
   └ lose(): all its processes die by kill -9, its folders are gone
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "notebooks"
RUNS = Path(__file__).parent / "run_notebook.py"
MARK = "MACHINE_OF_THIS_TEST"
QUICK = {
    "COORDINATOR_ROUND_INTERVAL": "2400",
    "SWARM_MAX_NEW_TOKENS": "8",
    "SWARM_HEARTBEAT_INTERVAL": "1",
    "SWARM_LIVENESS_TIMEOUT": "60",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}
"""What a user of this machine has exported."""


def filled_in(name: str, **values: object) -> dict[str, Any]:
    """A notebook of docs/notebooks with other values in its form."""
    notebook: dict[str, Any] = json.loads((FOLDER / name).read_bytes())
    (form,) = (cell for cell in notebook["cells"] if cell["id"] == "parameters")
    text = "".join(form["source"])
    for field, value in values.items():
        text, found = re.subn(rf"(?m)^{field} = .*?(?=  # @param)", lambda _, f=field, v=value: f"{f} = {v!r}", text)
        assert found == 1, f"{field} is no field of {name}"
    form["source"] = text.splitlines(keepends=True)
    return notebook


def texts(notebook: dict[str, Any]) -> dict[str, str]:
    """Cell -> all that its outputs say."""
    return {cell["id"]: "".join(_texts(cell)) for cell in notebook["cells"] if cell["cell_type"] == "code"}


def _texts(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell["outputs"]:
        data = output.get("data", {})
        yield from output.get("text", []) if output["output_type"] == "stream" else data.get("text/plain", [])
        yield from [f"<{kind}>" for kind in data if kind.startswith("image/")]
        yield from output.get("traceback", [])


class Machine:
    """One that may be lost."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.work = folder / "content"
        for made in (self.work, folder / "home", folder / "tmp", folder / "runtime"):
            made.mkdir(parents=True)
        (folder / "runtime").chmod(0o700)
        self._mark = uuid.uuid4().hex
        self._python = _environment_without_swarm(folder / "environment")
        here = {"HOME": "home", "TMPDIR": "tmp", "XDG_RUNTIME_DIR": "runtime"}
        self._variables = {name: str(folder / part) for name, part in here.items()} | QUICK | variables
        self._variables |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", MARK: self._mark}
        self._variables |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "JUPYTER_PLATFORM_DIRS": "1"}

    def start(self, notebook: dict[str, Any], leave_at: str = "") -> subprocess.Popen[bytes]:
        """Run all of a notebook, with a kernel of this machine's environment; `leave_at`: see run_notebook.py."""
        (self.work / "notebook.ipynb").write_text(json.dumps(notebook))
        command = [sys.executable, str(RUNS), str(self._python), "notebook.ipynb", leave_at]
        return subprocess.Popen(command, cwd=self.work, env=self._variables)

    def run(self, notebook: dict[str, Any], leave_at: str = "") -> dict[str, str]:
        """The same, to its end, which has to be a good one; what its cells say."""
        with self.start(notebook, leave_at) as running:
            code = running.wait(2 * PATIENCE)
        done = texts(self.executed())
        assert code == 0, "\n".join(f"── {cell}\n{text}" for cell, text in done.items())
        return done

    def executed(self) -> dict[str, Any]:
        """The notebook with its outputs."""
        executed: dict[str, Any] = json.loads((self.work / "notebook.ipynb").read_bytes())
        return executed

    def processes(self) -> list[int]:
        """All that were started on this machine."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def lose(self) -> None:
        """Kill whatever runs, with -9, and remove whatever lies there."""
        ends = time.monotonic() + PATIENCE
        while left := self.processes():
            assert time.monotonic() < ends, left
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder)


def _environment_without_swarm(home: Path) -> Path:
    """Its Python; it has the packages of this one beneath, as Colab has torch and pandas."""
    venv.create(home, with_pip=False)
    beneath = home / "beneath"
    beneath.mkdir()
    for packages in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in packages.iterdir():
            if "swarm" not in entry.name.lower() and not (beneath / entry.name).exists():
                (beneath / entry.name).symlink_to(entry)
    (own,) = (home / "lib").glob("python*/site-packages")
    (own / "beneath.pth").write_text(f"{beneath}\n")
    return home / "bin" / "python"
