"""What commands print and how they end: screens/NAME.txt has the lines of one command, each with what follows it.

wrong.txt has wrong command lines, each with the remedy that is shown. A line of the standard error begins with `! `.
`python -m tests.unit.cli.test_screens` types the lines that begin with `$ ` again and writes what follows them anew;
whoever adds a line or changes a message looks at the difference.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from rich.console import Console

from swarm.cli import plan
from swarm.cli.main import app, run
from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory
from swarm.wire.messages import ExperimentFile, NodeStart
from tests.layout import Layout
from tests.unit.views.factories import append, append_events, make_event, make_experiment, write

WIDTH = 120
"""Characters of the terminal that is printed on, whatever the tests before had."""
SCREENS = Path(__file__).parent / "screens"
BEGIN = "$ swarm "
"""Begins a line that is typed."""
LINES = {
    file.stem: [line.removeprefix(BEGIN) for line in file.read_text("utf-8").splitlines() if line.startswith(BEGIN)]
    for file in sorted(SCREENS.iterdir())
}
NEEDED = {"export": ("pandas",), "web": ("starlette", "uvicorn")}
WRITING = ("copy", "experiment")
"""Those of which some line writes into the place."""


def make_place(folder: Path) -> None:
    """A place with a whole experiment, whose nodes have records of their starts, one that is torn, and one that nobody
    has done anything in."""
    layout = make_experiment(folder)
    for node, rate in (("alice", 0.5), ("bob", 0.25)):
        who = {"node_id": node, "experiment": "exp", "role": "worker", "incarnation": "9f"}
        chose = {"seed": 7, "learning_rate": rate}
        start = NodeStart(timestamp=1.0, **who, settings=chose, versions={"torch": "1.0"})
        append(layout.logs / node / "starts.jsonl", msgspec.json.encode(start))
    odd = make_event("later.said", 1_700_000_006.5, "warning", note="\x1b[2J\u202e")
    append_events(layout, "bob", odd, odd)
    torn = make_experiment(folder, name="torn", workers=("alice",), rounds=1)
    torn.state_file.write_bytes(b'{"round": ')
    begun = {"seed": 7, "local_groups": 3, "external_groups": 5, "generations": 4, "profile": "tiny-3", "tasks": None}
    file = ExperimentFile(experiment_name="begun", created_at=1.0, created_by="clock", identity=begun, max_rounds=9)
    write(Layout(folder, "begun").experiment_file, file)
    (folder / "there").mkdir()
    for name, text in (("bad.toml", "seed = = 3\n"), ("odd.toml", "sed = 3\n"), ("file.txt", "hello\n")):
        (folder / name).write_text(text)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """In a folder, with the settings of nobody, in no time zone, on a machine of two cores and
    10 GB."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    said = {"TZ": "UTC", "COLUMNS": str(WIDTH), "SWARM_PATH": ".", "EXPERIMENT_NAME": "exp"}
    more = {"SWARM_KEY_FOLDER": "me", "XDG_RUNTIME_DIR": str(folder), "SWARM_HEARTBEAT_INTERVAL": "0.1"}
    memory = DeviceMemory(device="cpu", free=10**10, total=10**10, host_free=10**10)
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, kept | said | more, clear=True),
        mock.patch.object(tempfile, "tempdir", str(folder)),  # where other swarms of this user are written down
        mock.patch.object(planner, "device_memory", return_value=memory),
        mock.patch.object(plan, "cores", return_value=2),
        mock.patch.object(plan, "can_fork", return_value=True),
    ):
        time.tzset()
        app.console, app.error_console = Console(width=WIDTH), Console(width=WIDTH, stderr=True)
        yield
    app.console = app.error_console = None
    time.tzset()


def transcript(line: str, folder: Path) -> str:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(shlex.split(line))
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    said = texts[0] + "".join(f"! {part}\n" for part in texts[1].splitlines())
    said = said.replace(str(folder.resolve()), "PLACE").replace(str(folder), "PLACE")
    said = re.sub(r"\d+(\.\d+)?[smhd] ago", "some time ago", re.sub(r" +\d{4}\.\dd ", " long ago ", said))
    said = re.sub(
        r'("(?:seen_ago|updated_ago)":)[\d.e+-]+', r"\g<1>0", re.sub(r'"seen":"[^"]+"', '"seen":"then"', said)
    )
    said = re.sub(r"(?<=\S) {2,}", "  ", said)  # columns are as wide as the longest path
    return f"{BEGIN}{line}\n{said}[exit {code}]\n"


def screen(name: str, folder: Path) -> str:
    with alone(folder):
        return "\n".join(transcript(line, folder) for line in LINES[name])


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / "experiments").rglob("*") if path.is_file()}


def short_place() -> Iterator[Path]:
    """A place whose name is so short that no table cuts it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        place = Path(made).resolve()
        make_place(place)
        yield place


place = pytest.fixture(short_place)


@pytest.mark.parametrize("name", LINES)
def test_a_command_prints_what_it_did_and_one_that_looks_or_is_refused_leaves_nothing(name: str, place: Path) -> None:
    for module in NEEDED.get(name, ()):
        pytest.importorskip(module)
    before = files_below(place)
    assert screen(name, place).splitlines() == (SCREENS / f"{name}.txt").read_text("utf-8").splitlines()
    assert name in WRITING or files_below(place) == before


if __name__ == "__main__":
    for named in LINES:
        for made in short_place():
            (SCREENS / f"{named}.txt").write_text(screen(named, made), "utf-8")
