"""One live process per node id, and a heartbeat that others can rely on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from swarm.config import Settings
from swarm.errors import DuplicateNodeError, StoreError
from swarm.node.base.presence import MOST_WATCHED, Heartbeats, PeersSeen, Presence
from swarm.node.process.host import host_identity, process_started_at, this_process
from swarm.node.process.system import SYSTEM_CLOCK, ThreadBlocking
from swarm.records.files import PeerReader, read_peer
from swarm.records.liveness import ACTIVE, STARTING, STOPPED, Liveness
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import make_peer, put, there
from tests.unit.node.nodes import make_context, until, unwritable
from tests.unit.node.process.test_host import start_child

pytestmark = pytest.mark.anyio

BEAT = 0.02


def make_presence(layout: Layout, *, registered_at: float = 1000.0, **clock: Any) -> Presence:
    times = replace(SYSTEM_CLOCK, **{"wall": lambda: registered_at} | clock)
    ctx = make_context(layout, times=times, heartbeat_interval=BEAT)
    return Presence(replace(ctx, process=this_process()), "worker")


@asynccontextmanager
async def beating(presence: Presence) -> AsyncIterator[None]:
    """For the block it is registered, and beats."""
    await presence.register()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(presence.keep_beating)
        yield
        tasks.cancel_scope.cancel()


def registered(layout: Layout, node: str = "alice") -> PeerFile:
    return there(read_peer(layout.run, node))


def hold(layout: Layout, **more: object) -> PeerFile:
    """Somebody's registration under the id of alice."""
    peer = make_peer("alice", status=ACTIVE, **more)
    put(layout.peer_file("alice"), encode(peer))
    return peer


async def test_a_registration_says_who_and_where_and_beats_tell_what_the_node_does(layout: Layout) -> None:
    presence = make_presence(layout)
    await presence.register()
    peer = registered(layout)
    assert (peer.peer_id, peer.node_role, peer.status, peer.beat) == ("alice", "worker", STARTING, 1)
    assert (peer.host, peer.pid, peer.registered_at) == (host_identity(), os.getpid(), 1000.0)
    presence.status, presence.round, presence.phase = ACTIVE, 7, "training"
    async with beating(presence):
        await until(lambda: registered(layout).beat >= 4)
    peer = registered(layout)
    assert (peer.status, peer.round, peer.phase) == (ACTIVE, 7, "training")


