"""What commands print and how they end: screens/NAME.txt has the lines of one command, each with what follows it.

A line of the standard error begins with `! `. `python -m tests.unit.cli.test_screens` writes the files anew; whoever
changes a message looks at the difference.
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
LINES: dict[str, list[str]] = {
    "status": [
        *("status", "status --json", "status --started", "status --started --watch"),
        *("status --started --json", "status --experiment epx", "status --path nowhere", "status --bogus"),
    ],
    "logs": [
        *(
            "logs",
            "logs -n 2 --node alice --node bob --event 'round.*'",
            "logs -o wide -n 1",
            "logs --json --node clock",
        ),
        *("logs --level warning", "logs --level critical", "logs --event later.said", "logs --event rounds.lost"),
        *("logs --event nonsense", "logs --node alcie"),
        *("logs --node zoe", "logs --since yesterday", "logs --since 2100-01-01", "logs --since 2023-11-14T22:13:26Z"),
        *("logs --lines -1", "logs --lines many", "logs --level loud", "logs --experiment epx"),
    ],
    "inspect": [
        "inspect --round 1 --node bob",
        "inspect -n 1 -o json",
        "inspect --round 9",
        "inspect --groups 0",
        "inspect --experiment epx",
    ],
    "summary": ["summary", "summary --json", "summary --experiment epx"],
    "validate": [
        *("validate", "validate --json", "validate --rounds 4"),
        *("validate --experiment epx", "validate --experiment torn", "validate --partial --experiment torn --json"),
    ],
    "export": ["export --table rewards --format jsonl -o -", "export exp --study small", "export nothing"],
    "experiment": [
        *("experiment list", "experiment list --path empty", "experiment clean --yes", "experiment clean exp"),
        *("experiment clean none --yes", "experiment clean ../place --yes", "experiment clean exp --experiment torn"),
        *("experiment prune", "experiment prune exp --keep 3 --yes"),
        *("experiment clean torn --rollouts --yes", "experiment clean torn --yes"),
        *("experiment clean epx --yes", "judge exam --experiment epx", "judge exam --samples 0"),
    ],
    "settings": [
        *(
            "settings seed --seed 7",
            "settings -- --learning-rate",
            "settings SWARM_LIMITS",
            "settings limits.max_peers",
        ),
        *("settings learning", "settings lerning_rate", "settings --sampler best", "settings --seed -3"),
        *("settings seed --json --preset paper", "settings --preset papre", "settings --config nothing.toml"),
    ],
    "keys": [
        "keys show --known",
        "keys forget anna",
        "keys show --known --experiment epx",
        "keys forget anna --experiment epx",
    ],
    "copy": ["copy . . --experiment exp", "copy . away --experiment exp", "copy . away --experiment epx"],
    "node": [
        *("node --standby", "node --model a,b", "node --tasks chess", "node --nodes 0", "node --profile hard"),
        *("node --nodes 2 --role coordinator", "join --role coordinator", "join --as anna"),
        *("join . --experiment begun --dry-run --node-id carl", "up --nodes 2 --rounds 7 --dry-run --experiment new"),
        *(
            "node --first 2",
            "up --nodes 3 --dry-run --experiment new",
            "up --nodes 0",
            "up --slurm-cpus 2",
            "down",
            "down --timeout -1",
            "down --timeout nan",
        ),
    ],
    "plan": [
        *("plan --nodes 3 --model tiny-qwen2,tiny-2-gpt2", "plan --nodes 900"),
        *("plan --json --in-process", "plan --nodes 0", "plan --device-memory 16", "plan --tasks typo"),
        *("plan --model ./there", "plan --model ./there --device-memory 16GB", "plan --model ./nowhere"),
    ],
    "doctor": ["doctor --seconds 0", "doctor --seconds soon", "doctor --nonsense", "doctor --experiment epx"],
    "web": [
        "web --host 0.0.0.0 --port 0",
        "web --export there",
        "web --export x.html --experiment epx",
        "web --port 70000",
    ],
    "ask": ["ask --task bf --samples 0", "probe --questions 9999", "ask --task bf --model a,b"],
    "model export": [
        *("model export alice --experiment torn", "model export bob", "model export alice --rounds 2"),
        *("model export alice", "model export alice -o there"),
    ],
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
    return f"$ swarm {line}\n{said}[exit {code}]\n"


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


def test_every_screen_is_one_of_a_command() -> None:
    assert {file.stem for file in SCREENS.iterdir()} == {*LINES}


if __name__ == "__main__":
    for named in LINES:
        for made in short_place():
            (SCREENS / f"{named}.txt").write_text(screen(named, made), "utf-8")
