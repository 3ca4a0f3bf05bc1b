"""What each view and each command that reads a place costs on a hostile one, beside an honest one.

    python -m tests.adversaries.views --path FOLDER [--repeat 3] [--only status,exam]

A swarm of two workers of an embedded model does six rounds. Its place is copied, and every attack of files is written
into the copy once: attacks.py. Then each command runs on both places by turns, in processes of their own.

`copy` and `export --table rollouts` handle all that lies there: they are held against `large`, an honest
place of as many files and bytes, made of the honest run's own rollouts and lines.

Columns: wall seconds and the most resident MB of any of its processes, on the honest and the hostile place (medians),
and what the hostile place costs more. Exit code 1 where that is more than 100 MB or 10 s, or where a command ends with
a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from swarm.cli.say import say
from swarm.config import without_settings
from tests.adversaries.attacks import OF_FILES, Target
from tests.layout import Layout

NAME, THEIRS = "seen", "theirs"
RL_SWARM = Path(__file__).parents[1] / "fixtures" / "rl_swarm_run" / "experiments" / "two_workers"
OF_ALL = ("copy", "export rollouts")
"""Commands whose work is everything that lies there."""
LARGEST_LOG = 40 * 2**20
"""Bytes of each log of the honest place that is as large as the hostile one."""
ROUNDS = 6
MOST_MB, MOST_S = 100.0, 10.0
PATIENCE_S = 300.0
WORKER = "worker-0"


def commands(place: Path, out: Path) -> dict[str, list[str]]:
    """The arguments of `swarm`, by name; what a command writes lies in `out`, a fresh folder."""
    of_place = ["--path", str(place)]
    of_run = [*of_place, "--experiment", NAME]
    return {
        "status": ["status", "--json", *of_run],
        "summary": ["summary", "--json", *of_run],
        "validate": ["validate", "--partial", "--json", *of_run],
        "logs": ["logs", "-n", "50", *of_run],
        "inspect": ["inspect", *of_run],
        "export metrics": ["export", "--table", "metrics", "-o", "-", *of_run],
        "export events": ["export", "--table", "events", "-o", "-", *of_run],
        "export rollouts": ["export", "--table", "rollouts", "-o", "-", *of_run],
        "list": ["experiment", "list", *of_place],
        "settings": ["status", "--started", *of_run],
        "doctor": ["doctor", *of_run],
        "web --export": ["web", "--export", str(out / "page.html"), *of_run],
        "copy": ["copy", str(place), str(out / "copy"), "--experiment", NAME],
        "import": ["experiment", "import", str(place / THEIRS), "--as", "taken", "--path", str(out / "ours")],
        "exam": ["judge", "exam", "--questions", "4", "--output", str(out / "exam.json"), *of_run],
        "model export": ["model", "export", WORKER, "-o", str(out / "model"), *of_run],
    }


class Cost(NamedTuple):
    """Of one run of a command."""

    seconds: float
    megabytes: float
    code: int
    crashed: bool
    """It said a traceback."""


def main() -> int:
    options = _options()
    honest, hostile = _honest(options.path / "honest"), options.path / "hostile"
    if not hostile.exists():
        shutil.copytree(honest, hostile)
        target = Target(Layout(hostile, NAME), victim=WORKER, honest="worker")
        for attack in OF_FILES.values():
            attack(target, 0)
        _swell_theirs(hostile / THEIRS)
    large = _as_large(options.path / "large", honest, hostile)
    wrong = False
    say(f"{'command':16} {'honest':>19} {'hostile':>19} {'more':>19}  codes")
    for name in commands(honest, options.path):
        if options.only and name not in options.only.split(","):
            continue
        beside = large if name in OF_ALL else honest
        costs = [(_cost(name, beside), _cost(name, hostile)) for _ in range(options.repeat)]
        wrong |= _show(name, [mine for mine, _ in costs], [theirs for _, theirs in costs])
    return int(wrong)


def _show(name: str, honest: list[Cost], hostile: list[Cost]) -> bool:
    seconds, more_s = median(c.seconds for c in honest), median(c.seconds for c in hostile)
    megabytes, more_mb = median(c.megabytes for c in honest), median(c.megabytes for c in hostile)
    crashed = any(cost.crashed for cost in (*honest, *hostile))
    beyond = more_s - seconds > MOST_S or more_mb - megabytes > MOST_MB
    say(
        f"{name:16} {seconds:8.2f} s {megabytes:5.0f} MB {more_s:8.2f} s {more_mb:5.0f} MB "
        f"{more_s - seconds:+8.2f} s {more_mb - megabytes:+5.0f} MB  {honest[-1].code} {hostile[-1].code}"
        f"{'  a traceback' if crashed else ''}{'  BEYOND' if beyond else ''}"
    )
    return crashed or beyond


def _cost(name: str, place: Path) -> Cost:
    """Of one run in processes of its own; what it writes goes with a temporary folder."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder, tempfile.TemporaryFile() as said:
        arguments = [sys.executable, "-P", "-m", "swarm", *commands(place, Path(folder))[name]]
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
        seconds = time.monotonic() - began
        crashed = any(b"Traceback (most recent call last)" in line for line in said)  # a child begins at our peak
        return Cost(seconds, usage.ru_maxrss / 1000, process.returncode, crashed)


