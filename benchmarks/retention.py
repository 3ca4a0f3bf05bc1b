"""A run that cleans up after itself, watched: python -m benchmarks.retention --path DIR [--rounds 500] [--keep 10]

    swarm up, with an archive    `Witness`: SHA-256 of every rollout file, within half a second of its publication
    readers in a loop beside     status, summary, validate --partial, export, and copy --follow; each has to succeed
    at the end                   each file that was seen is in its place or in the archive, byte for byte, by tarfile

Prints one JSON object: sizes of rollouts/ over the rounds, of the archive, what was lost, which readers failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

NAME = "retention"
LOOK_EVERY, READ_EVERY = 0.5, 2.0
"""Seconds."""


class Witness:
    """Knows what was published, from the folder alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: dict[str, str] = {}
        self.sizes: list[tuple[int, int]] = []
        """Latest round, bytes of rollouts/."""
        self.rounds: list[int] = []
        """Rounds that lay there at each look."""

    def look(self) -> None:
        total, rounds = 0, set[int]()
        for folder, _, names in os.walk(self._folder / "rollouts"):  # which lives with folders that go meanwhile
            for name in names:
                path = Path(folder, name)
                key = path.relative_to(self._folder).as_posix()
                with suppress(FileNotFoundError):
                    total += path.stat().st_size
                    if key not in self.seen:
                        self.seen[key] = hashlib.sha256(path.read_bytes()).hexdigest()
                    rounds.add(int(key.split("/")[1].removeprefix("round_")))
        self.sizes.append((max(rounds, default=0), total))
        self.rounds.append(len(rounds))


def archived(place: Path) -> dict[str, set[str]]:
    """Member -> digests, of all files of the archive."""
    found: dict[str, set[str]] = {}
    for part in sorted((place / "archives" / NAME / "rollouts").glob("*.tar.gz")):
        with tarfile.open(part) as packed:
            for member in packed:
                file = packed.extractfile(member)
                assert file is not None
                if not member.name.startswith("rollouts/"):
                    continue
                found.setdefault(member.name, set()).add(hashlib.sha256(file.read()).hexdigest())
    return found


def swarm(place: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "swarm", *words, "--path", str(place)]


def read(place: Path, over: threading.Event, done: Counter[str], failed: list[str]) -> None:
    """Each reader in turn, again and again."""
    readers = [
        ("status", "--experiment", NAME, "--json"),
        ("summary", "--experiment", NAME, "--json"),
        ("validate", "--experiment", NAME, "--partial"),
        ("export", NAME, "--table", "rollouts", "--output", str(place / "rollouts.csv"), "--force"),
    ]
    while not over.is_set():
        for words in readers:
            ended = subprocess.run(swarm(place, *words), capture_output=True, text=True, check=False)
            done[words[0]] += 1
            if ended.returncode:
                failed.append(f"{words[0]}: {ended.stdout[-600:]}{ended.stderr[-300:]}")
            over.wait(READ_EVERY)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--path", type=Path, required=True)
    asked.add_argument("--rounds", type=int, default=500)
    asked.add_argument("--keep", type=int, default=10)
    asked.add_argument("--delete", action="store_true")
    given = asked.parse_args()
    place, mirror = given.path / "place", given.path / "mirror"
    os.environ |= {"ROLLOUT_CLEANUP_ENABLED": "True", "ROLLOUT_KEEP_LAST_N_ROUNDS": str(given.keep)}
    os.environ["ROLLOUT_ARCHIVE_OLD"] = str(not given.delete)
    up = swarm(place, "up", "--experiment", NAME, "--nodes", "3", "--rounds", str(given.rounds), "--local", "1")
    up += ["--external", "1", "--generations", "2", "--checkpoint-interval", "5"]
    witness, over, done, failed = Witness(place / "experiments" / NAME), threading.Event(), Counter[str](), list[str]()
    began = time.monotonic()
    with open(given.path / "up.log", "wb") as log:
        running = subprocess.Popen(up, stdout=log, stderr=log)
    while not (place / "experiments" / NAME / "experiment.json").exists() and running.poll() is None:
        time.sleep(LOOK_EVERY)
    follow = [sys.executable, "-m", "swarm", "copy", str(place), str(mirror), "--experiment", NAME, "--follow"]
    following = subprocess.Popen([*follow, "--every", "2"], stdout=subprocess.DEVNULL)
    reader = threading.Thread(target=read, args=(place, over, done, failed), daemon=True)
    reader.start()
    while running.poll() is None:
        witness.look()
        time.sleep(LOOK_EVERY)
    over.set()
    reader.join()
    witness.look()
    there = archived(place)
    lost = [n for n, digest in witness.seen.items() if digest not in there.get(n, ()) and not _is(place, n, digest)]
    rows = sum(len(file.read_bytes().splitlines()) for file in place.glob(f"experiments/{NAME}/logs/*/metrics.jsonl"))
    print(
        json.dumps(
            {
                "exit_code": running.returncode,
                "seconds": round(time.monotonic() - began),
                "rows": rows,
                "files_seen": len(witness.seen),
                "lost": 0 if given.delete else len(lost),
                "archived": len(there),
                "archived_twice": sum(len(digests) > 1 for digests in there.values()),
                "bytes_published": sum(path.stat().st_size for path in mirror.glob("experiments/*/rollouts/*/*/*")),
                "bytes_archived": sum(path.stat().st_size for path in place.glob("archives/*/rollouts/*")),
                "rollouts_bytes_at": {str(r): size for r, size in witness.sizes[:: max(1, len(witness.sizes) // 10)]},
                "rollouts_bytes_most": max(size for _, size in witness.sizes),
                "rounds_there_most": max(witness.rounds),
                "rounds_there_at_the_end": witness.rounds[-1],
                "copy_exit_code": following.wait(),
                "readers": done,
                "failed": failed[:3],
            },
            indent=1,
        )
    )


def _is(place: Path, name: str, digest: str) -> bool:
    path = place / "experiments" / NAME / name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


if __name__ == "__main__":
    main()
