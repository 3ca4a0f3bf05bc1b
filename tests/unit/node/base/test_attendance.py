"""Who is still waited for."""

from __future__ import annotations

import pytest

from swarm.node.base.attendance import MOST_ABSENCES, MOST_EARNED, Attendance

ALL = frozenset({"alice", "bob"})
LONGEST = 10.0


def attendance_after(*rounds: str, earned: str = "alice bob") -> Attendance:
    """In each round both were alive, and those named were present."""
    attendance = Attendance(LONGEST)
    attendance.earn(earned.split())
    for present in rounds:
        attendance.close(ALL, set(present.split()))
    return attendance


@pytest.mark.parametrize(
    ("rounds", "seen", "live", "awaited"),
    [
        (["alice"] * (MOST_ABSENCES - 1), "", "alice bob", "alice bob"),
        (["alice"] * MOST_ABSENCES, "", "alice bob", "alice"),
        (["alice", "alice", "alice bob", "alice", "alice"], "", "alice bob", "alice bob"),
        (["alice"] * 9, "bob", "alice bob", "alice bob"),
        ([], "", "alice", "alice"),
        (["alice"] * 9, "", "", ""),
    ],
    ids=["few absences", "many", "in a row only", "shows up again", "the living only", "nobody"],
)
def test_everybody_who_lives_is_waited_for_until_they_have_been_absent_often_in_a_row(
    rounds: list[str], seen: str, live: str, awaited: str
) -> None:
    attendance = attendance_after(*rounds)
    attendance.seen(seen.split())
    assert attendance.awaited(live.split()) == set(awaited.split())


def test_those_who_were_not_alive_were_not_absent() -> None:
    attendance = attendance_after(*["alice"] * MOST_ABSENCES)
    attendance.close(["alice"], {"alice"})
    assert attendance.awaited(ALL) == ALL


# ── newcomers ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_newcomers_are_waited_for_until_three_rounds_were_lost_to_any_of_them() -> None:
    attendance = attendance_after(earned="alice")
    for round_ in range(MOST_ABSENCES):
        new = f"new-{round_}"
        assert new in attendance.awaited({"alice", new})
        attendance.close({"alice", new}, {"alice"})
    assert attendance.awaited({"alice", "another"}) == {"alice"}
    assert attendance.awaited(ALL) == {"alice"}, "bob has never published either"


def test_a_name_that_is_seen_and_has_never_earned_it_is_a_newcomer_still() -> None:
    attendance = attendance_after(*["alice"] * MOST_ABSENCES, earned="alice")
    attendance.seen(["bob"])
    assert attendance.awaited(ALL) == {"alice"}
    attendance.earn(["bob"])
    assert attendance.awaited(ALL) == ALL


def test_time_counts_while_newcomers_alone_are_missing_also_if_they_leave_before_the_round_ends() -> None:
    attendance = attendance_after(earned="alice")
    for round_ in range(4):
        begun = 100.0 * round_
        assert attendance.wait(ALL, set(), begun) == ALL
        assert attendance.wait(ALL, {"alice"}, begun + 50.0) == {"bob"}, "alice took so long, which is nobody's fault"
        attendance.wait(["alice"], {"alice"}, begun + 59.0)
        attendance.close(["alice"], {"alice"})
    assert attendance.awaited(ALL) == {"alice"}


def test_a_grace_that_ends_in_the_middle_of_a_wait_ends_the_wait() -> None:
    attendance = attendance_after(earned="alice")
    for begun in (0.0, 100.0, 200.0):
        assert attendance.wait(ALL, {"alice"}, begun) == {"bob"}
        assert attendance.wait(ALL, {"alice"}, begun + 8.0) == {"bob"}
        attendance.wait(["alice"], {"alice"}, begun + 8.0)
        attendance.close(["alice"], {"alice"})
    assert attendance.wait(ALL, {"alice"}, 300.0) == {"bob"}
    assert attendance.wait(ALL, {"alice"}, 305.9) == {"bob"}
    assert not attendance.wait(ALL, {"alice"}, 306.0)


def test_what_was_lost_to_one_that_then_published_is_given_back() -> None:
    attendance = attendance_after(*["alice"] * MOST_ABSENCES, earned="alice")
    assert "new" not in attendance.awaited({"new"})
    attendance.earn(["bob"])
    assert "new" in attendance.awaited({"new"})


def test_what_is_remembered_is_bounded() -> None:
    attendance = attendance_after()
    attendance.earn(f"node-{number}" for number in range(MOST_EARNED + 9))
    assert len(attendance.earned) == MOST_EARNED
    for round_ in range(500):
        attendance.wait({f"new-{round_}"}, set(), float(round_))
        attendance.close({f"new-{round_}"}, {f"new-{round_}"})
    assert len(attendance._losses) <= 65
