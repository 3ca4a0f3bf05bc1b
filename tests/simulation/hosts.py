"""Machines with clocks, disks and power, and the lives of the process that runs on each.

start ─▶ live: a task with a context, clock, store handle and executor of its own ─▶ end, by itself
           └─ kill, power cut, or one of them in the middle of a write ─▶ fenced; what is durable is left ─▶ start
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

import anyio
import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from swarm.config import Settings
from swarm.errors import StoreError, SwarmError
from swarm.node.base.context import Clock, NodeContext, ProcessIdentity, Timed, Timeline, generate_now
from swarm.store.run import Run
from swarm.types import GenerationCall, Generator, Groups
from swarm.wire import keys
from tests.doubles.faulty import Killed, Step
from tests.simulation.faults import DRIFT
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import ARCHIVE, EXPERIMENT
from tests.simulation.virtual_time import LIFE, Life
from tests.simulation.watched_store import Below, WatchedStore

if TYPE_CHECKING:
    from tests.simulation.world import World

P = ParamSpec("P")
Result = TypeVar("Result")

UNIX_TIME = 1.8e9
"""Wall time at the beginning, where the clock is right."""


FULL_DISK_TAKES = 0.2
"""Share of writes that a full disk takes all the same, for others free some space now and then."""


class Strike(NamedTuple):
    """What is to happen in the middle of a write."""

    after_steps: int
    kind: str
    """`kill`, `power_cut` or `pause`."""
    seconds: float
    """Until it is started again, or goes on."""


class Host:
    """Of one process, over all its lives."""

    def __init__(self, world: World, name: str) -> None:
        rng, faults = world.rng, world.faults
        self.world = world
        self.name = name
        self.lives = 0
        self.running = False
        self.life = Life()
        self.handle: WatchedStore
        self.started_at = 0.0
        self.disturbed_at = 0.0
        """Until when something befell it: a start, a pause, a partition, no disk."""
        self.paused_until = 0.0
        self.paused_for = 0.0
        """Seconds of its last pause."""
        self.disk_down_until = 0.0
        self.gone_until = 0.0
        self.refused_at = float("-inf")
        """When a read or write of it was last refused."""
        self.strike: Strike | None = None
        self.pause_after_call = 0.0
        self.failures_of_call: list[StoreError] = []
        """Of the blocking call in hand: of its writes that are carried out when the process goes on."""
        self.slowness = 1.0
        self.delay = rng.uniform(0.05, 0.5)
        """Seconds until others' files usually come through to it."""
        self._rate = 1 + rng.uniform(-DRIFT, DRIFT) * world.happens("drifting_clocks", faults.drifting_clocks)
        self._offset = rng.uniform(0, 1e5)
        self.refused: set[tuple[object, object, object]] = set()
        """Peer, round and stage of files of which it has refused groups."""
        self._skew = rng.uniform(-86400, 86400) * world.happens("skewed_clocks", faults.skewed_clocks)
        self._work = 0.0

    # ── what its node is given ──────────────────────────────────────────────────────────────────────────────────────
    def settings(self) -> Settings:
        raise NotImplementedError

    async def live(self, ctx: NodeContext) -> int:
        """Run the node; its exit code."""
        raise NotImplementedError

    def _context(self) -> NodeContext:
        identity = ProcessIdentity(
            host=f"host of {self.name}",
            pid=self.lives,
            started_at=float(self.lives),
            incarnation=f"{self.world.rng.getrandbits(64):016x}",
            secret=self.world.rng.randbytes(16),
            is_running=lambda pid, started_at: self.running and pid == self.lives,
        )
        run = Run(EXPERIMENT, self.handle, archive=Below(self.handle, ARCHIVE))  # type: ignore[arg-type]
        return NodeContext(
            settings=self.settings(),
            node_id=self.name,
            run=run,
            clock=self.clock(),
            blocking=InlineBlocking(self),
            process=identity,
        )

    def monotonic(self) -> float:
        return self._offset + self.world.now * self._rate

    def wall(self) -> float:
        return UNIX_TIME + self.world.now + self._skew

    def clock(self) -> Clock:
        return Clock(
            monotonic=self.monotonic,
            wall=self.wall,
            sleep=lambda seconds: anyio.sleep(seconds / self._rate),
            move_on_after=lambda delay: anyio.move_on_after(None if delay is None else delay / self._rate),
        )

    def works(self, least: float, most: float) -> None:
        """The step in hand takes so long on a usual machine."""
        self._work += self.world.rng.uniform(least, most) * self.slowness

    def take_work(self) -> float:
        work, self._work = self._work, 0.0
        return work

    # ── life and death ──────────────────────────────────────────────────────────────────────────────────────────────
    def start(self) -> None:
        """Begin a new life, unless it is in one."""
        if self.running:
            return
        self.lives += 1
        self.running = True
        self.paused_until = self.pause_after_call = self._work = 0.0
        self.started_at = self.world.now
        self.disturbed(self.world.now)
        self.life = life = Life()
        self.handle = WatchedStore(self)
        self.world.note(self.name, "starts", self.lives)
        context = copy_context()
        context.run(LIFE.set, life)
        context.run(HOST.set, self)
        context.run(self.world.loop.create_task, self._live_out(life))

    async def _live_out(self, life: Life) -> None:
        try:
            code = await self.live(self._context())
        except Exception as error:  # noqa: BLE001 - whatever ends a node ends up here
            self._ended(life, -1, _known(error))
        except Killed as killed:
            self.world.fail(self.world.laws.broken(f"its store was used outside of Blocking ({killed})", self.name))
        else:
            self._ended(life, code, None)

    def _ended(self, life: Life, code: int, error: Exception | None) -> None:
        if self.world.over:
            return
        life.end()
        self.running = False
        self.handle.fenced = True
        self.world.note(self.name, "ends", error or code)
        with suppress(BrokenLawError):
            self.world.ended(self, code, error)

    def die(self, *, power_cut: bool, back_in: float | None) -> None:
        """End this life at once.

        Args:
            power_cut: the host dies: what it had not made durable may be gone.
            back_in: seconds until it is started again; None: never.
        """
        self.life.end()
        self.handle.fenced = True
        self.running = False
        if power_cut:
            for version in self.world.place.cut_power(self.name, self.world.memory.open(self.name)):
                self.world.note(self.name, "loses", version.key)
        self.world.laws.nothing_acknowledged_is_lost(self.name)
        if back_in is not None:
            self.world.after(back_in, self.start)

    def pause(self, seconds: float) -> None:
        """Stand still, as after SIGSTOP or while a machine is suspended."""
        life, until = self.life, self.world.now + seconds
        self.paused_for = seconds
        self.paused_until = max(self.paused_until, until)
        self.disturbed(self.paused_until)
        life.paused = True
        self.world.after(seconds, self._go_on, life)

    def _go_on(self, life: Life) -> None:
        if life is self.life and self.world.now >= self.paused_until and not life.ended:
            self.world.loop.go_on(life)

    def disturbed(self, until: float) -> None:
        self.disturbed_at = max(self.disturbed_at, until)

    def says(self, name: str, event: dict[str, object]) -> None:
        """A log line, in the file that readers know nodes' lives by; a disk that refuses costs the line alone."""
        if name == "rollouts.refused":
            self.refused.add((event.get("peer"), event.get("round"), event.get("stage")))
        if self.disk_works:
            line = msgspec.json.encode({"timestamp": self.wall(), "event": name, **event}, enc_hook=str)
            self.world.memory.open(self.name).append_records(keys.events(self.name), [line], durable=False)

    # ── disk ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def fill_disk(self, seconds: float) -> None:
        self.disk_down_until = max(self.disk_down_until, self.world.now + seconds)
        self.disturbed(self.disk_down_until)

    def lose_mount(self, seconds: float) -> None:
        self.gone_until = max(self.gone_until, self.world.now + seconds)
        self.disturbed(self.gone_until)

    @property
    def disk_works(self) -> bool:
        return self.world.now >= max(self.disk_down_until, self.gone_until)

    def reads(self, key: str) -> None:
        """As Faults.reads, for this host."""
        if self.world.now < self.gone_until:
            self.refused_at = self.world.now
            raise StoreError(f"cannot read {key}: Stale file handle")

    def step(self, key: str, step: Step) -> None:
        """As Faults.step, for this host."""
        world = self.world
        takes_one = world.now >= self.gone_until and world.rng.random() < FULL_DISK_TAKES
        if step is Step.DRAFT and not self.disk_works and not takes_one:
            self.refused_at = world.now
            raise StoreError(f"cannot write {key}: No space left on device")
        if self.strike and self.strike.kind != "pause" and self.strikes():
            raise Killed(self.name)
        if step is Step.VISIBLE and world.happens("lost_answers", world.faults.lost_answers):
            self.refused_at = world.now
            raise StoreError(f"cannot write {key}: Connection timed out")

    def strikes(self) -> bool:
        """Whether the mishap that was planned for this host happens at this step."""
        assert self.strike
        if self.strike.after_steps:
            self.strike = self.strike._replace(after_steps=self.strike.after_steps - 1)
            return False
        self.world.injected[f"in_writing:{self.strike.kind}"] += 1
        self.world.note(self.name, self.strike.kind, "in the middle of a write")
        return True

    async def struck(self) -> None:
        """It was killed in the middle of a write: does not return, for nothing of a life goes on after its end."""
        self.die_of_strike()
        await asyncio.Event().wait()

    def die_of_strike(self) -> None:
        """It is killed in the middle of a write."""
        assert self.strike
        kind, back_in, self.strike = self.strike.kind, self.strike.seconds, None
        self.die(power_cut=kind == "power_cut", back_in=back_in)

    def land_later(self, write: Callable[[], None]) -> None:
        """The process is stopped in the middle of a write, which is carried out when it goes on."""
        assert self.strike
        seconds, self.strike = self.strike.seconds, None
        self.pause_after_call = seconds
        self.disturbed(self.world.now + seconds)
        life, failures = self.life, self.failures_of_call

        def land() -> None:
            if not life.ended:
                try:
                    write()
                except StoreError as error:
                    failures.append(error)
                except Killed:
                    self.die_of_strike()

        self.world.after(max(0.0, seconds - 1e-6), land)  # before it goes on

    def reached_after_death(self) -> None:
        """Its handle was used when it was dead."""
        if not self.world.over and self.strike is None:
            self.world.fail(self.world.laws.broken("a dead node reaches the store", self.name))


