"""Text for a terminal."""

from __future__ import annotations

import pytest

from swarm.harmless import printable
from swarm.views.text import age, counts, shorten, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.4, "9.4s"), (59.6, "60s"), (119, "119s"), (600, "10m"), (9000, "2.5h"), (200000, "2.3d")],
)
def test_ages_are_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_tables_align_names_left_and_numbers_right() -> None:
    assert table(("node", "reward"), [("a", "1.000"), ("bobby", "10.000")]) == (
        "node   reward\na       1.000\nbobby  10.000"
    )


def test_unprintable_characters_are_replaced() -> None:
    assert printable("a\x1b[31mé\n") == "a\N{REPLACEMENT CHARACTER}[31mé\N{REPLACEMENT CHARACTER}"


def test_long_words_are_shortened_visibly() -> None:
    assert (shorten("abcdef", 4), shorten("abcd", 4)) == ("abc…", "abcd")


def test_counts_are_largest_first() -> None:
    assert (counts({"a": 1, "b": 3, "c": 1}), counts({})) == ("b 3, a 1, c 1", "-")
