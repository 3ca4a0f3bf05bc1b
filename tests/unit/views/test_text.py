"""Text for a terminal."""

from __future__ import annotations

import pytest

from swarm.views.text import age


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.4, "9.4s"), (59.6, "60s"), (119, "119s"), (600, "10m"), (9000, "2.5h"), (200000, "2.3d")],
)
def test_ages_are_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert age(seconds) == text
