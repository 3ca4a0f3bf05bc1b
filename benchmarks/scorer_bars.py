"""What the bars of a scoring child cost: batches of scoring requests, with bars and without, side by side.

    python -m benchmarks.scorer_bars [--batches 300]

Two scoring servers stand beside each other, one that puts up every bar of this machine and one that puts up none; each
gets the same batch, in turns. A batch is one group of 8 answers, 4 of them, as a node of 4/4 generates, or 16. The
ratio is taken batch by batch; that of the processor time of all batches together depends less on what else the machine
does.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import msgspec

from benchmarks.common import arguments_of, keep, ratios, seconds, summary
from swarm.children import child_environment, code_command
from swarm.tasks.bounded import HEADER_BYTES, Limits, frame, payload_length
from swarm.tasks.gym.family import GYM
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring_messages import RequestBatch, ScoreAnswers, ServerReady, Setup
from swarm.types import Origin

AIM = 1.05
"""Median of ratios."""
ANSWERS = tuple(map(str, range(8)))
_WITH = "import swarm.tasks.scoring_server as server; server.main()"
_WITHOUT = "import swarm.tasks.scoring_server as server; server.put_up = server.Bars; server.main()"


class Server:
    """A scoring server that is spoken to directly."""

    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen(
            code_command(code),
            env=child_environment(os.environ) | {"PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._send(Setup(("reasoning-gym",)))
        self.bars = msgspec.msgpack.decode(self._receive(), type=ServerReady).bars

    def ask(self, batch: RequestBatch) -> bytes:
        """The replies to a batch, encoded."""
        self._send(batch)
        return self._receive()

    def _send(self, message: Setup | RequestBatch) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(frame(msgspec.msgpack.encode(message)))

    def cpu_seconds(self) -> float:
        """Processor time of the server and of its children that have ended."""
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _receive(self) -> bytes:
        return self._exactly(payload_length(self._exactly(HEADER_BYTES)))

    def _exactly(self, count: int) -> bytes:
        assert self._process.stdout is not None
        parts = b""
        while len(parts) < count:
            part = self._process.stdout.read(count - len(parts))
            if not part:
                raise RuntimeError("the scoring server ended; run it by hand to see why")
            parts += part
        return parts

    def close(self) -> None:
        """End of its input ends it."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()


def batch_of(groups: int) -> RequestBatch:
    """Groups of 8 answers, to questions of all tasks in turn."""
    tasks = [SAPO_TASKS[number % len(SAPO_TASKS)] for number in range(groups)]
    origins = (Origin(task, "tiny-2", seed, 0, GYM.version) for seed, task in enumerate(tasks))
    return RequestBatch(tuple(ScoreAnswers(origin, None, ANSWERS) for origin in origins), Limits(wall_s=60.0))


def compare(barred: Server, bare: Server, batch: RequestBatch, batches: int) -> dict[str, object]:
    """Seconds of each side, and their ratio batch by batch."""
    if barred.ask(batch) != bare.ask(batch):
        raise RuntimeError("the two servers score differently")
    times: dict[Server, list[float]] = {barred: [], bare: []}
    before = {server: server.cpu_seconds() for server in times}
    for number in range(batches):
        order: Sequence[Server] = (barred, bare) if number % 2 else (bare, barred)
        for server in order:
            times[server].append(seconds(lambda server=server: server.ask(batch)))  # type: ignore[misc]
    with_bars, without = (server.cpu_seconds() - before[server] for server in times)
    return {
        "with_bars_s": summary(times[barred]),
        "without_s": summary(times[bare]),
        "ratio": ratios(times[barred], times[bare]),
        "cpu_ms_per_batch": {"with_bars": 1e3 * with_bars / batches, "without": 1e3 * without / batches},
        "cpu_ratio": with_bars / without if without else None,
    }


def main() -> None:
    """Measure, print and keep the result."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--batches", type=int, default=300, help="of each size")
    arguments = parser.parse_args()
    barred, bare = Server(_WITH), Server(_WITHOUT)
    try:
        batches = 10 if arguments.quick else arguments.batches
        sizes = {f"groups_{groups}": compare(barred, bare, batch_of(groups), batches) for groups in (1, 4, 16)}
        keep("scorer_bars", {"aim": AIM, "bars": list(barred.bars), **sizes}, arguments)
    finally:
        barred.close()
        bare.close()


if __name__ == "__main__":
    main()
