"""Groups without a signal are made up for by fresh questions, which peers can verify and a redo asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.config import load_settings
from swarm.errors import ConfigError
from swarm.node.sharing.admission import Admission
from swarm.tasks.scoring import GroupScore
from swarm.types import Origin, RoundKey
from swarm.wire.codec import to_groups
from tests.layout import Layout
from tests.unit.node.factories import DRAWS, FakePolicy, FakeTaskSource, make_settings
from tests.unit.node.nodes import make_worker, play_rounds, play_to_the_end, rollouts_of, rows_of, running

pytestmark = pytest.mark.anyio

ROUNDS = 5
DYNAMIC: dict[str, Any] = {"dynamic_sampling": 4, "liveness_timeout": 60.0, "checkpoint_interval": 2}


class RareSignal(FakeTaskSource):
    """Two of three questions are answered alike by all."""

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        earned = (1.0 if origin.seed % 3 == 0 else 0.0,) + (0.0,) * (len(score.rewards) - 1)
        return msgspec.structs.replace(score, rewards=earned)


def alice(layout: Layout, policy: FakePolicy | None = None, **settings: Any) -> Any:
    return make_worker(layout, "alice", policy, RareSignal(), **DYNAMIC | settings)


async def test_a_round_goes_on_asking_until_enough_groups_have_a_signal_or_its_attempts_are_used_up(
    tmp_path: Path,
) -> None:
    layout = Layout(tmp_path, "exp")
    await play_to_the_end(layout, range(ROUNDS), alice(layout, external_groups=0))
    admission = Admission(make_settings(tmp_path, **DYNAMIC), DRAWS)
    counts = []
    for row in rows_of(layout, "alice"):
        key = RoundKey(row.round)
        groups = to_groups(rollouts_of(layout, row.round, "alice"), "alice", key)
        assert [group.slot for group in groups] == list(range(row.local_groups))
        assert admission.refusals("alice", key, groups) == [None] * len(groups)
        signals = [group.question.known_origin().seed % 3 == 0 for group in groups]
        assert sum(signals) <= 2
        assert sum(signals) == 2 or row.local_groups > 2
        assert row.my_reward == sum(signals[:2]) / 8, "measured on the first I questions"
        assert row.zero_advantage_local == pytest.approx(1 - sum(signals) / len(signals))
        counts.append(row.local_groups)
    assert max(counts) > 3
    assert all(count <= 2 * 4 for count in counts)


async def test_what_was_sampled_in_all_attempts_and_not_published_is_taken_up(layout: Layout) -> None:
    async with running(alice(layout, external_groups=0)):
        await play_rounds(layout, range(1))
    (row,) = rows_of(layout, "alice")
    assert row.local_groups > 2, "the first round draws anew"
    layout.rollout_file(RoundKey(0), "alice").unlink()
    layout.metrics_file("alice").unlink()
    layout.reward_file(RoundKey(0), "alice").unlink()
    policy = FakePolicy()
    await play_to_the_end(layout, range(1), alice(layout, policy, external_groups=0))
    assert policy.generated == 0
    assert rows_of(layout, "alice")[0].local_groups == row.local_groups


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SWARM_STALENESS": "1"}, "SWARM_DYNAMIC_SAMPLING = 3 and SWARM_STALENESS = 1 exclude each other"),
        ({"MAX_STAGES": "2"}, "and MAX_STAGES = 2 exclude each other"),
        ({"ADAPTIVE_IJ_ENABLED": "True"}, "and ADAPTIVE_IJ_ENABLED = True exclude each other"),
        ({"ROLLOUT_PUBLISH_FREQUENCY": "generation"}, "and ROLLOUT_PUBLISH_FREQUENCY = generation exclude each other"),
        ({"NUM_TRAIN_SAMPLES": "22"}, "may ask 66 questions a round, and peers take at most SWARM_PEER_GROUPS = 64"),
    ],
)
def test_what_needs_to_know_beforehand_how_much_is_asked_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings({}, {"SWARM_DYNAMIC_SAMPLING": "3", **environ}, None)


def test_an_experiment_is_another_one_with_it_and_the_same_without() -> None:
    assert load_settings({}, {"SWARM_DYNAMIC_SAMPLING": "3"}, None).experiment_identity()["dynamic_sampling"] == 3
    assert "dynamic_sampling" not in load_settings({}, {}, None).experiment_identity()
