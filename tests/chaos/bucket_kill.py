"""A swarm over a bucket under kill -9 of its workers, its coordinator and the bucket's server.

    python -m tests.chaos.bucket_kill --kills 60 --rounds 60 --path /tmp/bucket-kills
    python -m tests.chaos.bucket_kill --kills 20 --rounds 60 --path /tmp/server-kills --victims server

    the swarm over a bucket; [ a while ─▶ kill -9 one ─▶ a while ─▶ start it again ] x N ─▶ swarm copy ─▶ a folder

The server is tests/engines/disk_server.py, which comes back with what it acknowledged. The workers are light ones
(light_worker.py), whose answers depend on all that they were ever trained on. Held against the copy: each node has each
round once; `swarm validate` finds nothing wrong there nor in the bucket; no round is lost, and the last weights are
those that come out if all rounds are done once more without a kill. Where the server alone is killed, the rewards are
those of an undisturbed swarm in a folder, to the last digit: who starts again may miss a peer's groups, who waits does
not. A node that ends because the server is gone is started again, as a supervisor does. Exit code 1 if any of this
fails.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from structlog.testing import capture_logs

from swarm.cli.say import say
from swarm.config import load_settings
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from tests.chaos.campaign import environment_of, failing, verdict
from tests.chaos.light_worker import LightPolicy
from tests.chaos.replay import replay
from tests.engines.s3_servers import CREDENTIALS, DiskServer, on_disk
from tests.integration.swarms import LIGHT, Daemon, Start, daemons
from tests.layout import Layout
from tests.unit.node.factories import UNIVERSE, FakeTaskSource

EXPERIMENT = "kills"
CLOCK, SERVER = "clock", "server"
Rewards = dict[str, list[tuple[int, float, float, float]]]
"""Node -> round, reward, reward of what was trained on, cumulative reward, of each of its rows."""


def environment(place: str, rounds: int) -> dict[str, str]:
    """Nobody is given up for being away a while: each round has everybody's groups."""
    return environment_of(
        **CREDENTIALS,
        SWARM_PATH=place,
        EXPERIMENT_NAME=EXPERIMENT,
        MODEL_NAME="fake",
        MAX_ROUNDS=rounds,
        COORDINATOR_ROUND_INTERVAL=2400,
        SWARM_EXPECTED_WORKERS=3,
        SWARM_HEARTBEAT_INTERVAL=0.5,
        SWARM_LIVENESS_TIMEOUT=240,
    )


