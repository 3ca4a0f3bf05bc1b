"""What makes a node useless is said by name, and a healthy node hears nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from swarm.records.hints import FEW, GROUPS, KEPT, PAGE, RULES, STILL, Hint, HintFacts, hints_of, merged, recent
from swarm.wire.metrics import MetricsRow

ROOT = Path(__file__).parents[3]
HEALTHY = HintFacts(generations=8, external_groups=4, round_interval=60.0)


def row(number: int, **changes: Any) -> MetricsRow:
    """A round in which all is well."""
    fields: dict[str, Any] = {
        "timestamp": 1.0 + number,
        "round": number,
        "stage": 0,
        "node_id": "anna",
        "experiment": "exp",
        "my_reward": 0.25,
        "total_agents": 4,
        "local_groups": 4,
        "zero_advantage_local": 0.5,
        "answer_tag_rate": 0.5,
        "finished_rate": 0.9,
        "external_wanted": 4,
        "external_groups": 2,
        "pool_groups": 12,
        "peers_heard": 3,
        "seconds_round": 2.1,
        "memory_allocated": 4 * 10**8,
        "memory_total": 16 * 10**9,
        "memory_free": 6 * 10**9,
        "disk_free": 90 * 10**9,
        "disk_used": 0.6,
        **changes,
    }
    return MetricsRow(**fields)


def codes(rounds: int, facts: HintFacts = HEALTHY, **changes: Any) -> list[str]:
    return [hint.code for hint in hints_of("anna", [recent(row(n, **changes)) for n in range(rounds)], facts)]


PROVOKED: dict[str, tuple[int, HintFacts, dict[str, Any]]] = {
    "left-before-the-end": (1, HEALTHY._replace(over=12), {}),
    "short-rounds": (FEW, HEALTHY, {"late": True}),
    "nothing-heard": (FEW, HEALTHY, {"pool_groups": 0, "peers_heard": 0, "external_groups": 0}),
    "trains-alone": (FEW, HEALTHY, {"external_wanted": 0, "external_groups": 0, "pool_groups": 0}),
    "refused-everywhere": (1, HEALTHY._replace(refused={"question_mismatch": 40}), {}),
    "never-tagged": (63, HEALTHY, {"answer_tag_rate": 0.0}),
    "never-finished": (2 * FEW, HEALTHY, {"finished_rate": 0.0}),
    "equal-groups": (KEPT, HEALTHY, {"zero_advantage_local": 1.0, "external_groups": 0}),
    "never-updated": (STILL, HEALTHY, {"updated": False}),
    "quarantine": (1, HEALTHY, {"quarantined": ["mallory"]}),
    "odd-peer": (FEW, HEALTHY, {"logprobs_by_peer": {"ben": -0.5, "carl": -0.75, "mallory": -6.0}}),
    "memory-75": (FEW, HEALTHY, {"memory_free": 4 * 10**9}),
    "memory-90": (FEW, HEALTHY, {"memory_free": 10**9}),
    "disk-75": (FEW, HEALTHY, {"disk_used": 0.76}),
    "disk-90": (FEW, HEALTHY, {"disk_used": 1.0, "disk_free": 0}),
}


def test_a_healthy_node_hears_nothing_however_long_it_runs() -> None:
    assert all(codes(rounds) == [] for rounds in range(KEPT + 1))


@pytest.mark.parametrize("code", RULES)
def test_each_hint_speaks_when_its_sign_was_there_long_enough_and_not_before(code: str) -> None:
    rounds, facts, changes = PROVOKED[code]
    assert codes(rounds, facts, **changes) == [code]
    assert codes(rounds - 1, facts, **changes) == [] or rounds == 1


@pytest.mark.parametrize("code", RULES)
def test_each_hint_has_its_place_on_the_page(code: str) -> None:
    page = (ROOT / PAGE).read_text("utf-8")
    assert f"\n## {code}\n" in page
    assert Hint(code, ("anna",), "", "").page == f"docs/hints.md#{code}"


def test_a_large_disk_has_room_whatever_share_is_taken_and_unknown_figures_say_nothing() -> None:
    assert codes(KEPT, disk_used=0.95, disk_free=10**12) == []
    assert codes(KEPT, disk_used=UNSET, disk_free=UNSET, memory_total=UNSET, memory_free=UNSET) == []
    assert codes(KEPT, memory_total=0, memory_free=0) == codes(KEPT, memory_total=1, memory_free=9) == []


def test_a_node_that_the_clock_leaves_behind_is_told_after_its_first_round() -> None:
    slow = {"seconds_round": 300.0, "seconds_generate": 250.0, "seconds_train": 28.0, "late": True}
    (hint,) = hints_of("ben", [recent(row(0, **slow))], HEALTHY._replace(opened=12))
    assert hint.evidence == "took part in 1 of 12 rounds: its work takes 278 s, a round lasts 60 s"
    assert codes(1, HEALTHY._replace(opened=FEW - 1), **slow) == [], "a first round may be slow"
    assert codes(1, HEALTHY._replace(opened=12), seconds_round=300.0, seconds_gather=280.0) == [], "it waited"


def test_a_late_node_that_trains_nothing_is_told_that_rounds_end_without_it() -> None:
    facts = HEALTHY._replace(round_interval=8.0, trains=False)
    (hint,) = hints_of("anna", [recent(row(n, late=True)) for n in range(FEW)], facts)
    assert hint.evidence == "late in 10 of its last 10 rounds, which end without it"
    assert hint.remedy.startswith("start it with SWARM_AWAITED=True")


def test_who_is_alone_misses_nobody() -> None:
    assert codes(FEW, total_agents=1, pool_groups=0, external_groups=0) == []
    assert codes(FEW, HintFacts(external_groups=0), external_wanted=0, external_groups=0, pool_groups=0) == []


def test_too_hard_and_too_easy_have_different_remedies() -> None:
    def remedy(reward: float) -> str:
        changes = {"zero_advantage_local": 1.0, "external_groups": 0, "my_reward": reward}
        return next(iter(hints_of("anna", [recent(row(n, **changes)) for n in range(KEPT)], HEALTHY))).remedy

    assert "easier questions" in remedy(0.0)
    assert "harder questions" in remedy(1.0)
    assert KEPT * 4 >= GROUPS


def test_the_same_hint_of_several_nodes_is_one() -> None:
    first, second = Hint("a", ("anna",), "e", "r"), Hint("a", ("ben",), "f", "r")
    assert merged([first, second]) == [Hint("a", ("anna", "ben"), "e", "r")]


def test_the_command_that_shows_an_answer_names_the_task_that_earned_least_as_a_shell_takes_it() -> None:
    rows = [
        recent(row(n, answer_tag_rate=0.0, task_rewards={"bf": 0.1, "$(reboot)": 0.0, "sum": 0.2})) for n in range(63)
    ]
    (hint,) = hints_of("anna", rows, HEALTHY)
    assert "`swarm ask --model MODEL --task '$(reboot)'`" in hint.remedy


@given(st.text(), st.lists(st.text(), max_size=3), st.integers(0, 2**53))
def test_whatever_a_stranger_names_takes_no_more_room(reason: str, names: list[str], count: int) -> None:
    kept = recent(row(0, refused_files={reason * 99: count}, quarantined=names))
    assert len(kept.refused_as) <= 64
    assert kept.quarantined == len(names)
    assert re.fullmatch(r"(?s).{0,64}", kept.quarantined_peer)


def test_who_came_to_the_last_round_but_one_left_nothing_out() -> None:
    assert codes(11, HEALTHY._replace(over=12)) == []
    (said,) = hints_of("anna", [recent(row(n)) for n in range(7)], HEALTHY._replace(over=12))
    assert "7 of 12" in said.evidence
