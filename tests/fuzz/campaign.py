"""So many hostile files through the readers: what was refused, how slowly, and what broke.

First every file made by hand at every place where a node reads one. Then mutations of good files, and of those that
took readings where none had been before (tests/fuzz/corpus).
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from swarm.node.sharing.admission import AssignedQuestions
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.universe import Universe
from swarm.wire.judge_messages import ExamRow
from tests.fuzz.mutators import mutate
from tests.fuzz.readers import KEY, PEER, READERS
from tests.fuzz.reading_process import Answer, Request
from tests.fuzz.strange_files import Maker, strange_files
from tests.layout import Layout
from tests.patience import PATIENCE

GOLDEN = Path(__file__).parent.parent / "golden"
CORPUS = Path(__file__).parent / "corpus"
SLOWEST = 40.0
"""Times the processor time of decoding REFERENCE beside it: a refusal must not take longer. With nothing to bound the
brackets of a file it took some 150 times as long."""
MOST_GROWTH = 64 * 2**20
"""Bytes by which the reader may grow, at its peak too."""
TRIES = 5
"""A reading above SLOWEST is repeated so often, and its quickest counts: what a file costs, not what else goes on."""
EVENTS = b"""{"timestamp":1760000121.75,"level":"info","event":"round.done","node_id":"anna","round":17,"peers":["ben"]}
{"timestamp":1760000122.75,"level":"error","event":"node.failed","exception":"Traceback:\\n  File"}
"""
EXAM_ROW = ExamRow(
    node_id="anna", model="tiny-qwen2", rounds_done=18, task="bf", n=100, pass_at_1=0.5, mean_reward=0.5, answered=0.9
)
LOGS = ("metrics", "events", "judged")
_WEIGHTS = {"rollouts": 12, "metrics": 2, "events": 2}


def times(answer: Answer) -> float:
    """How long a reading took, times the reference; 0 for a quick one."""
    return answer.seconds / answer.reference if answer.reference else 0.0


@dataclass
class Found:
    """What a campaign came to."""

    files: Counter[str] = field(default_factory=Counter)
    """By kind."""
    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """By reason."""
    slowest: list[tuple[float, str]] = field(default_factory=list)
    """Times the reference and which refusal, slowest first, a few."""
    largest: tuple[int, str] = (0, "")
    """Bytes by which the reader grew at the peak of one reading, and which."""
    slowest_log: tuple[float, str] = (0.0, "")
    """Of the logs, which are read line by line to their end and are no file to refuse."""
    crashes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Files that this machine does not let us make."""
    obeyed: set[str] = field(default_factory=set)
    """Characters of the log that a terminal would obey."""
    forbidden: int = 0
    growth: int = 0
    """Bytes resident after everything, above those before."""
    corpus: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def violations(self) -> list[str]:
        """What must not be."""
        broken = [f"crash: {crash}" for crash in self.crashes]
        broken += [f"{where} took {times:.1f} references" for times, where in self.slowest if times > SLOWEST]
        if self.obeyed:
            broken.append(f"the log would have sent {sorted(self.obeyed)!r} to a terminal")
        if self.forbidden:
            broken.append(f"{self.forbidden} audit events of commands, sockets or writing")
        if max(self.growth, self.largest[0]) > MOST_GROWTH:
            broken.append(
                f"memory grew by {self.growth >> 20} MiB, and {self.largest[0] >> 20} MiB by {self.largest[1]}"
            )
        return broken

    def note(self, kind: str, name: str, answer: Answer) -> None:
        """Count one reading."""
        self.files[kind] += 1
        if answer.crash:
            self.crashes.append(f"{kind}, {name}: {answer.crash}")
        elif answer.outcome:
            self.refused[answer.outcome] += 1
        else:
            self.taken[kind] += 1
        self.forbidden = max(self.forbidden, answer.forbidden)
        where = f"{kind}: {name}"
        self.largest = max(self.largest, (answer.growth, where))
        if kind in LOGS:
            self.slowest_log = max(self.slowest_log, (answer.seconds, where))
        elif answer.outcome:
            self.slowest = sorted([*self.slowest, (times(answer), where)], reverse=True)[:5]


