"""The decoder that tells sound rows at once lets none pass that would have to be changed."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest

from swarm.records.table import MOST_ENTRIES, Odd, clamp, columns, parse_row, strict
from swarm.wire.messages import MetricsRow

FORM = columns(*MetricsRow.__struct_fields__)
SOUND = {"round": 3, "my_reward": 0.5, "schema_version": 1}
BEYOND: dict[str, list[object]] = {
    "int": [-1, 2**60],
    "float": [-1e20, 1e20],
    "dict[str, int]": [{"a": -1}, {"a": 2**60}, {str(n): 1 for n in range(MOST_ENTRIES + 1)}],
    "dict[str, dict[str, int]]": [{"a": {"b": -1}}, {"a": {str(n): 1 for n in range(MOST_ENTRIES + 1)}}],
    "list[str]": [["a"] * (MOST_ENTRIES + 1)],
}
"""Type of a column -> values that have to be changed."""
FREE = {"schema_version", "my_reward", "round"}
"""Of another version or left out, not changed; a round is no negative number in any form."""


def cases() -> list[tuple[str, object]]:
    hints = get_type_hints(MetricsRow).items()
    types = {name: str(hint).removeprefix("<class '").removesuffix("'>").partition(" | ")[0] for name, hint in hints}
    types = {name: hint.replace("typing.Union[", "").partition(", msgspec")[0] for name, hint in types.items()}
    return [(name, value) for name in types if name not in FREE for value in BEYOND.get(types[name], [])]


def row_with(name: str, value: object) -> bytes:
    return msgspec.json.encode(SOUND | {name: value})


def test_a_sound_row_is_taken_at_once_and_is_what_the_form_says() -> None:
    line = row_with("accepted_by_peer", {"bob": 4})
    row = msgspec.json.decode(line, type=strict(FORM))
    assert isinstance(row, FORM)
    assert msgspec.structs.asdict(row) == msgspec.structs.asdict(msgspec.json.decode(line, type=FORM))
    assert clamp(row) == []


def test_the_cases_cover_every_kind_of_column() -> None:
    assert {name for name, _ in cases()} >= {
        "tokens_generated",
        "seconds_round",
        "refused_files",
        "refused_by_peer",
        "disk_used",
    }


def test_no_row_that_has_to_be_changed_passes_as_sound() -> None:
    for name, value in cases():
        line = row_with(name, value)
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(line, type=strict(FORM))
        odd = Odd()
        if (row := parse_row(line, FORM, odd)) is not None:
            assert (getattr(row, name) != value, odd.clamped) == (True, 1), name


@pytest.mark.parametrize("reward", [-0.1, 1.5])
def test_a_row_whose_reward_is_no_share_is_left_out(reward: float) -> None:
    odd = Odd()
    assert parse_row(row_with("my_reward", reward), FORM, odd) is None
    assert odd.left_out == 1


def test_a_row_of_another_version_is_none() -> None:
    assert parse_row(row_with("schema_version", 2), FORM) is None
