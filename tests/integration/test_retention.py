"""Real processes that clean up after themselves, killed at random: what was published is in its place or archived."""

from __future__ import annotations

import hashlib
import json
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from swarm.records.rollouts import RolloutFiles, read_cleaned
from swarm.store.place import open_place
from swarm.wire import keys
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows, well

pytestmark = pytest.mark.engine

ROUNDS = 30
NODES = ("alice", "bob", "carol")


def published(path: Path) -> dict[str, str]:
    """Key -> SHA-256 of the rollout files that lie there now."""
    found, experiment = {}, path / "experiments/test"
    for folder, _, names in os.walk(experiment / "rollouts"):  # which lives with folders that go meanwhile
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                key = file.relative_to(experiment).as_posix()
                found[key] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def test_workers_that_are_killed_while_they_clean_up_lose_nothing_and_redo_their_rounds(tmp_path: Path) -> None:
    env = environment(tmp_path, MAX_ROUNDS=ROUNDS, CHECKPOINT_INTERVAL=10, SWARM_EXPECTED_WORKERS=3, LIGHT_STEP=0.05)
    env |= {"ROLLOUT_CLEANUP_ENABLED": "True", "ROLLOUT_ARCHIVE_OLD": "True", "ROLLOUT_KEEP_LAST_N_ROUNDS": "3"}
    env |= {"SWARM_LIVENESS_TIMEOUT": "5", "COORDINATOR_ROUND_INTERVAL": "20"}
    seen: dict[str, str] = {}
    with daemons() as start:
        clock = start("services.coordinator", env | {"NODE_ID": "clock"})
        workers = {node: start(LIGHT, env | {"NODE_ID": node}) for node in NODES}
        for lost_at in sorted(random.sample(range(8, ROUNDS - 4), 4)):

            def there(lost_at: int = lost_at) -> bool:
                seen.update(published(tmp_path))
                return any(row["round"] >= lost_at for node in NODES for row in rows(tmp_path, node))

            eventually(there, f"round {lost_at}")
            victim = random.choice(NODES)
            workers[victim].kill()
            workers[victim] = start(LIGHT, env | {"NODE_ID": victim})

        def is_over() -> bool:
            seen.update(published(tmp_path))
            return clock.process.poll() is not None

        eventually(is_over, "the end")
        assert [end.wait() for end in (clock, *workers.values())] == [0, 0, 0, 0]
    run = open_place(tmp_path).open("test")
    files = RolloutFiles(run)
    kept = {keys.rollout(*named): files.read(keys.rollout(*named), 10**7) for named in files}
    assert {key: hashlib.sha256(kept[key]).hexdigest() for key in seen} == seen
    said = read_cleaned(run)
    assert said
    assert said.archived
    assert said.rollouts_before == ROUNDS - 3
    assert sorted(f.name for f in layout(tmp_path).rollouts.iterdir()) == [
        f"round_{r}" for r in range(ROUNDS - 3, ROUNDS)
    ]
    for node in NODES:
        assert [row["round"] for row in rows(tmp_path, node)] == sorted({row["round"] for row in rows(tmp_path, node)})
        events = (layout(tmp_path).root / "logs" / node / "training_events.jsonl").read_text()
        assert '"rounds.lost"' not in events
        for line in map(json.loads, events.splitlines()):
            assert line["event"] != "rounds.redone" or line["exact"] == line["count"]
    checked = well(env, "validate", "--experiment", "test", "--path", str(tmp_path))
    assert "rollouts were cleaned up" in checked.stdout