class Reading:
    """The reading process, and the folder that it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._said = folder / "stderr"
        self.layout = Layout(folder, "exp")
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.fuzz.reading_process", str(self.folder)]
        with self._said.open("ab") as stderr:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def ask(self, kind: str) -> Answer:
        """Read the file of this kind that lies in the folder; of no kind: only what the process uses."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(Request(kind)) + b"\n")
        process.stdin.flush()
        if line := process.stdout.readline():
            return msgspec.json.decode(line, type=Answer)
        self._start()
        return Answer(crash=f"the process ended with {process.wait()}")

    def quickest(self, kind: str) -> Answer:
        """As ask; what takes too long is tried again."""
        answer = self.ask(kind)
        for _ in range(TRIES - 1):
            if kind in LOGS or times(answer) <= SLOWEST:
                break
            again = self.ask(kind)
            answer = min(answer, again, key=times)
        return answer

    def close(self) -> set[str]:
        """End it. Returns what a terminal would have obeyed of all that was logged."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE)
        with self._said.open(encoding="utf-8", errors="replace", newline="") as lines:
            return {character for line in lines for character in line if not character.isprintable()} - {"\n"}


def run(files: int, seed: int, folder: Path) -> Found:
    """Read so many files: those made by hand, and mutations for the rest."""
    found, reading = Found(corpus=seeds()), Reading(folder)
    try:
        _read_seeds(reading, found.corpus)
        before = reading.ask("")
        _strange(reading, found)
        _mutations(reading, found, files - found.files.total(), Random(seed))
        after = reading.ask("")
    finally:
        found.obeyed = reading.close()
    found.growth = after.rss - before.rss
    return found


def seeds() -> dict[str, list[bytes]]:
    """Good files of each kind, and those that went new ways through a reader."""
    kept = {kind: [file.read_bytes() for file in sorted((CORPUS / kind).glob("*"))] for kind in READERS}
    good = {kind: [(GOLDEN / reader.golden).read_bytes()] for kind, reader in READERS.items() if reader.golden}
    good["rollouts"] += [(GOLDEN / "rollouts.json").read_bytes(), drawn()]
    good["events"] = [EVENTS]
    good["exam"] = [msgspec.json.encode([EXAM_ROW])]
    return {kind: good[kind] + kept[kind] for kind in READERS}


def drawn() -> bytes:
    """A rollout file to the very question that the run assigned: everything about it is right."""
    document = msgspec.json.decode((GOLDEN / "rollouts_with_logprobs.json").read_bytes())
    (question,) = AssignedQuestions(42, Universe.of(SAPO_TASKS, "tiny-2")).questions(PEER, KEY, 1)
    document["groups"]["0"]["origin"] |= msgspec.to_builtins(question)
    return msgspec.json.encode(document)


def _read_seeds(reading: Reading, corpus: dict[str, list[bytes]]) -> None:
    """Bring in whatever is imported or cached at the first reading, before memory is measured."""
    for kind, files in corpus.items():
        for data in files:
            with placed(reading.layout, kind, lambda path, data=data: path.write_bytes(data)):
                reading.ask(kind)


@contextmanager
def placed(layout: Layout, kind: str, make: Maker) -> Iterator[None]:
    """A file where the reader of its kind looks for it."""
    path = READERS[kind].path(layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        make(path)
        yield
    finally:
        _clear(path)


def _clear(path: Path) -> None:
    """Whatever lies at a path, or in the place of its folder, is gone."""
    for place in (path.parent, path):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
    with suppress(FileNotFoundError):
        path.rmdir()


def _strange(reading: Reading, found: Found) -> None:
    for name, make in strange_files(reading.folder):
        for kind in READERS:
            try:
                with placed(reading.layout, kind, make):
                    found.note(kind, name, reading.quickest(kind))
            except OSError as error:
                found.left_out.append(f"{kind}, {name}: {error.strerror}")


def _mutations(reading: Reading, found: Found, count: int, rng: Random) -> None:
    kinds = [kind for kind in READERS for _ in range(_WEIGHTS.get(kind, 1))]
    for number in range(count):
        kind = rng.choice(kinds)
        good = found.corpus[kind]
        data = mutate(rng.choice(good), good, rng)
        with placed(reading.layout, kind, lambda path, data=data: path.write_bytes(data)):
            found.note(kind, f"mutation {number}", reading.quickest(kind))
