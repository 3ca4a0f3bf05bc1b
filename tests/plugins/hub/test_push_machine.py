"""When a model is pushed, and how often that is tried."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarm.cli.supervisor import ProgramBeside, programs_beside
from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.plugins.hub.push_machine import FIRST_PAUSE, Push, PushEnd, PushMachine, PushWait

LOOK = 2.0


def machine(every: int = 10, patience: float = 100.0) -> PushMachine:
    return PushMachine(every, look_every=LOOK, patience=patience)


def test_at_the_end_the_last_one_is_pushed_whatever_came_before_it() -> None:
    pusher = machine(every=0)
    assert pusher.look(1000, False, 0) == PushWait(LOOK)
    assert pusher.look(1001, True, 1) == Push(1001)
    pusher.pushed(1001)
    assert pusher.look(1001, True, 2) == PushEnd(0)


def test_failures_are_tried_again_after_pauses_that_double_up_to_a_bound_and_success_forgets_them() -> None:
    pusher, now, pauses = machine(), 0.0, []
    for _ in range(8):
        assert pusher.look(10, False, now) == Push(10)
        pauses.append(pusher.failed(now))
        assert pusher.look(10, False, now) == PushWait(pauses[-1])
        now += pauses[-1]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]
    pusher.pushed(10)
    assert pusher.look(20, False, now) == Push(20)
    assert pusher.failed(now) == FIRST_PAUSE


def test_a_newer_checkpoint_takes_the_place_of_the_one_that_failed() -> None:
    pusher = machine()
    pusher.failed(0)
    assert pusher.look(20, False, FIRST_PAUSE) == Push(20)


def test_the_end_is_tried_at_once_and_until_patience_is_over() -> None:
    pusher = machine(patience=25)
    pusher.failed(0)
    assert pusher.look(10, True, 1) == Push(10)
    assert pusher.failed(1) == 20
    assert pusher.look(10, True, 21) == Push(10)
    assert pusher.failed(21) == 5
    assert pusher.look(10, True, 26) == PushEnd(10)


def test_at_the_end_nobody_waits_for_what_will_not_mend_itself() -> None:
    pusher = machine()
    assert pusher.look(10, True, 0) == Push(10)
    assert pusher.failed(0, lasting=True) == 0
    assert pusher.look(10, True, 0) == PushEnd(10)


# ── beside a swarm ──────────────────────────────────────────────────────────────────────────────────────────────────
SETTINGS = Settings(path="/p", hub_token="hf_secret", threads=1).with_values({"push_repo": "lab/x"})


def commands(settings: Settings, nodes: int) -> Sequence[ProgramBeside]:
    return programs_beside(settings, [f"worker-{number}" for number in range(nodes)])


def test_each_of_several_workers_is_pushed_to_a_repository_of_its_own_and_no_token_stands_in_a_command() -> None:
    first, second = commands(SETTINGS.with_values({"push_every": 50}), 2)
    assert first.command == (
        "swarm model push worker-0 --repo lab/x-worker-0 --follow --every 50 --path /p --experiment default_experiment"
    )
    assert second.title == "push of worker-1"
    assert dict(first.settings) == {"HUGGINGFACE_ACCESS_TOKEN": "hf_secret"}
    (alone,) = commands(SETTINGS, 1)
    assert "--repo lab/x --follow --path" in alone.command


def test_a_name_that_the_hub_would_not_take_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"SWARM_PUSH_REPO: expected a repository as USER/NAME"):
        commands(SETTINGS.with_values({"push_repo": "lab/.."}), 1)
