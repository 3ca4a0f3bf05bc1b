"""Who is still waited for, when workers begin together, and which rewards count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import StoreError
from swarm.node.base.attendance import (
    MOST_ABSENCES,
    MOST_COUNTED,
    MOST_EARNED,
    MOST_READ,
    Attendance,
    Settling,
    Submissions,
)
from swarm.store.base import Facts, Page, Spent
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.trust import Trusting
from tests.layout import Layout
from tests.unit.node.factories import make_rollouts, put, put_reward, run_of

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


def test_what_was_lost_to_one_that_then_published_is_given_back_and_to_one_that_is_only_seen_is_not() -> None:
    attendance = attendance_after(*["alice"] * MOST_ABSENCES, earned="alice")
    attendance.seen(["bob"])
    assert attendance.awaited({*ALL, "new"}) == {"alice"}
    attendance.earn(["bob"])
    assert attendance.awaited({*ALL, "new"}) == {*ALL, "new"}


def test_what_is_remembered_is_bounded() -> None:
    attendance = attendance_after()
    attendance.earn(f"node-{number}" for number in range(MOST_EARNED + 9))
    assert len(attendance.earned) == MOST_EARNED
    for round_ in range(500):
        attendance.wait({f"new-{round_}"}, set(), float(round_))
        attendance.close({f"new-{round_}"}, {f"new-{round_}"})
    assert len(attendance._losses) <= 65


# ── when workers that are started one after the other begin together ──────────────────────────────────────────────────
NOBODY: frozenset[str] = frozenset()


def of(*names: str) -> frozenset[str]:
    return frozenset(names)


def make() -> Settling:
    return Settling(15.0, 120.0)


def test_who_is_loading_is_waited_for_however_long_ago_the_last_one_came() -> None:
    settling = make()
    settling.look(0.0, of("ben"), of("anna"))
    assert settling.look(60.0, of("ben"), of("anna")) == 120.0
    assert settling.look(60.0, NOBODY, of("anna", "ben")) is None


def test_a_worker_that_crashes_and_comes_back_again_and_again_starts_no_settling_anew() -> None:
    settling = make()
    for now in range(15):
        assert settling.look(float(now), of("ben") if now % 2 else NOBODY, of("anna")) is not None
    assert settling.look(16.0, NOBODY, of("anna")) is None


@given(st.integers(1, 14), st.booleans(), st.floats(0.0, 300.0))
def test_strangers_with_ever_new_names_cost_two_intervals_after_the_first_was_ready_and_no_more(
    every: int, ready: bool, first: float
) -> None:
    settling, names, now = make(), set[str](), 0.0
    while True:
        names.add(f"stranger{now}")
        anna = of("anna") if now >= first else NOBODY
        wait = settling.look(now, NOBODY, anna | names) if ready and anna else settling.look(now, names, anna)
        if wait is None:
            break
        now += every
    assert first + 120.0 <= now <= first + 120.0 + 2 * every


def test_a_flood_of_names_is_not_counted_for_ever() -> None:
    settling = make()
    settling.look(0.0, frozenset(f"stranger{number}" for number in range(MOST_COUNTED)), of("anna"))
    assert settling.look(10.0, of("one-more"), of("anna")) is not None
    assert settling.look(15.1, of("another"), of("anna")) is None


# ── which rewards count ───────────────────────────────────────────────────────────────────────────────────────────────
R0, R1 = RoundKey(0), RoundKey(1)


def bare_reward(layout: Layout, key: RoundKey, node: str) -> None:
    """A reward without rollouts."""
    put_reward(layout, key, node)
    layout.rollout_file(key, node).unlink()


def test_what_is_no_reward_or_another_ones_counts_for_nothing(layout: Layout) -> None:
    """Three fakes with files that held `x` moved a clock by 500 rounds."""
    put_reward(layout, R1, "bob")
    for node, content in (("x", b"x"), ("empty", b""), ("moved", layout.reward_file(R1, "bob").read_bytes())):
        put(layout.rollout_file(R0, node), encode(make_rollouts(node, R0)))
        put(layout.reward_file(R0, node), content)
    layout.reward_file(R0, "folder").mkdir(parents=True)
    layout.reward_file(R0, "link").symlink_to(layout.reward_file(R1, "bob"))
    assert Submissions(run_of(layout)).of(R0) == frozenset()


def test_a_reward_without_rollouts_counts_only_of_a_node_that_was_seen_to_publish(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    for node in ("bob", "fake"):
        bare_reward(layout, R1, node)
    submissions = Submissions(run_of(layout))
    assert submissions.of(R1) == frozenset()
    submissions.of(R0)
    assert submissions.of(R1) == {"bob"}


def test_what_stands_in_the_place_of_a_rounds_rollouts_costs_nobody_his_reward(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    layout.rollout_file(R0, "bob").unlink()
    layout.rollouts_of(R0).rmdir()
    put(layout.rollouts_of(R0), b"a file")
    assert Submissions(run_of(layout)).of(R0) == {"bob"}


def test_while_rollouts_cannot_be_listed_bare_rewards_of_strangers_prove_nobody(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that was lost for a moment gave them a say for ever."""
    put_reward(layout, R0, "bob")
    bare_reward(layout, R0, "fake")
    submissions, usual = Submissions(run_of(layout)), FolderStore.list

    def fails(store: FolderStore, prefix: str, **more: Any) -> Page:
        if prefix.startswith(keys.ROLLOUTS):
            raise StoreError("Stale file handle")
        return usual(store, prefix, **more)

    with monkeypatch.context() as moment:
        moment.setattr(FolderStore, "list", fails)
        assert submissions.of(R0) == frozenset()
    assert submissions.of(R0) == {"bob"}


