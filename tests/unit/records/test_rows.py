"""Rows decoded many at once are those that are decoded one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from swarm.records.table import Odd, columns, parse_row, parse_rows
from tests.layout import Layout
from tests.unit.views.factories import make_row

FORM = columns("seconds_round", "task_rewards")
GOOD = [msgspec.json.encode(make_row(Layout(Path("place"), "exp"), "anna", round_)) for round_ in range(3)]
ODD = [
    b"",
    b" ",
    b"[]",
    b"{",
    b"\xff",
    GOOD[0] + b" " + GOOD[1],  # two on one line
    GOOD[0][:-1],
    b"[" * 5000,
    GOOD[0].replace(b'"my_reward":', b'"my_reward":7,"my_old":'),
    GOOD[1].replace(b'"schema_version":1', b'"schema_version":99'),
    GOOD[2].replace(b'"seconds_round":', b'"seconds_round":1e300,"seconds_old":'),
]


@given(st.lists(st.sampled_from([*GOOD * 4, *ODD]), max_size=600))
def test_rows_of_many_lines_are_those_of_each_line(lines: list[bytes]) -> None:
    together, alone = Odd(), Odd()
    rows = [row for line in lines if (row := parse_row(line, FORM, alone)) is not None]
    found = [*parse_rows(lines, FORM, together)]
    assert [*map(msgspec.structs.asdict, found)] == [*map(msgspec.structs.asdict, rows)]
    assert (together.left_out, together.clamped) == (alone.left_out, alone.clamped)
