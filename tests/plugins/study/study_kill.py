"""A study under kill -9 of everything at once: its process, swarms, nodes, scoring children and judges.

    python -m tests.plugins.study.study_kill --path /tmp/study-kills --trials 10 --seed 0

    the study, undisturbed ─▶ whole/       rows of all runs
    the study, killed, again and again the same command until it is done ─▶ trial-0/, trial-1/, ...   the same rows?

Each trial draws how often and when it is killed: in which round of which run, and how long after its first row. Held
against the undisturbed study, to the last digit: `my_reward` of every node and round, and all other columns but those
that measure time; and no run was set aside and begun anew. Exit code 1 if any trial found a difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.cli.say import say
from swarm.config import without_settings
from swarm.plugins.study.record import study_folder
from tests.chaos.campaign import descendants
from tests.layout import Layout
from tests.unit.node.factories import unmeasured

STUDY = "kills"
MATRIX = """
name = "{study}"
nodes = {nodes}
rounds = {rounds}
seeds = [1]
baseline = "4/0"
[settings]
model = ["tiny-qwen2"]
generations = 4
max_new_tokens = 16
checkpoint_interval = {interval}
round_interval = 2400
heartbeat_interval = 0.2
reconcile_interval = 0.5
[[configurations]]
name = "4/0"
settings = {{ local_groups = 4, external_groups = 0 }}
[[configurations]]
name = "2/2"
settings = {{ local_groups = 2, external_groups = 2 }}
"""
"""Nobody is given up for being slow, so that a busy machine cannot change what is learned."""
PAUSE = 0.02
"""Seconds between two looks at the rows."""
Rows = dict[tuple[str, str, int], dict[str, Any]]
"""(experiment, node, round) -> its row, without what measures time."""


@dataclass(frozen=True)
class Size:
    """Of the study."""

    nodes: int = 4
    rounds: int = 12
    interval: int = 5
    """Rounds between checkpoints."""
    judge: bool = False

    @property
    def experiments(self) -> list[str]:
        return [f"{STUDY}-4-0-s1", f"{STUDY}-2-2-s1"]


@dataclass(frozen=True)
class Moment:
    """When to kill."""

    experiment: str
    round: int
    """Once a node has done so many rounds of it."""
    seconds: float
    """After that."""


def start(path: Path, size: Size) -> subprocess.Popen[bytes]:
    """Begin the study, or go on with it."""
    path.mkdir(parents=True, exist_ok=True)
    matrix = path / "matrix.toml"
    matrix.write_text(MATRIX.format(study=STUDY, nodes=size.nodes, rounds=size.rounds, interval=size.interval))
    command = [sys.executable, "-m", "swarm", "study", "run", str(matrix), "--path", str(path), "--jobs", "2"]
    with (path / "said.log").open("ab") as said:
        return subprocess.Popen(
            [*command, "--judge"] if size.judge else command,
            env=without_settings(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_whole(path: Path, size: Size) -> None:
    """The study to its end."""
    code = start(path, size).wait()
    assert code == 0, f"exit code {code}: {(path / 'said.log').read_text('utf-8', 'replace')[-2000:]}"


def run_killed(path: Path, size: Size, moments: list[Moment]) -> list[int]:
    """The study to its end, everything killed at each of these moments. How many processes died each time."""
    killed = []
    for moment in moments:
        study = start(path, size)
        try:
            _await(moment, path, study)
        finally:
            killed.append(kill_all(study))
    run_whole(path, size)
    return killed


def _await(moment: Moment, path: Path, study: subprocess.Popen[bytes]) -> None:
    """Or until the study has ended: the moment may lie behind it."""
    layout = Layout(path, moment.experiment)
    while study.poll() is None and not _has_done(layout, moment.round):
        time.sleep(PAUSE)
    until = time.monotonic() + moment.seconds
    while study.poll() is None and time.monotonic() < until:
        time.sleep(PAUSE)


def _has_done(layout: Layout, rounds: int) -> bool:
    if rounds == 0:
        return layout.root.exists()
    return any(
        f'"round":{rounds - 1},'.encode() in file.read_bytes() for file in layout.root.glob("logs/*/metrics.jsonl")
    )


def kill_all(root: subprocess.Popen[bytes]) -> int:
    """Kill a process and all that descend from it, at one moment: frozen first, so that none sees another die."""
    frozen: set[int] = set()
    while new := {root.pid, *descendants(root.pid)} - frozen:
        for pid in new:
            _send(pid, signal.SIGSTOP)
        frozen |= new
    for pid in frozen:
        _send(pid, signal.SIGKILL)
    root.wait()
    for pid in frozen:
        while Path(f"/proc/{pid}").exists() and not _is_zombie(pid):
            time.sleep(PAUSE)
    return len(frozen)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def rows_of(path: Path, size: Size) -> Rows:
    """All rows of the study."""
    found: Rows = {}
    for experiment in size.experiments:
        for file in sorted(Layout(path, experiment).root.glob("logs/*/metrics.jsonl")):
            for line in file.read_bytes().splitlines():
                row = json.loads(line)
                key = experiment, row["node_id"], row["round"]
                assert key not in found, f"two rows of {key}"
                found[key] = unmeasured(row)
    return found


def differences(whole: Rows, broken: Rows) -> list[str]:
    """One text per row that is missing, beyond, or another, with the columns that are."""
    texts = [f"{key}: only undisturbed" for key in whole.keys() - broken.keys()]
    texts += [f"{key}: only killed" for key in broken.keys() - whole.keys()]
    for key in sorted(whole.keys() & broken.keys()):
        one, other = whole[key], broken[key]
        columns = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
        if columns:
            texts.append(f"{key}: {', '.join(f'{c} {one.get(c)!r} != {other.get(c)!r}' for c in sorted(columns)[:4])}")
    return texts


def events(path: Path, size: Size, name: str) -> list[dict[str, Any]]:
    """All events of that name, of all nodes of the study."""
    files = [f for e in size.experiments for f in Layout(path, e).root.glob("logs/*/training_events.jsonl")]
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines() if name.encode() in line]
    return [line for line in lines if line["event"] == name]


def set_aside(path: Path) -> list[str]:
    """Runs that were begun anew."""
    aside = study_folder(path, STUDY) / "interrupted"
    return sorted(entry.name for entry in aside.iterdir()) if aside.exists() else []


# ── the campaign ────────────────────────────────────────────────────────────────────────────────────────────────────
def moments_of(trial: int, seed: int, size: Size) -> list[Moment]:
    """When a trial is killed: once to three times, each time later in the study."""
    rng = random.Random(f"{seed}/{trial}")
    rounds = sorted(rng.sample(range(size.rounds), rng.choice((1, 1, 2, 3))))
    return [Moment(rng.choice(size.experiments), round_, round(rng.uniform(0, 1.0), 3)) for round_ in rounds]


def campaign(path: Path, trials: int, seed: int, size: Size) -> list[int]:
    """Kills so many studies, and says what came of each; those that came out otherwise."""
    run_whole(path / "whole", size)
    whole, bad = rows_of(path / "whole", size), []
    assert len(whole) == 2 * size.nodes * size.rounds, "rows of the undisturbed study"
    assert any(row["updated"] for row in whole.values()), "nothing was learned, so nothing is compared"
    for number in range(trials):
        moments, folder = moments_of(number, seed, size), path / f"trial-{number}"
        killed = run_killed(folder, size, moments)
        broken = rows_of(folder, size)
        wrong = differences(whole, broken) + [f"{name} was begun anew" for name in set_aside(folder)]
        redone, lost = (sum(e["count"] for e in events(folder, size, f"rounds.{what}")) for what in ("redone", "lost"))
        say(f"trial {number}: {killed} processes killed at {moments}; {len(broken)} rows")
        say(f"  {redone} rounds redone, {lost} lost")
        for text in wrong[:20]:
            say(f"  {text}")
        bad += [number] if wrong or lost else []
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--interval", type=int, default=5)
    parser.add_argument("--judge", action="store_true")
    args = parser.parse_args()
    bad = campaign(args.path, args.trials, args.seed, Size(args.nodes, args.rounds, args.interval, args.judge))
    say(f"{args.trials} trials; different: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
