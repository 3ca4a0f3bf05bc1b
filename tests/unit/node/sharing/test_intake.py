"""What comes in from strangers' files, and what does not; files are real."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from swarm.algo.drawing import DrawnSample
from swarm.errors import ProtocolError
from swarm.node.process.system import SYSTEM_CLOCK
from swarm.node.sharing.examination import LINES_PER_PEER
from swarm.node.sharing.reading import MOST_TRIES, PeersFiles
from swarm.node.sharing.selection import OTHERS
from swarm.records.listing import NodeFiles
from swarm.store.base import PAGE
from swarm.store.folder import fetch
from swarm.store.folder.fetch import tag_of
from swarm.store.folder.store import FolderStore
from swarm.tasks.scoring import GroupScore
from swarm.types import Origin, RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import FakeTaskSource, fake_question, make_rollouts, make_row, put
from tests.unit.node.intakes import R0, TestedIntake, TrustsTabs, everything, publish

pytestmark = pytest.mark.anyio
R1 = RoundKey(1)


def as_spoken_by(file: RolloutFile, peer: str, key: RoundKey) -> RolloutFile:
    """The same groups, with another name and round on them."""
    return msgspec.structs.replace(file, peer_id=peer, round=key.round, stage=key.stage)


def with_origin(file: RolloutFile, **changes: Any) -> RolloutFile:
    """Group 0 asks something else, and its prompt is true to that."""
    origin = msgspec.structs.replace(file.groups["0"].origin, **changes)
    question = fake_question(origin)
    file.groups["0"].origin, file.groups["0"].answer = origin, question.answer
    return with_prompt(file, question.prompt)


def with_prompt(file: RolloutFile, prompt: str) -> RolloutFile:
    for entry in file.rollouts["0"]:
        entry.prompt = prompt
    return file


# ── drawn questions ─────────────────────────────────────────────────────────────────────────────────────────────────
FORGERIES: dict[str, tuple[str, Callable[[], RolloutFile]]] = {
    "a copy of another's file": ("not_drawn", lambda: as_spoken_by(make_rollouts("bob", R0), "mallory", R0)),
    "a replay of the round before": ("not_drawn", lambda: as_spoken_by(make_rollouts("mallory", R0), "mallory", R1)),
    "another seed": ("not_drawn", lambda: with_origin(make_rollouts("mallory", R0, groups=1), seed=5)),
    "another index": ("not_drawn", lambda: with_origin(make_rollouts("mallory", R0, groups=1), index=1)),
    "another profile": ("other_profile", lambda: with_origin(make_rollouts("mallory", R0, groups=1), profile="paper")),
    "another text": ("question_mismatch", lambda: with_prompt(make_rollouts("mallory", R0, groups=1), "Is it?")),
    "another's name on it": ("misplaced", lambda: make_rollouts("bob", R0)),
    "another round on it": ("misplaced", lambda: make_rollouts("mallory", R1)),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_forgeries_are_refused_without_being_scored(layout: Layout, forgery: str) -> None:
    reason, make = FORGERIES[forgery]
    intake, file = TestedIntake(layout), make()
    key = R1 if "replay" in forgery else R0
    publish(layout, file, "mallory", key)
    await intake.look(key)
    assert intake.groups("mallory", key=key) == []
    assert {*intake.refused()["mallory"]} == {reason}
    assert intake.source.scored == []  # type: ignore[attr-defined]
    assert intake.arrived == [(key, "mallory")], "nobody waits for it"


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("groups", "size"), [(3, 4), (2, 17)], ids=["groups", "completions"])
async def test_a_file_above_a_peers_share_is_refused_unscored(layout: Layout, groups: int, size: int) -> None:
    intake = TestedIntake(layout, peer_groups=2)
    publish(layout, make_rollouts("mallory", R0, groups=groups, size=size))
    await intake.look()
    assert intake.refused() == {"mallory": {"oversized": 1}}
    assert intake.source.scored == []  # type: ignore[attr-defined]


async def test_a_flood_of_names_keeps_no_live_peer_out_and_is_said_once(layout: Layout) -> None:
    intake = TestedIntake(layout, max_peers=8)
    publish(layout, make_rollouts("zoe", R0))
    for number in range(60):  # of more than 64 names a listing is good for a moment
        put(layout.rollout_file(R0, f"flood-{number:03}"), b"junk")
    with capture_logs() as logs:
        await intake.look(live={"zoe", "yan"}, slots=2)
        await intake.look(live={"zoe", "yan"}, slots=2)
        publish(layout, make_rollouts("yan", R0))
        await intake.look(live={"zoe", "yan"}, slots=2)
    assert len(intake.groups("zoe", "yan")) == 4
    refused = intake.refused()
    assert refused.pop(OTHERS) == {"flood": 53}
    assert len(refused) == 7
    assert all(reasons == {"malformed": 1} for reasons in refused.values())
    assert [log["names"] for log in logs if log["event"] == "rollouts.flood"] == [53]


async def test_of_more_names_than_one_page_holds_none_is_read_that_is_not_drawn(
    layout: Layout, reads: list[str]
) -> None:
    """Of those on later pages nothing is known but their names; all of them were once read, lest they were no files."""
    for number in range(PAGE + 20):
        put(layout.rollout_file(R0, f"peer-{number:04}"), b"junk")
    intake = TestedIntake(layout, max_peers=2 * PAGE)
    async with anyio.create_task_group() as tasks:
        await intake.intake.look({R0}, frozenset(), tasks)
    assert reads == []
    assert len(intake.arrived) == PAGE + 20


async def test_strangers_together_have_no_more_read_than_one_file_may_hold(layout: Layout) -> None:
    intake = TestedIntake(layout, max_file_bytes=100_000)
    publish(layout, make_rollouts("zoe", R0))
    for number in range(10):
        put(layout.rollout_file(R0, f"big-{number}"), b"x" * 40_000)
    await intake.look(live={"zoe"})
    assert len(intake.groups("zoe")) == 2
    counts = intake.intake.close_round(0)
    assert counts.refused == {"malformed": 3, "flood": 7}
    assert counts.bytes_fetched < 130_000


async def test_strangers_bytes_keep_no_living_peer_out_that_was_refused_before(layout: Layout) -> None:
    intake = TestedIntake(layout, max_file_bytes=100_000)
    put(layout.rollout_file(R0, "zoe"), b"x")
    await intake.look(live={"zoe"})
    assert intake.refused() == {"zoe": {"malformed": 1}}
    for number in range(10):
        put(layout.rollout_file(R1, f"big-{number}"), b"x" * 40_000)
    await intake.look(R1, live={"zoe"})
    publish(layout, make_rollouts("zoe", R1))
    await intake.look(R1, live={"zoe"})
    assert len(intake.groups("zoe", key=R1)) == 2


async def test_a_peer_that_is_refused_again_and_again_gets_a_few_lines_and_all_counts(layout: Layout) -> None:
    intake = TestedIntake(layout)
    publish(layout, as_spoken_by(make_rollouts("bob", R0, groups=60), "mallory", R0))
    with capture_logs() as logs:
        await intake.look()
    assert intake.refused() == {"mallory": {"not_drawn": 60}}
    said = [log for log in logs if log["event"] == "rollouts.refused"]
    assert len(said) == LINES_PER_PEER
    assert ["more" in log for log in said] == [False, False, True]


REFUSED: dict[str, Callable[[RolloutFile], object]] = {
    "no_origin": lambda file: setattr(file.groups["0"], "origin", None),
    "malformed": lambda file: setattr(file.rollouts["0"][0], "reward", "much"),
    "misplaced": lambda file: setattr(file, "round", 1),
    "too_long": lambda file: None,  # as it is
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_what_was_refused_is_let_go_at_once(layout: Layout, reason: str) -> None:
    """Sixty files of 4 MB once left a worker a gigabyte larger: the refusals held the frames that had read them."""
    size, names = 2**18, [f"big-{number}" for number in range(12)]
    for name in names:
        file = make_rollouts(name, R0, groups=1, size=4)
        for entry in file.rollouts["0"]:
            entry.response = "\N{GRINNING FACE}" + "x" * size
        REFUSED[reason](file)
        put(layout.rollout_file(R0, name), encode(file))
    intake = TestedIntake(layout)
    gc.disable()
    tracemalloc.start()
    try:
        await intake.look(live=set(names))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert intake.refused() == {name: {reason: 1} for name in names}
    assert held < 3 * 4 * size * 4, "bytes, as three files take in memory, of 12"


async def test_token_ids_stay_in_memory_only_where_they_are_weighed_by(layout: Layout) -> None:
    file = make_rollouts("bob", R0, groups=8)
    for entries in file.rollouts.values():
        for entry in entries:
            entry.token_ids, entry.logprobs = [1, 2], [-0.5, -0.5]
    publish(layout, file)
    for cap, expected in ((0.0, {None}), (2.0, {(1, 2), None})):
        intake = TestedIntake(layout, importance_cap=cap)
        await intake.look()
        held = {c.token_ids for s in intake.groups("bob") for c in s.group.completions}
        assert held <= expected
        assert ((1, 2) in held) == bool(cap)


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────────────
class Slow(FakeTaskSource):
    """Waits for `go`, and kills what one peer wrote."""

    def __init__(self, poisoned: str = "") -> None:
        super().__init__()
        self.go = anyio.Event()
        files = [make_rollouts(poisoned, RoundKey(number), groups=40) for number in range(2)]
        self._poisoned = {group[0].prompt for file in files for group in file.rollouts.values()}

    async def score(self, origin: Any, claimed_prompt: str | None, completions: Any) -> GroupScore:
        await self.go.wait()
        return await super().score(origin, claimed_prompt, completions)

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        return msgspec.structs.replace(score, killed=int(score.question.prompt in self._poisoned))


async def test_peers_with_a_clean_record_are_read_first_and_refused_ones_last(layout: Layout) -> None:
    source = Slow()
    intake = TestedIntake(layout, source, quarantine_rounds=20)
    intake.intake.remember(make_row(0, accepted_by_peer={"zoe": 2}, refused_by_peer={"abe": {"malformed": 1}}))
    for peer in ("abe", "bob", "carol", "zoe"):
        publish(layout, make_rollouts(peer, R1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: intake.look(R1, live={"carol"}))
        source.go.set()
    assert [peer for _, peer in intake.valid] == ["zoe", "carol", "bob", "abe"]


async def test_a_file_that_has_to_be_killed_waits_behind_the_others_from_then_on(layout: Layout) -> None:
    source = Slow(poisoned="abe")
    intake = TestedIntake(layout, source)
    publish(layout, make_rollouts("abe", R0, groups=8))
    publish(layout, make_rollouts("bob", R0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(intake.look)
        source.go.set()
    theirs = [entries[0].prompt for entries in make_rollouts("bob", R0).rollouts.values()]
    assert source.scored[1:3] == theirs, "after one killed answer, not after nine"
    assert [peer for _, peer in intake.valid] == ["bob", "abe"]
    assert len(intake.groups("abe")) == 8, "eight are within bounds"


async def test_a_file_with_many_poisonous_answers_is_refused_whole(layout: Layout) -> None:
    source = Slow(poisoned="abe")
    source.go.set()
    intake = TestedIntake(layout, source)
    publish(layout, make_rollouts("abe", R0, groups=40))
    await intake.look()
    assert intake.groups("abe") == []
    assert len(source.scored) == 9, "and no more of it than the limit"
    counts = intake.intake.close_round(0)
    assert (counts.refused, counts.killed) == ({"scorer_abuse": 1}, 9)
    assert counts.quarantined == [], "a model may write endless loops in good faith for a round"
    publish(layout, make_rollouts("abe", RoundKey(1), groups=40))
    await intake.look(RoundKey(1))
    counts = intake.intake.close_round(1)
    assert (counts.refused, counts.quarantined) == ({"scorer_abuse": 1}, ["abe"])


async def test_files_of_rounds_that_are_over_are_not_scored_any_more(layout: Layout) -> None:
    source = Slow()
    intake = TestedIntake(layout, source)
    keys, samples = [RoundKey(number) for number in range(5)], dict[RoundKey, DrawnSample]()
    for key in keys:
        publish(layout, make_rollouts("bob", key))

    async def draw(key: RoundKey) -> None:
        samples[key] = await intake.intake.draw(everything(), [("bob", key)], math.inf, tasks)

    async with anyio.create_task_group() as tasks:
        await intake.intake.look(set(keys), frozenset(), tasks)
        for key in keys:
            tasks.start_soon(draw, key)
        await anyio.wait_all_tasks_blocked()
        intake.intake.forget_before(RoundKey(4))
        source.go.set()
    assert [key.round for key, _ in intake.valid] == [0, 4], "what had begun, and what is not over"
    assert [len(samples[key].groups) for key in keys] == [0, 0, 0, 0, 2]
    assert len(source.scored) == 4


# ── changed files ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_of_a_file_that_changes_after_it_was_read_the_first_reading_stays_and_is_the_only_one(
    layout: Layout, reads: list[str]
) -> None:
    intake = TestedIntake(layout)
    publish(layout, make_rollouts("bob", R0))
    await intake.look(live=["bob"])
    before = intake.groups("bob")
    for seed in (8, 9):
        publish(layout, make_rollouts("bob", R0, seed=seed))
        await intake.look(live=["bob"])
    assert intake.groups("bob") == before
    assert (reads, intake.refused(), intake.arrived) == (["bob"], {}, [(R0, "bob")])


async def test_a_flooded_stage_that_may_not_be_entered_any_more_ends_no_node(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = TestedIntake(layout, max_peers=1)
    for name in ("one", "two"):
        put(layout.rollout_file(R0, name), b"junk")
    await intake.look()

    def denied(*_: object) -> NoReturn:
        raise ProtocolError("unreadable", "Permission denied")

    with monkeypatch.context() as patched:  # a superuser, as tests may be run by, is denied nothing
        patched.setattr(FolderStore, "stat", denied)
        await intake.look(live={"bob"})
    assert intake.arrived == [(R0, "one")] or intake.arrived == [(R0, "two")]


# ── false claims ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_false_rewards_are_counted_and_change_nothing(layout: Layout) -> None:
    intake, file = TestedIntake(layout), make_rollouts("mallory", R0)
    publish(layout, file)
    for entry in file.rollouts["0"]:
        entry.reward = 1.0 - (entry.reward or 0.0)
    for entry in file.rollouts["1"]:
        entry.reward = None  # says nothing, and so nothing false
    liar = TestedIntake(Layout(layout.path, "lies"))
    publish(liar.layout, file)
    await intake.look()
    await liar.look()
    assert liar.groups("mallory") == intake.groups("mallory")
    assert liar.intake.close_round(0).false_claims == {"mallory": 4}
    assert intake.intake.close_round(0).false_claims == {}


# ── quarantine ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_quarantined_peer_is_not_read_and_not_waited_for(layout: Layout) -> None:
    intake = TestedIntake(layout, quarantine_rounds=3)
    with capture_logs() as logs:
        for round_ in range(8):
            key = RoundKey(round_)
            intake.intake.forget_before(key)
            if round_ < 5:
                publish(layout, as_spoken_by(make_rollouts("bob", key, groups=4), "mallory", key))
            await intake.look(key)
            counts = intake.intake.close_round(round_)
            assert bool(counts.refused) == (round_ in (0, 4)), round_
            assert counts.quarantined == (["mallory"] if round_ not in (3, 7) else [])
            assert (key, "mallory") in intake.arrived, "read or not"
    told = [(log["event"], log["round"]) for log in logs if log["event"].startswith("peer.")]
    changes = (("quarantined", 0), ("released", 3), ("quarantined", 4), ("released", 7))
    assert told == [(f"peer.{what}", round_) for what, round_ in changes]


# ── what lies at a peer's name before its file does ─────────────────────────────────────────────────────────────────
def a_link(file: Path) -> None:
    (file.parent.parent / "target").write_bytes(encode(make_rollouts("mallory", R0)))
    file.symlink_to(file.parent.parent / "target")


def a_sparse_file(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(10 * 2**30)


NO_FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "link": ("not_a_file", a_link),
    "fifo": ("not_a_file", os.mkfifo),
    "sparse": ("oversized", a_sparse_file),
    "deep": ("malformed", lambda file: file.write_bytes(b'{"peer_id":"mallory","groups":' + b"[" * 50_000)),
}


@pytest.mark.parametrize("kind", NO_FILES)
async def test_a_peers_file_is_taken_in_whatever_lay_at_its_name_before(layout: Layout, kind: str) -> None:
    """Links in the place of one worker's next rollouts kept its groups from all others, every second round."""
    reason, make = NO_FILES[kind]
    intake, file = TestedIntake(layout), layout.rollout_file(R0, "bob")
    file.parent.mkdir(parents=True)
    make(file)
    for _ in range(3):
        await intake.look(live={"bob"})
    file.unlink()
    publish(layout, make_rollouts("bob", R0))
    for _ in range(3):
        await intake.look(live={"bob"})
    assert len(intake.groups("bob")) == 2
    assert intake.refused() == {"bob": {reason: 1}}
    assert len(intake.silent) == (reason == "not_a_file")
    assert {*intake.arrived} == {(R0, "bob")}