@dataclass
class Swarm:
    """The processes of one swarm."""

    place: str
    rounds: int
    begin: Start
    running: dict[str, Daemon] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)
    """Node -> times that it ended by itself and was no success."""
    workers: tuple[str, ...] = ("anna", "ben", "cleo")

    def start(self, node: str) -> None:
        module = "services.coordinator" if node == CLOCK else LIGHT
        self.running[node] = self.begin(module, environment(self.place, self.rounds) | {"NODE_ID": node})

    def start_all(self) -> None:
        for node in (CLOCK, *self.workers):
            self.start(node)

    def look(self) -> bool:
        """Start again who ended before the end; whether all are done."""
        for node, daemon in [*self.running.items()]:
            if (code := daemon.process.poll()) is None:
                continue
            del self.running[node]
            if code == 0:
                self.done.add(node)
            else:
                self.ended[node] += 1
                self.start(node)
        return not self.running

    def wait(self, seconds: float) -> bool:
        """For a while; at once over when all are done."""
        deadline = time.monotonic() + seconds
        while not (over := self.look()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return over

    def kill(self, node: str) -> None:
        self.running.pop(node).kill()


def run_whole(swarm: Swarm, patience: float) -> None:
    swarm.start_all()
    assert swarm.wait(patience), f"not done after {patience:g} s"


def run_killed(
    swarm: Swarm, server: DiskServer, kills: int, pause: float, seed: int, victims: str, patience: float
) -> Counter[str]:
    """Who was killed, and how often; all may be where no `victims` are named."""
    rng, killed = random.Random(seed), Counter[str]()
    swarm.start_all()
    while killed.total() < kills and not swarm.wait(rng.expovariate(1 / pause)):
        victim = victims or rng.choice((SERVER, *sorted(swarm.running)))
        killed[victim] += 1
        if victim == SERVER:
            server.kill()
            time.sleep(rng.uniform(0.0, 1.0))
            server.start()
        else:
            swarm.kill(victim)
            swarm.wait(rng.uniform(0.0, 1.0))
            swarm.start(victim)
    assert swarm.wait(patience), f"not done after {patience:g} s"
    return killed


def rewards(place: str, experiment: str = EXPERIMENT) -> Rewards:
    rows = read_metrics(open_place(place).open(experiment))
    return {
        node: [(row.round, row.my_reward, row.train_reward, row.cumulative_reward) for row in of]
        for node, of in rows.items()
    }


def differences(folder: Rewards, bucket: Rewards) -> Iterator[str]:
    for node in sorted({*folder, *bucket}):
        there, here = folder.get(node, []), bucket.get(node, [])
        if there != here:
            first = next((pair for pair in zip(there, here, strict=False) if pair[0] != pair[1]), "")
            yield f"{node}: {len(there)} rows in the folder, {len(here)} over the bucket; first difference {first}"


def told(swarm: Swarm, *words: str) -> Iterator[str]:
    """A command that is to succeed."""
    return failing(environment(swarm.place, swarm.rounds), *words)


def lacking(swarm: Swarm, found: Rewards) -> Iterator[str]:
    for node in swarm.workers:
        rounds = [row[0] for row in found.get(node, [])]
        if rounds != [*range(swarm.rounds)]:
            yield f"{node} has rows of {rounds}, expected each of {swarm.rounds} rounds once"


async def replayed(copy: Path, swarm: Swarm) -> list[str]:
    settings = load_settings({}, environment(str(copy), swarm.rounds))
    with capture_logs():
        layout = Layout(copy, EXPERIMENT)
        found = [
            await replay(settings, layout, node, lambda: LightPolicy(step=0), FakeTaskSource(), UNIVERSE)
            for node in swarm.workers
        ]
    return [problem for problem in found if problem]


def run(
    path: Path, *, kills: int, rounds: int, seed: int, pause: float, victims: str = "", patience: float = 900.0
) -> int:
    """The swarm, and what is wrong with what it left; the exit code."""
    os.environ.update(CREDENTIALS)  # of the loopback server, for the views below
    path.mkdir(parents=True, exist_ok=True)
    with on_disk(path / "objects") as server, daemons() as begin:
        begun, swarm = time.monotonic(), Swarm(server.url, rounds, begin)
        killed = run_killed(swarm, server, kills, pause, seed, victims, patience)
        seconds, found, copy = time.monotonic() - begun, rewards(swarm.place), path / "copy"
        violations = [*lacking(swarm, found), *told(swarm, "validate")]
        violations += told(swarm, "copy", swarm.place, str(copy), "--experiment", EXPERIMENT)
    violations += failing(environment(str(copy), rounds), "validate")
    violations += anyio.run(replayed, copy, swarm)
    if victims == SERVER:
        with daemons() as begin:
            whole = Swarm(str(path / "folder"), rounds, begin)
            run_whole(whole, patience)
        violations += differences(rewards(whole.place), found)
    say(f"kills          {killed.total()} in {seconds:.0f} s: {dict(sorted(killed.items()))}")
    say(f"started again  {dict(swarm.ended)}, as the server was gone")
    say(f"rows           {sum(map(len, found.values()))} in {rounds} rounds")
    return verdict(violations)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=2.0, help="mean seconds between kills")
    parser.add_argument("--victims", choices=(SERVER,), default="", help="the server alone")
    parser.add_argument("--path", type=Path, required=True, help="an empty folder")
    given = parser.parse_args()
    return run(given.path, **{name: value for name, value in vars(given).items() if name != "path"})


if __name__ == "__main__":
    raise SystemExit(main())
