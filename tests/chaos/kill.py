"""A swarm of real processes under hundreds of kill -9, and what is left of its promises afterwards.

    python -m tests.chaos.kill --kills 300 --seed 0 --path /tmp/kills             # 4 workers of tiny-qwen2
    python -m tests.chaos.kill --kills 50 --light --path /tmp/light-kills         # without torch, for CI
    python -m tests.chaos.kill --kills 50 --light --one-by-one --path /tmp/kills  # groups are published one by one

Held against the folder, by a watcher while the swarm runs and by an audit at its end: `swarm validate --partial` finds
nothing wrong at any look, no acknowledged rollout or reward changes or goes, the clock never goes back, one row per
node and round, rewards and cumulative rewards are those of the rows, no torn line, every checkpoint and every published
group has exactly the updates that the rows tell, no round is lost, the swarm finishes, `swarm validate` accepts it, and
the last weights are, bit for bit, those that come out if all rounds are done once more without a kill. Exit code 1 if
any of this fails.

Seed 0 draws the same victims, pauses and absences every time; what these hit is up to the machine.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from structlog.testing import capture_logs

from swarm.cli.say import say
from swarm.config import Settings, load_settings
from swarm.records.rows import read_rows
from tests.chaos.audit import audit
from tests.chaos.campaign import ENDLESS, Campaign, Process, environment_of, failing, python, verdict
from tests.chaos.phases import Phases
from tests.chaos.replay import replay
from tests.chaos.watcher import Watcher
from tests.layout import Layout

EXPERIMENT = "kills"


def swarm_environment(path: Path, *, light: bool, one_by_one: bool = False) -> dict[str, str]:
    """A small and quick swarm; its coordinator's absences may last longer than the workers wait for it."""
    settings: dict[str, object] = {
        "GDRIVE_PATH": path.absolute(),
        "EXPERIMENT_NAME": EXPERIMENT,
        "MODEL_NAME": "tiny-qwen2",
        "MAX_ROUNDS": ENDLESS,
        "COORDINATOR_ROUND_INTERVAL": 10,
        "SWARM_COORDINATOR_PATIENCE": 6,
        "SWARM_EXPECTED_WORKERS": 2,
        "SWARM_MAX_NEW_TOKENS": 8,
        "SWARM_THREADS": 1,
        "SWARM_HEARTBEAT_INTERVAL": 0.25,
        "SWARM_LIVENESS_TIMEOUT": 3,
    }
    if light:
        settings |= {"MODEL_NAME": "fake", "SWARM_RECONCILE_INTERVAL": 0.2}
    if one_by_one:
        settings |= {"ROLLOUT_PUBLISH_FREQUENCY": "generation", "NUM_TRAIN_SAMPLES": 4}
    return environment_of(**settings)


def make_campaign(
    path: Path, *, workers: int, light: bool, seed: int, pause: float, one_by_one: bool = False
) -> Campaign:
    """Nothing is started yet."""
    environment = swarm_environment(path, light=light, one_by_one=one_by_one)
    layout = Layout(path.absolute(), EXPERIMENT)
    path.mkdir(parents=True, exist_ok=True)

    def process(name: str, module: str) -> Process:
        return Process(
            name, python("-m", module), environment | {"NODE_ID": name}, Phases(layout, name), path / f"{name}.out"
        )

    worker = "tests.chaos.light_worker" if light else "services.worker"
    return Campaign(
        layout,
        process("clock", "services.coordinator"),
        [process(f"w{number}", worker) for number in range(workers)],
        random.Random(seed),
        pause,
    )


def run(path: Path, *, kills: int, patience: float = 600.0, light: bool, **more: Any) -> int:
    """The campaign, the audit, and what they found; the exit code. `more`: as make_campaign."""
    campaign = make_campaign(path, light=light, **more)
    begun = time.monotonic()
    with Watcher(campaign.layout) as watcher:
        campaign.run(kills, patience)
    seconds = time.monotonic() - begun
    nodes = [worker.name for worker in campaign.workers]
    say(f"finished after {seconds:.0f} s; now the audit, and all rounds once more")
    violations = [*campaign.violations, *watcher.violations, *audit(campaign.layout, nodes, watcher)]
    violations += [*_lost(campaign), *failing(campaign.coordinator.environment, "validate")]
    violations += anyio.run(_replayed, campaign, nodes, light)
    _report(campaign, watcher, seconds)
    return verdict(violations)


def _lost(campaign: Campaign) -> Iterator[str]:
    for process in campaign.processes:
        process.phases.read()
        for event in ("rounds.lost", "checkpoint.damaged", "state.unreadable"):
            if count := process.phases.counts.get(event):
                yield f"{process.name} logged {event} {count} times"


async def _replayed(campaign: Campaign, nodes: list[str], light: bool) -> list[str]:
    settings = load_settings({}, campaign.coordinator.environment)
    check = _replay_light if light else _replay_real
    with capture_logs():
        found = [await check(settings, campaign.layout, node) for node in nodes]
    return [problem for problem in found if problem]


async def _replay_light(settings: Settings, layout: Layout, node: str) -> str | None:
    from tests.chaos.light_worker import LightPolicy
    from tests.unit.node.factories import UNIVERSE, FakeTaskSource

    return await replay(settings, layout, node, lambda: LightPolicy(step=0), FakeTaskSource(), UNIVERSE)


async def _replay_real(settings: Settings, layout: Layout, node: str) -> str | None:
    from swarm.policy.policy import load_policy
    from swarm.policy.settings import grpo_config, loading_options
    from swarm.tasks.scoring import Scorer
    from swarm.tasks.universe import universe_of

    async with Scorer(1) as scorer:
        return await replay(
            settings,
            layout,
            node,
            lambda: load_policy(settings.model[0], grpo_config(settings), **loading_options(settings)),
            scorer,
            universe_of(settings),
        )


def _report(campaign: Campaign, watcher: Watcher, seconds: float) -> None:
    say(f"{'killed':12} {'while':24} times")
    for (role, phase), count in sorted(campaign.killed.items()):
        say(f"{role:12} {phase:24} {count}")
    rows = [row for worker in campaign.workers for row in read_rows(campaign.layout.run, worker.name).rows]
    events = [worker.phases.counts for worker in campaign.workers]
    say(f"kills                     {campaign.killed.total()} in {seconds:.0f} s")
    say(f"rows                      {len(rows)}, of which {sum(row.updated for row in rows)} made an update")
    say(f"rounds redone             {sum(count.get('round.redone', 0) for count in events)}")
    say(f"rounds taken up           {sum(count.get('rollouts.taken_up', 0) for count in events)}")
    say(f"on their own clock        {sum(row.clock == 'own' for row in rows)} rows")
    say(f"acknowledged files        {len(watcher.acknowledged)}, looked at and validated {watcher.looks} times")
    say(f"checkpoints               {len(watcher.checkpoints)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--path", type=Path, required=True, help="an empty folder, for the swarm")
    parser.add_argument("--pause", type=float, default=3.0, help="mean seconds between kills")
    parser.add_argument("--light", action="store_true", help="workers without torch")
    parser.add_argument("--one-by-one", action="store_true", help="groups are published one by one")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the nodes are not to outlive the campaign
    return run(given.path, **{name: value for name, value in vars(given).items() if name != "path"})


if __name__ == "__main__":
    raise SystemExit(main())
