"""Who is still waited for."""

from __future__ import annotations

from swarm.node.base.attendance import MOST_ABSENCES, Attendance

ALL = frozenset({"alice", "bob"})


def attendance_after(*rounds: str) -> Attendance:
    """In each round both were alive, and those named were present."""
    attendance = Attendance()
    for present in rounds:
        attendance.close(ALL, present.split())
    return attendance


def test_everybody_is_waited_for_until_they_have_been_absent_often_in_a_row() -> None:
    assert attendance_after(*["alice"] * (MOST_ABSENCES - 1)).awaited(ALL) == ALL
    assert attendance_after(*["alice"] * MOST_ABSENCES).awaited(ALL) == {"alice"}


def test_absences_count_in_a_row_only() -> None:
    assert attendance_after("alice", "alice", "alice bob", "alice", "alice").awaited(ALL) == ALL


def test_one_that_shows_up_again_is_waited_for_again() -> None:
    attendance = attendance_after(*["alice"] * 9)
    attendance.seen(["bob"])
    assert attendance.awaited(ALL) == ALL


def test_only_the_living_are_waited_for() -> None:
    assert attendance_after().awaited(["alice"]) == {"alice"}
    assert attendance_after(*["alice"] * 9).awaited([]) == frozenset()


def test_those_who_were_not_alive_were_not_absent() -> None:
    attendance = attendance_after(*["alice"] * MOST_ABSENCES)
    attendance.close(["alice"], ["alice"])
    assert attendance.awaited(ALL) == ALL
