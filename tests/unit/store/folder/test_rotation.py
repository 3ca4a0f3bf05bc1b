"""Logs that are full begin anew, and who reads them loses and doubles no line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from swarm.records.growing import GrowingLines
from swarm.store.base import end_of
from swarm.store.folder import growing
from swarm.store.folder.store import FolderStore
from tests.objects import KINDS, bounded, put

EVENTS = "logs/anna/training_events.jsonl"
PART = 400
"""Bytes of one part, in these tests."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST_OF_PART", PART)


def line(number: int) -> bytes:
    return b'{"timestamp":%d,"event":"x%d"}' % (1_700_000_000 + number, number)


def write(root: Path, numbers: range, key: str = EVENTS) -> None:
    log = FolderStore(root, "anna").open_log(key)
    for number in numbers:
        log.write(line(number))
    log.close()


def read_all(root: Path, key: str = EVENTS) -> list[bytes]:
    return [record for part in GrowingLines(FolderStore(root), key).look(None) for record in part.records]


def test_a_log_takes_no_more_than_two_parts_and_keeps_its_last_lines(tmp_path: Path) -> None:
    write(tmp_path, range(1000))
    sizes = [file.stat().st_size for file in (tmp_path / "logs/anna").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= PART
    found = read_all(tmp_path)
    assert found == [line(number) for number in range(1000 - len(found), 1000)]
    assert len(found) > PART // len(line(999)) - 1


def test_the_last_bytes_of_a_log_reach_into_its_older_part(tmp_path: Path) -> None:
    write(tmp_path, range(1000, 1010))
    lines, store = read_all(tmp_path), FolderStore(tmp_path)
    for size in range(1, 2 * PART):
        found = store.read_records(EVENTS, end_of(size))
        rest = store.read_records(EVENTS, found.cursor).records if found.more else []
        assert found.records + rest == lines[max(0, len(lines) - size // len(lines[0] + b"\n")) :]


def test_rows_of_metrics_never_go(tmp_path: Path) -> None:
    key = "logs/anna/metrics.jsonl"
    write(tmp_path, range(200), key)
    for number in range(200, 210):
        FolderStore(tmp_path, "anna").append_records(key, [line(number)], durable=False)
    assert read_all(tmp_path, key) == [line(number) for number in range(210)]


@pytest.mark.parametrize("seed", range(6))
def test_who_follows_a_log_that_is_rotated_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    """Readers that look often enough: at least once for each part."""
    draw = random.Random(seed)
    log, followed = FolderStore(tmp_path, "anna").open_log(EVENTS), GrowingLines(FolderStore(tmp_path), EVENTS)
    found, number = list[bytes](), 0
    while number < 300:
        for _ in range(draw.randint(0, 8)):
            log.write(line(number))
            number += 1
        for part in followed.look(limit=draw.choice([0, 30, 100])):
            assert not part.restarted
            found += part.records
    log.close()
    found += [record for part in followed.look(None) for record in part.records]
    assert found == [line(n) for n in range(number)]


def test_who_comes_after_both_parts_are_gone_reads_what_is_there_once(tmp_path: Path) -> None:
    followed = GrowingLines(FolderStore(tmp_path), EVENTS)
    write(tmp_path, range(3))
    assert [r for part in followed.look() for r in part.records] == [line(n) for n in range(3)]
    write(tmp_path, range(3, 200))
    parts = list(followed.look())
    assert parts[0].restarted
    assert [r for part in parts for r in part.records] == read_all(tmp_path)


def test_a_kill_between_the_two_steps_of_a_rotation_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path, range(5))
    followed = GrowingLines(FolderStore(tmp_path), EVENTS)
    assert len([r for part in followed.look() for r in part.records]) == 5
    file = tmp_path / EVENTS
    file.rename(file.with_name(f"{file.name}.1"))
    assert [part.records for part in followed.look()] == [[]]
    assert read_all(tmp_path) == [line(n) for n in range(5)]
    file.touch()
    for _ in range(2):
        assert [part.records for part in followed.look()] == [[]]
    write(tmp_path, range(5, 8))
    assert [r for part in followed.look() for r in part.records] == [line(n) for n in range(5, 8)]
    assert read_all(tmp_path) == [line(n) for n in range(8)]


def test_a_log_that_is_rotated_between_two_openings_is_read_once(tmp_path: Path) -> None:
    """What was opened as the log is then found again as its older part."""
    write(tmp_path, range(5))
    (tmp_path / f"{EVENTS}.1").hardlink_to(tmp_path / EVENTS)
    assert read_all(tmp_path) == [line(n) for n in range(5)]


def test_half_a_line_that_a_kill_left_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, range(9))
    with (tmp_path / EVENTS).open("ab") as torn:
        torn.write(b'{"timest')
    write(tmp_path, range(9, 20))
    assert [record for record in read_all(tmp_path) if record in map(line, range(20))][-11:] == [
        line(number) for number in range(9, 20)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_where_the_older_part_goes_stops_no_log(kind: str, tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    write(place, range(3))
    put(kind, place / f"{EVENTS}.1", outside)
    with bounded():
        assert read_all(place)[-3:] == [line(n) for n in range(3)]
        write(place, range(3, 40))
        assert read_all(place)[-5:] == [line(n) for n in range(35, 40)]
    assert (outside / "precious").read_text() == "precious"
