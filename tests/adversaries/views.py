"""What each view and each command that reads a place costs on a hostile one, beside an honest one.

    python -m tests.adversaries.views --path FOLDER [--repeat 3] [--only status,exam]

A swarm of two workers of an embedded model does six rounds. Its place is copied, and every attack of files is written
into the copy once: attacks.py. Then each command runs on both places by turns, in processes of their own.

Columns: wall seconds and the most resident MB of any of its processes, on the honest and the hostile place (medians),
and what the hostile place costs more. Exit code 1 where that is more than 100 MB or 10 s, or where a command ends with
a traceback.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from swarm.config import without_settings
from tests.adversaries.attacks import OF_FILES, Target
from tests.layout import Layout

NAME, ARCHIVE = "seen", "seen.tar.gz"
BOMB = 50 * 10**9
"""Bytes that the last member of a hostile archive unpacks to."""
ROUNDS = 6
MOST_MB, MOST_S = 100.0, 10.0
PATIENCE_S = 300.0
WORKER = "worker-0"

Command = Callable[[Path, Path], list[str]]
"""Of a place, and of a fresh folder for what it writes, the arguments of `swarm`."""


def _of_place(*arguments: str) -> Command:
    return lambda place, out: [*arguments, "--path", str(place), "--experiment", NAME]


COMMANDS: dict[str, Command] = {
    "status": _of_place("status", "--json"),
    "summary": _of_place("summary", "--json"),
    "validate": _of_place("validate", "--partial", "--json"),
    "logs": _of_place("logs", "-n", "50"),
    "inspect": _of_place("inspect"),
    "export metrics": _of_place("export", "--table", "metrics", "-o", "-"),
    "export events": _of_place("export", "--table", "events", "-o", "-"),
    "export rollouts": _of_place("export", "--table", "rollouts", "-o", "-"),
    "list": lambda place, out: ["experiment", "list", "--path", str(place)],
    "settings": _of_place("experiment", "settings"),
    "doctor": _of_place("doctor"),
    "bugreport": lambda place, out: _of_place("bugreport", "--write", str(out / "report.txt"))(place, out),
    "web --export": lambda place, out: _of_place("web", "--export", str(out / "page.html"))(place, out),
    "up --from": lambda place, out: ["up", "--from", NAME, "--path", str(place), "--dry-run"],
    "copy": lambda place, out: ["copy", str(place), str(out / "copy"), "--experiment", NAME],
    "archive": lambda place, out: ["experiment", "archive", NAME, "--path", str(place), "-o", str(out / "a.tar.gz")],
    "restore": lambda place, out: ["experiment", "restore", str(place / ARCHIVE), "--path", str(out / "back")],
    "import": lambda place, out: ["experiment", "import", "theirs", "--path", str(place)],
    "exam": lambda place, out: _of_place("judge", "exam", "--questions", "4", "--output", str(out / "x"))(place, out),
    "model export": lambda place, out: _of_place("model", "export", WORKER, "-o", str(out / "model"))(place, out),
}


class Cost(NamedTuple):
    """Of one run of a command."""

    seconds: float
    megabytes: float
    code: int
    said: bytes


def main() -> int:
    options = _options()
    honest, hostile = _honest(options.path / "honest"), options.path / "hostile"
    if not hostile.exists():
        shutil.copytree(honest, hostile)
        target = Target(Layout(hostile, NAME), victim=WORKER, honest="worker")
        for attack in OF_FILES.values():
            attack(target, 0)
        _swell(hostile / ARCHIVE)
    wrong = False
    _say(f"{'command':16} {'honest':>19} {'hostile':>19} {'more':>19}  codes")
    for name, command in COMMANDS.items():
        if options.only and name not in options.only.split(","):
            continue
        costs = [(_cost(command, honest), _cost(command, hostile)) for _ in range(options.repeat)]
        wrong |= _show(name, [mine for mine, _ in costs], [theirs for _, theirs in costs])
    return int(wrong)


def _show(name: str, honest: list[Cost], hostile: list[Cost]) -> bool:
    seconds, more_s = median(c.seconds for c in honest), median(c.seconds for c in hostile)
    megabytes, more_mb = median(c.megabytes for c in honest), median(c.megabytes for c in hostile)
    crashed = any(b"Traceback (most recent call last)" in c.said for c in (*honest, *hostile))
    beyond = more_s - seconds > MOST_S or more_mb - megabytes > MOST_MB
    _say(
        f"{name:16} {seconds:8.2f} s {megabytes:5.0f} MB {more_s:8.2f} s {more_mb:5.0f} MB "
        f"{more_s - seconds:+8.2f} s {more_mb - megabytes:+5.0f} MB  {honest[-1].code} {hostile[-1].code}"
        f"{'  a traceback' if crashed else ''}{'  BEYOND' if beyond else ''}"
    )
    return crashed or beyond


def _cost(command: Command, place: Path) -> Cost:
    """Of one run in processes of its own; what it writes goes with a temporary folder."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder, tempfile.TemporaryFile() as said:
        arguments = [sys.executable, "-P", "-m", "swarm", *command(place, Path(folder))]
        began = time.monotonic()
        process = subprocess.Popen(arguments, cwd=folder, env=_environment(), stdout=said, stderr=said)
        killed = False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if not killed and time.monotonic() > began + PATIENCE_S:
                process.kill()
                killed = True
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return Cost(time.monotonic() - began, usage.ru_maxrss / 1000, process.returncode, said.read())


def _honest(place: Path) -> Path:
    """A place with a finished run, its archive, and one that rl-swarm seems to have left."""
    if not place.exists():
        run = ["up", "--path", str(place), "--experiment", NAME, "--nodes", "2", "--rounds", str(ROUNDS)]
        done = subprocess.run([sys.executable, "-P", "-m", "swarm", *run], env=_environment(), check=False)
        if done.returncode:
            raise SystemExit(f"the honest run ended with {done.returncode}")
        pack = ["experiment", "archive", NAME, "--path", str(place), "-o", str(place / ARCHIVE)]
        subprocess.run([sys.executable, "-P", "-m", "swarm", *pack], env=_environment(), check=True)
    return place


def _swell(archive: Path) -> None:
    """Add a thousand strangers' rows and a hole of 50 GB to an archive."""
    with tarfile.open(archive) as before, tarfile.open(archive.with_suffix(".more"), "w:gz") as after:
        for member in before:
            after.addfile(member, before.extractfile(member))
        for number in range(1000):
            _add(after, f"{NAME}/logs/mallory-{number}/metrics.jsonl", b"[" * 10_000)
        bomb = tarfile.TarInfo(f"{NAME}/logs/mallory/events.jsonl")
        bomb.size = BOMB
        after.fileobj.write(bomb.tobuf())  # type: ignore[union-attr]
        after.fileobj.write(bytes(10**9))  # type: ignore[union-attr]  # what would come is never asked for
    archive.with_suffix(".more").replace(archive)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _environment() -> dict[str, str]:
    return {**without_settings(os.environ), "PYTHONPATH": str(Path(__file__).parents[2])}


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a script's own voice


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="a folder for the places; what is there is used again")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each command on each place")
    parser.add_argument("--only", default="", help="commands, separated by commas; else all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