@pytest.mark.parametrize("kind", ["link", "deep"])
async def test_what_is_gone_between_listing_and_reading_keeps_no_file_out(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its author moves what a stranger put there out of the way, and publishes a moment later."""
    intake, file, usual = TestedIntake(layout), layout.rollout_file(R0, "bob"), PeersFiles.fetch
    file.parent.mkdir(parents=True)
    NO_FILES[kind][1](file)
    with monkeypatch.context() as moment:
        moment.setattr(PeersFiles, "fetch", lambda *given: (file.unlink(), usual(*given))[1])
        await intake.look(live={"bob"})
    publish(layout, make_rollouts("bob", R0))
    await intake.look(live={"bob"})
    assert len(intake.groups("bob")) == 2
    assert intake.refused() == {}


async def test_a_stranger_who_cannot_sign_keeps_no_signed_file_out(layout: Layout) -> None:
    signed = Layout(layout.path, "exp", trust=TrustsTabs())
    intake, file = TestedIntake(signed), signed.rollout_file(R0, "bob")
    put(file, encode(make_rollouts("bob", R0, seed=8)))
    await intake.look(live={"bob"})
    put(file, signed.trust.seal(encode(make_rollouts("bob", R0)), signed.key(file)))
    await intake.look(live={"bob"})
    assert len(intake.groups("bob")) == 2
    assert intake.refused() == {"bob": {"unsigned": 1}}
    assert (intake.arrived, intake.silent) == ([(R0, "bob")] * 2, [(R0, "bob")]), "there, not its own, and there again"


async def test_who_writes_junk_again_and_again_is_read_a_bounded_number_of_times(
    layout: Layout, reads: list[str]
) -> None:
    intake, file = TestedIntake(layout), layout.rollout_file(R0, "bob")
    for number in range(2 * MOST_TRIES):
        put(file, b"junk" * (number + 1))
        await intake.look(live={"bob"})
    assert len(reads) == MOST_TRIES
    assert intake.refused() == {"bob": {"malformed": 1}}


async def test_a_round_that_is_left_while_it_is_listed_is_let_alone(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that strangers drove on and on once ended workers: what was known of the round had gone meanwhile."""
    intake, file, usual = TestedIntake(layout), layout.rollout_file(R0, "bob"), NodeFiles.find
    put(file, b"junk")
    await intake.look(live={"bob"})
    put(file, b"other junk")

    def find(*given: Any, **more: Any) -> Any:
        found = usual(*given, **more)
        intake.intake.forget_before(RoundKey(1))
        return found

    monkeypatch.setattr(NodeFiles, "find", find)
    await intake.look(live={"bob"})
    assert intake.refused() == {"bob": {"malformed": 1}}


async def test_of_a_folder_no_versions_are_looked_for_but_of_files_that_may_be_read_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each look would take a system call for each peer."""
    for number in range(100):
        put(layout.rollout_file(R0, f"p{number:03}"), b"{}")
    publish(layout, make_rollouts("bob", R0))
    intake, looked = TestedIntake(layout), list[str]()
    await intake.look(live={"bob", "p001"}, slots=1)
    monkeypatch.setattr(fetch, "tag_of", lambda found: looked.append(tag_of(found)) or tag_of(found))
    async with anyio.create_task_group() as tasks:
        await intake.intake.look({R0}, frozenset({"bob", "p001"}), tasks)
    assert len(looked) == 1, "of the one that lives and was refused"


# ── how late the place is ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("looked_before", "drawn_after", "told"), [(True, 0.0, [1.0]), (True, 60.0, [1.0]), (False, 60.0, [])]
)
async def test_a_file_that_came_while_the_node_looked_tells_how_late_the_place_is_however_late_it_is_drawn(
    layout: Layout, looked_before: bool, drawn_after: float, told: list[float]
) -> None:
    """Who waits for a node that loads draws a minute later; what was published while nobody looked tells nothing."""
    now = 1_000_000.0
    intake = TestedIntake(layout, times=dataclasses.replace(SYSTEM_CLOCK, wall=lambda: now))
    if looked_before:
        await intake.look(live=["bob"])
    publish(layout, msgspec.structs.replace(make_rollouts("bob", R0), timestamp=now))
    now += 1.0
    async with anyio.create_task_group() as tasks:
        await intake.intake.look({R0}, frozenset({"bob"}), tasks)
    now += drawn_after
    await intake.look(live=["bob"])
    intake.intake.close_round(0).fill(row := make_row())
    assert row.publish_to_pool == told
