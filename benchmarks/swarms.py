"""A real swarm in a temporary folder, from its command line to its metrics rows."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import MemoryWatch, running
from swarm.config import without_settings
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

EXPERIMENT = "benchmark"
WARM_UP_ROUNDS = 2


@dataclass(frozen=True)
class SwarmRun:
    """What a swarm left behind."""

    rows: list[MetricsRow]
    """Of all nodes, without the rounds of warming up."""
    memory: list[tuple[float, int]]
    """Unix seconds and bytes (PSS) of the whole process tree."""
    anonymous: int
    """Bytes: its largest sample without pages of files."""
    largest_process: int
    """Bytes: the most that one of its processes held, without pages of files."""
    cpu_seconds: float
    """User and system time of all processes, start-up included."""
    published: dict[tuple[str, int], list[float]]
    """Node and round -> Unix seconds at which its rollout files came, in order."""

    @property
    def seconds_per_round(self) -> float:
        """From when the last node had done one round to when it had done the next: mean over the measured rounds."""
        ends = self.round_ends
        return (ends[-1] - ends[0]) / (len(ends) - 1)

    @property
    def round_ends(self) -> list[float]:
        """Unix seconds at which the last node had done each measured round."""
        rounds = sorted({row.round for row in self.rows})
        return [max(row.timestamp for row in self.rows if row.round == number) for number in rounds]

    def median(self, column: str) -> float:
        """Of a column of the metrics, over nodes and measured rounds."""
        values: list[float] = [getattr(row, column) for row in self.rows]
        return statistics.median(values)


def run_swarm(
    nodes: int, rounds: int, *flags: str, settings: Mapping[str, str] | None = None, warm_up: int = WARM_UP_ROUNDS
) -> SwarmRun:
    """`swarm up` to its end.

    Args:
        settings: environment variables.
        warm_up: rounds whose rows are left out.

    Raises:
        RuntimeError: it failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as path:
        command = [sys.executable, "-m", "swarm", "up", "--path", path, "--experiment", EXPERIMENT]
        command += ["--nodes", str(nodes), "--rounds", str(rounds), "--checkpoint-interval", "0", *flags]
        output = Path(path) / "output.txt"
        with output.open("wb") as file:
            environment = without_settings(os.environ) | dict(settings or {})
            with running(command, env=environment, stdout=file, stderr=subprocess.STDOUT) as process:
                watch = MemoryWatch(process)
                code = watch.wait()
        if code != 0:
            raise RuntimeError(f"{' '.join(command)} ended with exit code {code}:\n{output.read_text()[-2000:]}")
        found = read_metrics(open_place(path).open(EXPERIMENT))
        published: dict[tuple[str, int], list[float]] = defaultdict(list)
        for written, node, number in sorted(_rollout_files(Path(path) / "experiments" / EXPERIMENT / keys.ROLLOUTS)):
            published[node, number].append(written)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [row for rows in found.values() for row in rows if row.round >= warm_up]
    return SwarmRun(rows, watch.samples, watch.anonymous, watch.largest, _cpu(after) - _cpu(before), dict(published))


def _rollout_files(folder: Path) -> Iterator[tuple[float, str, int]]:
    """When each came, its node and its round."""
    for file in folder.rglob("*.json"):
        if named := keys.published_in(f"{keys.ROLLOUTS}/{file.relative_to(folder).as_posix()}"):
            yield file.stat().st_mtime, named[1], named[0].round


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime
