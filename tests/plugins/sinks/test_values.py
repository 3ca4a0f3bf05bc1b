"""A row of metrics as names and finite numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.plugins.sinks.values import LONGEST_NAME, MOST_ENTRIES, name_of, values_of
from tests.layout import Layout
from tests.unit.views.factories import make_row


def values(**fields: Any) -> dict[str, float]:
    return values_of(make_row(Layout(Path("/nowhere"), "exp"), "anna", 3, **fields))


def test_numbers_and_flags_keep_their_columns_names_and_where_the_row_stands_is_none_of_them() -> None:
    found = values(my_reward=0.5, late=True, reward_given_tagged=0.25)
    assert (found["my_reward"], found["late"], found["reward_given_tagged"]) == (0.5, 1.0, 0.25)
    assert not {"round", "stage", "timestamp", "model", "node_id", "trained_on"} & {*found}


def test_what_is_missing_is_no_zero() -> None:
    assert "reward_given_tagged" not in values()


def test_tables_become_a_name_for_each_entry_and_tables_in_tables_are_left_out() -> None:
    found = values(task_rewards={"bf": 0.5}, external_by_peer_task={"ben": {"bf": 3}})
    assert found["task_rewards/bf"] == 0.5
    assert not any(name.startswith("external_by_peer_task") for name in found)


def test_later_stages_have_names_of_their_own() -> None:
    assert {*values(stage=2)} == {f"stage_2/{name}" for name in values()}


def test_a_flood_of_names_is_bounded() -> None:
    found = values(task_rewards={f"t{n}": 0.5 for n in range(5000)})
    assert sum(name.startswith("task_rewards/") for name in found) == MOST_ENTRIES


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 10**400])
def test_what_is_no_finite_number_is_left_out(number: float) -> None:
    found = values(loss=number, task_rewards={"bf": number, "arc": 0.5})
    assert "loss" not in found
    assert [name for name in found if name.startswith("task_rewards/")] == ["task_rewards/arc"]


@given(st.text(), st.floats() | st.integers())
def test_whatever_a_stranger_writes_names_are_harmless_and_numbers_finite(name: str, number: float) -> None:
    found = values(loss=number, task_rewards={name: number})
    assert all(re.fullmatch(r"[A-Za-z0-9_./-]+", one) for one in found)
    assert all(math.isfinite(one) for one in found.values())
    assert 0 < len(name_of(name)) <= LONGEST_NAME