def _honest(place: Path) -> Path:
    """A place with a finished run."""
    if not place.exists():
        run = ["up", "--path", str(place), "--experiment", NAME, "--nodes", "2", "--rounds", str(ROUNDS)]
        done = subprocess.run([sys.executable, "-P", "-m", "swarm", *run], env=_environment(), check=False)
        if done.returncode:
            raise SystemExit(f"the honest run ended with {done.returncode}")
        shutil.copytree(RL_SWARM, place / THEIRS)
    return place


def _as_large(place: Path, honest: Path, hostile: Path) -> Path:
    """Makes an honest place of as many rollout files, and of as many bytes, as a copy takes of the hostile one."""
    if place.exists():
        return place
    taken = place.with_name("taken")
    copy = [sys.executable, "-P", "-m", "swarm", "copy", str(hostile), str(taken), "--experiment", NAME]
    subprocess.run(copy, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    shutil.copytree(honest, place)
    ours = Layout(place, NAME)
    stage = ours.root / "rollouts" / "round_5" / "stage_0"
    sample = (stage / f"{WORKER}.json").read_bytes()
    for number in range(_files(taken) - _files(place)):
        speaking = sample.replace(WORKER.encode(), f"extra-{number}".encode())
        (stage / f"extra-{number}.json").write_bytes(speaking)
    log = ours.root / "logs" / WORKER / "training_events.jsonl"
    lines = log.read_bytes()
    for node in range(max(0, (_bytes(taken) - _bytes(place)) // LARGEST_LOG)):
        (ours.root / "logs" / f"extra-{node}").mkdir()
        (ours.root / "logs" / f"extra-{node}" / log.name).write_bytes(lines * (LARGEST_LOG // len(lines)))
    shutil.rmtree(taken)
    return place


def _files(place: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(place / "experiments"))


def _bytes(place: Path) -> int:
    return sum((Path(at) / name).stat().st_size for at, _, files in os.walk(place / "experiments") for name in files)


def _swell_theirs(run: Path) -> None:
    """Beside the nodes of a run of rl-swarm: 200 more, of long, nested and empty lines, and rollouts of many parts."""
    line = json.dumps({"round": 0, "my_reward": 1.0, "cumulative_reward": 1e308}) + "\n"
    for number in range(200):
        name = f"mallory_{number}"
        logs = run / "logs" / name
        logs.mkdir()
        (logs / "metrics.jsonl").write_text(line * 5_000 if number else line * 500_000)
        (logs / "stdout.log").write_text("[" * 1_000_000)
        (run / "rollouts" / "round_0" / "stage_0" / f"{name}.json").write_text('{"rollouts": ' + "[{}," * 200_000)
        (run / "rewards" / "round_0" / "stage_0" / f"{name}.json").write_text("[" * 60_000)
        (run / f"progress_{name}.json").write_text('{"round": 1}\n' * 50_000)


def _environment() -> dict[str, str]:
    return {**without_settings(os.environ), "PYTHONPATH": str(Path(__file__).parents[2])}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="a folder for the places; what is there is used again")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each command on each place")
    parser.add_argument("--only", default="", help="commands, separated by commas; else all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
