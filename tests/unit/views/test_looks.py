"""A live view asks a bucket once a second at most, and ever more seldom while nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.store.place import open_place
from swarm.views.looks import LONGEST, Looks
from tests.unit.store.bucket.buckets import MemoryBucket


def test_in_a_folder_a_view_keeps_its_own_pace(tmp_path: Path) -> None:
    looks = Looks(open_place(str(tmp_path)).store("exp", None), 2.0)
    assert [looks.pause(news=news) for news in (True, False, False)] == [2.0] * 3


@pytest.mark.parametrize("requests", [1, 3, 20, 200])
def test_in_a_bucket_it_asks_once_a_second_at_most_and_ever_more_seldom(requests: int) -> None:
    store = MemoryBucket().open()
    looks, pauses = Looks(store, 2.0), list[float]()
    for look in range(20):
        for _ in range(requests):
            store.list("peers")
        pauses.append(looks.pause(news=look < 3))
    assert all(pause >= requests for pause in pauses)
    assert pauses[:3] == [max(2.0, requests)] * 3
    assert pauses == sorted(pauses)
    assert pauses[-1] == max(LONGEST, requests)
    store.list("peers")
    assert looks.pause(news=True) == 2.0
