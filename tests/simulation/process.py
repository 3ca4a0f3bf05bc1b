"""One process on a host of its own: its clocks, its pauses, its deaths, and how it writes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tests.simulation.network import Horizon

if TYPE_CHECKING:
    from tests.simulation.world import World

UNIX_TIME = 1.8e9
"""Wall time at the beginning, where the clock is right."""
Write = Generator[None, None, bool]
"""Steps of a write, each after a `yield`; returns whether all went well."""


class Losable(Protocol):
    gone: bool


Item = TypeVar("Item", bound=Losable)


class Mishap(NamedTuple):
    """What is to happen in the middle of a write."""

    after_steps: int
    kind: str
    """`kill`, `power_cut` or `pause`."""
    seconds: float
    """Until it is started again, or goes on."""


class Process:
    """What is scheduled for one life of it never reaches the next."""

    def __init__(self, world: World, name: str) -> None:
        rng, faults = world.rng, world.faults
        self.world = world
        self.name = name
        self.life = 0
        self.running = False
        self.started_at = 0.0
        self.disturbed_at = 0.0
        """When it was last started, paused, cut off or without a disk."""
        self.paused_until = 0.0
        self.disk_down_until = 0.0
        self.mishap: Mishap | None = None
        self.delay = rng.uniform(0.05, 0.5)
        """Seconds until others' files usually come through to it."""
        self.clock_rate = 1 + rng.uniform(-0.01, 0.01) * world.happens("drifting_clocks", faults.drifting_clocks)
        self.clock_offset = rng.uniform(0, 1e5)
        self.skew = rng.uniform(-86400, 86400) * world.happens("skewed_clocks", faults.skewed_clocks)
        self._unsynced: list[Losable] = []

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def monotonic(self) -> float:
        return self.clock_offset + self.world.now * self.clock_rate

    @property
    def wall(self) -> float:
        return UNIX_TIME + self.world.now + self.skew

    def until(self, monotonic: float) -> float:
        """Seconds of the world until this process's clock shows a time."""
        return max(0.0, (monotonic - self.monotonic) / self.clock_rate)

    def later(self, delay: float, deed: Callable[..., None], *arguments: object) -> None:
        self.world.after(delay, self._deliver, self.life, deed, arguments)

    def _deliver(self, life: int, deed: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if life != self.life:
            return
        if self.paused_until > self.world.now:
            self.world.after(self.paused_until - self.world.now, self._deliver, life, deed, arguments)
            return
        deed(*arguments)

    @property
    def horizon(self) -> Horizon:
        return self.world.network.horizon(self.name, self.world.now, self.delay)

    # ── life and death ──────────────────────────────────────────────────────────────────────────────────────────────
    def start(self) -> None:
        """Begin a new life, unless it is in one."""
        if self.running:
            return
        self.life += 1
        self.running = True
        self.paused_until = 0.0
        self.started_at = self.world.now
        self.disturbed_at = max(self.disturbed_at, self.world.now)
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def die(self, *, power_cut: bool, back_in: float | None) -> None:
        """End this life at once.

        Args:
            power_cut: the host dies: what it had not synced may be gone.
            back_in: seconds until it is started again; None: never.
        """
        self.life += 1
        self.running = False
        if power_cut:
            for item in self._unsynced:
                if self.world.rng.random() < 0.5:
                    item.gone = True
                    self.world.note(self.name, "lost", item)
            self._unsynced.clear()
            self.world.laws.nothing_acknowledged_is_lost(self.name)
        if back_in is not None:
            self.world.after(back_in, self.start)

    def end(self) -> None:
        """It has done all that it had to do."""
        self.life += 1
        self.running = False

    def pause(self, seconds: float) -> None:
        self.paused_until = self.world.now + seconds
        self.disturbed_at = max(self.disturbed_at, self.paused_until)

    def fill_disk(self, seconds: float) -> None:
        self.disk_down_until = self.world.now + seconds
        self.disturbed_at = max(self.disturbed_at, self.disk_down_until)

    @property
    def disk_works(self) -> bool:
        return self.world.now >= self.disk_down_until

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def carry_out(self, write: Write, then: Callable[[bool], None]) -> None:
        """Write, step by step: between any two of them this process may die, or be paused and go on later."""
        while True:
            if self.mishap and self._struck(self.mishap):
                if self.running:
                    self.later(0.0, self.carry_out, write, then)
                return None
            try:
                next(write)
            except StopIteration as end:
                return then(end.value)

    def _struck(self, mishap: Mishap) -> bool:
        if mishap.after_steps:
            self.mishap = mishap._replace(after_steps=mishap.after_steps - 1)
            return False
        self.mishap = None
        self.world.injected["in_writing:" + mishap.kind] += 1
        self.world.note(self.name, mishap.kind, "in the middle of a write")
        if mishap.kind == "pause":
            self.pause(mishap.seconds)
        else:
            self.die(power_cut=mishap.kind == "power_cut", back_in=mishap.seconds)
        return True

    def publish(self, put: Callable[[], Item]) -> Write:
        """As swarm.store.folder.publish does; `put` is the rename."""
        item: Item | None = None
        content_synced = False
        for step in self.world.write_steps.publish:
            yield
            if step == "sync_folder":
                if item is not None and content_synced:
                    self._unsynced.remove(item)
            elif not self.disk_works:
                return False
            elif step == "sync":
                content_synced = item is None
            elif step == "rename":
                item = put()
                self._unsynced.append(item)
        return True

    def append(self, put: Callable[[], Item]) -> Write:
        """As swarm.logs.append_json_line does."""
        item: Item | None = None
        for step in self.world.write_steps.append:
            yield
            if not self.disk_works and item is None:
                return False  # what half of the line there may be is no line
            if step == "write":
                item = put()
                self._unsynced.append(item)
            elif step == "sync" and item is not None:
                self._unsynced.remove(item)
        return True

    def sync_all(self) -> None:
        """What an earlier process left unsynced, before anything is built on it."""
        self._unsynced.clear()