def test_a_file_is_read_once_and_again_when_it_has_become_another_and_nobody_takes_back_a_reward_that_was_found(
    layout: Layout, gets: list[str]
) -> None:
    put_reward(layout, R0, "bob")
    put(layout.reward_file(R0, "x"), b"x")
    submissions = Submissions(run_of(layout))
    assert [submissions.of(R0) for _ in range(3)] == [{"bob"}] * 3
    assert len(gets) == 2
    put(layout.reward_file(R0, "bob"), b"written over by a stranger")
    put_reward(layout, R0, "x")
    assert submissions.of(R0) == {"bob", "x"}


def test_a_flood_of_files_does_not_keep_those_out_who_have_published_before(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    submissions = Submissions(run_of(layout))
    submissions.of(R0)
    for number in range(MOST_READ):
        put(layout.reward_file(R1, f"a-{number:04}"), b"x")
    put_reward(layout, R1, "bob")
    assert submissions.of(R1) == {"bob"}


@pytest.mark.parametrize(("signed", "reads"), [(False, 0), (True, 1)], ids=["unsigned", "signed"])
def test_where_reads_are_paid_for_a_reward_of_who_has_published_is_read_only_for_its_signature(
    layout: Layout, gets: list[str], monkeypatch: pytest.MonkeyPatch, signed: bool, reads: int
) -> None:
    """A coordinator of 1,000 workers over a bucket asked for 1,000 objects in each round."""
    monkeypatch.setattr(FolderStore, "facts", lambda store: Facts(Spent()))
    monkeypatch.setattr(Trusting, "asks", signed)
    put_reward(layout, R0, "bob")
    submissions = Submissions(run_of(layout))
    submissions.of(R0)
    gets.clear()
    put_reward(layout, R1, "bob")
    put_reward(layout, R1, "newcomer")
    put(layout.reward_file(RoundKey(2), "bob"), b"")
    assert submissions.of(R1) == {"bob", "newcomer"}
    assert gets.count(keys.reward(R1, "bob")) == reads
    assert gets.count(keys.reward(R1, "newcomer")) == 1
    assert submissions.of(RoundKey(2)) == frozenset()