async def test_a_heartbeat_takes_one_job_in_a_thread(layout: Layout) -> None:
    """To look at what stands there and to write were two, in every node, every second."""
    ctx, asked = make_context(layout, heartbeat_interval=BEAT), list[str]()

    class Counted(ThreadBlocking):
        async def run(self, call: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(str(call))
            return await super().run(call, *args, **kwargs)

    presence = Presence(replace(ctx, process=this_process(), blocking=Counted()), "worker")
    async with beating(presence):
        asked.clear()
        await until(lambda: registered(layout).beat >= 5)
        assert len(asked) <= registered(layout).beat


async def test_a_registration_survives_a_power_cut_and_a_heartbeat_need_not(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock whose coordinator is not registered any more was believed by nobody, and they waited for ever."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    presence = make_presence(layout)
    await presence.register()
    assert synced
    synced.clear()
    await presence.beat()
    assert not synced


async def test_the_id_of_a_recycled_process_number_is_taken_over(layout: Layout) -> None:
    hold(layout, host=host_identity(), pid=os.getpid(), process_started_at=1.0)
    await make_presence(layout).register()
    assert registered(layout).process_started_at != 1.0


async def test_the_id_of_a_node_that_left_is_free(layout: Layout) -> None:
    async with make_presence(layout).held():
        assert registered(layout).status == STARTING
    assert registered(layout).status == STOPPED
    async with make_presence(layout).held():
        assert registered(layout).status == STARTING


async def test_a_node_that_is_killed_writes_nothing_more(layout: Layout) -> None:
    with anyio.CancelScope() as life:
        async with make_presence(layout).held():
            before = layout.peer_file("alice").read_bytes()
            life.cancel()
            await anyio.sleep_forever()
    assert layout.peer_file("alice").read_bytes() == before


def register_beside(layout: Layout, beats: Iterable[int], stands_still_at: int | None = None) -> Awaitable[None]:
    """Register as alice, whose id a process on another host has, with these beats at one look after the other.

    Args:
        stands_still_at: alice's process gets no time for long before it sees this beat.
    """
    looks, now = iter([*beats]), [0.0]

    def show(beat: int) -> PeerFile:
        return hold(layout, host="elsewhere/boot/pid", pid=1, beat=beat)

    async def sleep(seconds: float) -> None:
        beat = next(looks, None)
        now[0] += 100 * seconds if beat == stands_still_at is not None else seconds
        if beat is not None:
            show(beat)

    show(next(looks))
    return make_presence(layout, sleep=sleep, monotonic=lambda: now[0]).register()


@pytest.mark.parametrize(("after", "taken"), [((3, 3, 3, 3), False), ((3, 4, 5), True)])
async def test_beats_from_before_a_time_without_processor_time_do_not_keep_an_id(
    layout: Layout, after: tuple[int, ...], taken: bool
) -> None:
    """Who beat meanwhile may be gone by now: it has to be seen to beat again."""
    with pytest.raises(DuplicateNodeError) if taken else nullcontext():
        await register_beside(layout, (1, 2, *after), stands_still_at=after[0])
    assert registered(layout).host == ("elsewhere/boot/pid" if taken else host_identity())


@pytest.mark.parametrize(
    ("beats", "taken"),
    [
        *((late, True) for late in ((1, 2, 3), (1, 1, 2, 2, 3), (1, 1, 1, 2, 2, 2, 3))),
        *((claim, False) for claim in ((1, 1, 1, 1), (7, 8, 8, 8, 8, 8, 8), (9, 1, 9, 1, 9, 1))),
    ],
)
async def test_a_heart_that_beats_on_another_host_keeps_the_id_be_it_late_and_a_claim_put_there_once_or_twice_does_not(
    layout: Layout, beats: tuple[int, ...], taken: bool
) -> None:
    refused = pytest.raises(DuplicateNodeError, match="process 1 on elsewhere") if taken else nullcontext()
    with refused:
        await register_beside(layout, beats)
    assert registered(layout).host == ("elsewhere/boot/pid" if taken else host_identity())


async def test_the_late_heartbeat_of_a_process_that_is_dead_by_now_ends_nobody(layout: Layout) -> None:
    with start_child() as child:
        started = process_started_at(child.pid)
        child.kill()
    async with beating(make_presence(layout)):
        hold(layout, host=host_identity(), pid=child.pid, process_started_at=started, registered_at=1.0)
        await until(lambda: registered(layout).pid == os.getpid())


async def test_of_two_processes_that_slipped_in_at_once_the_later_gives_way(layout: Layout) -> None:
    first, second = make_presence(layout, registered_at=1.0), make_presence(layout, registered_at=2.0)
    async with beating(first):
        layout.peer_file("alice").unlink()  # as if both had looked before either had written
        with anyio.fail_after(PATIENCE), pytest.raises(DuplicateNodeError, match="registered first"):
            async with second.held():
                await second.keep_beating()
    peer = registered(layout)
    assert (peer.registered_at, peer.status) == (1.0, STARTING), "the file speaks for the one that stays"


FOREIGN: dict[str, Any] = {"host": "elsewhere/boot/pid", "pid": 1, "registered_at": 0.0, "incarnation": "00"}


CLAIMS = {
    "one that does not beat, written often": [make_peer("alice", beat=7, last_seen=2e9, **FOREIGN)] * 10,
    "lives that come one after the other": [make_peer("alice", **FOREIGN | {"incarnation": f"{n}"}) for n in range(10)],
    "recorded beats of a life before": [make_peer("alice", beat=beat, **FOREIGN) for beat in range(10)],
}
"""A signature proves who wrote the last ones, not when."""


@pytest.mark.parametrize("kind", CLAIMS)
async def test_a_claim_that_does_not_beat_beside_it_ends_nobody_however_old_it_is(layout: Layout, kind: str) -> None:
    if known := "recorded" in kind:
        hold(layout, beat=3, **FOREIGN)
    presence = make_presence(layout)
    with capture_logs() as logs:
        async with beating(presence):
            for claim in CLAIMS[kind]:
                put(layout.peer_file("alice"), encode(claim))
                await until(lambda: registered(layout).incarnation == presence.claim[1])
    assert registered(layout).registered_at == 1000.0
    assert known or [log["event"] for log in logs][:1] == ["node_id.contested"]


@pytest.mark.parametrize("beat", [10**6, 2**53 - 1])
async def test_a_beat_that_somebody_wrote_higher_does_not_make_a_node_look_dead(layout: Layout, beat: int) -> None:
    liveness = Liveness(10.0)
    async with beating(make_presence(layout)):
        raised = msgspec.structs.replace(registered(layout), beat=beat)
        put(layout.peer_file("alice"), encode(raised))
        liveness.observe(raised, now=0.0, wall=0.0)
        await until(lambda: (peer := registered(layout)).beat > beat or peer.beat < 10)
    liveness.observe(registered(layout), now=15.0, wall=0.0)
    assert "alice" in liveness.moving(20.0)


@pytest.mark.parametrize(("rounds", "beats"), [(True, 4), (False, 8)], ids=["from round to round", "a long round"])
async def test_where_writes_are_paid_for_a_node_that_goes_from_round_to_round_beats_half_as_often(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, rounds: bool, beats: int
) -> None:
    """In eight heartbeat intervals, which take no time."""
    monkeypatch.setattr(Settings, "sparing", property(lambda _: True))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == 8:
            raise StoreError("over")
        slept.append(seconds)
        presence.round += rounds

    clock = replace(SYSTEM_CLOCK, sleep=sleep, monotonic=lambda: sum(slept))
    presence = Presence(make_context(layout, times=clock, heartbeat_interval=60.0), "worker")
    await presence.register()
    before = registered(layout).beat
    with pytest.raises(StoreError, match="over"):
        await presence.keep_beating()
    assert registered(layout).beat - before == beats


async def test_a_goodbye_that_cannot_be_written_does_not_hide_why_the_node_ended(layout: Layout) -> None:
    with capture_logs() as logs, ExitStack() as trouble, pytest.raises(KeyError):  # noqa: PT012 - its end belongs to it
        async with make_presence(layout).held():
            trouble.enter_context(unwritable("alice"))
            raise KeyError("bug")
    assert [log["event"] for log in logs] == ["heartbeat.failed"]


def test_who_was_killed_before_a_node_looked_does_not_count_as_there_and_who_is_killed_later_does_for_a_while(
    layout: Layout,
) -> None:
    ctx = make_context(layout)
    for node, host in (("bob", ctx.process.host), ("carol", "elsewhere/boot/pid")):
        put(layout.peer_file(node), encode(make_peer(node, host=host, pid=7, status=ACTIVE)))
    seen = PeersSeen(ctx, Liveness(10.0))
    assert [peer.peer_id for peer in seen.read(frozenset()).peers] == ["carol"]
    assert [peer.peer_id for peer in seen.read(frozenset({"bob"})).peers] == ["bob", "carol"]


def beat(layout: Layout, node: str, number: int, **more: str) -> None:
    put(layout.peer_file(node), encode(make_peer(node, beat=number, **{"status": ACTIVE} | more)))


def test_while_a_listing_is_good_those_who_are_waited_for_are_looked_at_and_its_old_versions_show_no_life(
    layout: Layout,
) -> None:
    reader = PeerReader(layout.run, lambda: 0.0, pause=5.0)

    def look(*at_once: str) -> tuple[list[int], list[str], frozenset[str]]:
        seen = reader.read(max_age=9.0, at_once=at_once, alive={"bob", "carol"})
        return [peer.beat for peer in seen.peers], [peer.peer_id for peer in seen.fresh], seen.stirred

    for number, at_once, found in ((1, (), ([1, 1], ["bob", "carol"])), (2, ("bob",), ([2, 1], ["bob"]))):
        beat(layout, "bob", number)
        beat(layout, "carol", number)
        assert look(*at_once) == (*found, frozenset())
    assert look() == ([2, 1], [], frozenset())


def test_of_two_looks_that_overlap_the_one_that_read_nothing_new_hides_nobody(layout: Layout) -> None:
    """Peers that had become active lived only from their next heartbeat on, and the rounds until then heard nobody."""
    seen = PeersSeen(make_context(layout), Liveness(10.0))
    for number, status in enumerate((STARTING, ACTIVE)):
        beat(layout, "bob", number, status=status)
        first = seen.read(frozenset())
        second = seen.read(frozenset())
        seen.note(first)
        seen.note(second)
    assert seen.workers() == {"bob"}


def test_a_registration_that_was_read_by_itself_is_read_again_once_it_is_another_one(
    layout: Layout, gets: list[str]
) -> None:
    reader = PeerReader(layout.run)
    for number in (1, 2):
        beat(layout, "clock", number, node_role="coordinator")
        assert there(reader.read_one("clock")).beat == number
        assert [peer.beat for peer in reader.read().peers] == [number]
    assert len(gets) == 2
    assert reader.read_one("nobody") is None


@pytest.mark.parametrize(
    ("more", "at_once", "alive", "is_read"),
    [
        ({}, set(), {"bob"}, False),
        ({}, {"bob"}, {"bob"}, True),
        ({}, set(), set(), True),
        ({"node_role": "coordinator"}, set(), {"bob"}, True),
        ({"status": STARTING}, set(), {"bob"}, True),
    ],
    ids=["a worker at work", "one that is waited for", "one that seems dead", "a coordinator", "one that is loading"],
)
def test_a_registration_that_beats_is_read_again_at_once_or_after_a_pause(
    layout: Layout, more: dict[str, str], at_once: set[str], alive: set[str], is_read: bool
) -> None:
    """A thousand of them were read whenever they changed, whoever was waited for."""
    now, pause = [0.0], 5.0
    reader = PeerReader(layout.run, lambda: now[0], pause=pause)

    def beat_seen(number: int) -> int:
        beat(layout, "bob", number, **more)
        (seen,), _, stirred = reader.read(at_once=at_once, alive=alive)
        assert stirred == (frozenset() if seen.beat == number else {"bob"})
        return seen.beat

    assert [beat_seen(number) for number in (1, 2)] == [1, 2], "so that it is seen to move"
    now[0] += pause - 1.0
    assert beat_seen(3) == (3 if is_read else 2)
    assert not reader.read(at_once=at_once, alive=alive).stirred, "it was told of already"
    now[0] += 1.0
    assert beat_seen(4) == 4


# ── what beats, and what merely lies there ────────────────────────────────────────────────────────────────────────────
def test_what_is_remembered_is_bounded() -> None:
    hearts = Heartbeats()
    for number in range(MOST_WATCHED + 50):
        hearts.observe(make_peer(f"node-{number}"))
    assert len(hearts._watched) == MOST_WATCHED