HOST: ContextVar[Host | None] = ContextVar("HOST", default=None)


class InlineBlocking:
    """As swarm.node.base.context.Blocking: at once, after some virtual time."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        host = self._host
        failures: list[StoreError] = []
        await checkpoint_if_cancelled()
        try:
            await asyncio.sleep(host.world.rng.uniform(0.0005, 0.01))
        except asyncio.CancelledError:
            await self._unheard(partial(call, *args, **kwargs))
            raise
        host.failures_of_call = failures
        try:
            result = call(*args, **kwargs)
        except Killed:
            await host.struck()
            raise
        finally:
            if host.pause_after_call and not host.life.ended:
                seconds, host.pause_after_call = host.pause_after_call, 0.0
                host.pause(seconds)
                await asyncio.sleep(0)
        for failure in failures:
            raise failure
        return result

    run_or_leave = run

    async def _unheard(self, call: Callable[[], object]) -> None:
        """Whoever asked was cancelled: the call ends by itself, and nobody hears of it."""
        try:
            call()
        except Killed:
            await self._host.struck()
        except Exception:  # noqa: BLE001 - nobody hears of it
            return


class QueuedCompute:
    """As swarm.node.base.context.Compute: one step after the other; the policy says how long each takes."""

    def __init__(self, host: Host) -> None:
        self.busy = Timeline(host.monotonic)
        self._host = host
        self._turn = asyncio.Lock()

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        with anyio.CancelScope(shield=True):
            async with self._turn:
                with self.busy.running():
                    try:
                        return step(*args, **kwargs)
                    except Killed:
                        await self._host.struck()
                        raise
                    finally:
                        await asyncio.sleep(self._host.take_work())

    async def generate(self, generator: Generator, call: GenerationCall, timed: Timed = nullcontext) -> Groups:
        return await self.run(generate_now, generator, call, timed)

    def tell(self, call: Callable[[], None]) -> None:
        call()


def _known(error: BaseException) -> Exception:
    """The first error of ours in a group, or the first of all."""
    if not isinstance(error, BaseExceptionGroup):
        assert isinstance(error, Exception)
        return error
    leaves = [_known(e) for e in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, SwarmError)), leaves[0])
