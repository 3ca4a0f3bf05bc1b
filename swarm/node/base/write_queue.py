"""The write queue: what must reach the shared folder, in order and exactly once, however long the folder refuses.

    put ─▶ queue ─▶ deliver, one write at a time ─┬─▶ store
                             ▲                     └ refused: all of it stays, in order ─┐
                             └────── after a pause that grows, and with every new write ┘

While the folder is in order, `put` returns when its write is on disk. While it refuses (full, read-only, gone), `put`
returns at once, and what it was given waits in memory behind what waits there already, so that a round's rollouts come
before its row and its row before its reward, late or not. Two writes are never on their way at once, and one is
repeated only after it failed.

Memory is bounded. What must not be lost (rows, rewards) is kept up to MOST_KEPT bytes; then the node ends, for it would
go on learning what nobody can ever read. What may be lost (rollouts, votes) is kept up to MOST_DROPPABLE bytes; beyond
it the oldest goes and is counted.

A key at which something else stands, such as a folder of that name, is no refusal by the folder: waiting fixes nothing.
What may be lost and the reward that stands behind a row are then left out with an error in the log; a row is not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import anyio
from msgspec.structs import replace

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext, Timeline
from swarm.types import RoundKey
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

MOST_KEPT = 16 * 2**20
"""Bytes of rows and rewards that may wait: those of some 5,000 rounds."""
MOST_DROPPABLE = 64 * 2**20
"""Bytes of rollouts and votes that may wait."""
LONGEST_PUT = 10.0
"""Seconds that a step waits for a write that neither succeeds nor fails; it goes on then, and the write as well."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts: half of the time that the folder has refused for, within these."""
PATIENCE_AT_STOP = 60.0
"""Seconds that a node which ends goes on trying: a minute, which a remount takes."""
PATIENCE_FOR_THE_REST = 5.0
"""The same, of what may be lost, once all that must not be is there."""
LEAST_PATIENCE = 0.1
"""Seconds of it that are always left."""
PAUSE_AT_STOP = 2.0
"""Seconds between attempts then."""


@dataclass(eq=False)
class Write:
    """One thing to be written."""

    what: str
    """`completions`, `rollouts`, `row`, `reward` or `vote`."""
    key: RoundKey
    write: Callable[[], None]
    """Blocking; raises StoreError, and may be called again after that."""
    size: int
    """Bytes."""
    row: MetricsRow | None = None
    """What is written, of a row."""
    tried: anyio.Event = field(default_factory=anyio.Event)
    """Set when it was written, refused or dropped."""
    done: anyio.Event = field(default_factory=anyio.Event)
    """Set when it was written or dropped."""

    @property
    def droppable(self) -> bool:
        """It may be given up for want of memory."""
        return self.what in ("completions", "rollouts", "vote")

    @property
    def needed(self) -> bool:
        """Nothing is true without it: if its path is blocked, the node ends."""
        return self.what == "row"


class WriteQueue:
    """Delivers one node's writes in order; `deliver` runs beside it."""

    def __init__(self, ctx: NodeContext, *, most_kept: int = MOST_KEPT, most_droppable: int = MOST_DROPPABLE) -> None:
        self._ctx = ctx
        self._most_kept = most_kept
        self._most_droppable = most_droppable
        self._queue: deque[Write] = deque()
        self._writing: Write | None = None
        self._new = anyio.Event()
        self._error: StoreError | None = None
        self._failing_since = self._failing_since_wall = 0.0
        self._late: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._unpublished: set[RoundKey] = set()
        self.publishing = Timeline(ctx.clock.monotonic)
        """When rollouts were on their way into the shared place; whoever waits for that counts it in."""
        self._patience: float | None = None
        """Patience of a node that ends: seconds that it waits for what is left."""
        self._ending_since = 0.0
        self._told = False

    # ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def keeps_back(self) -> bool:
        """Something that must not be lost is not on disk yet."""
        return any(not write.droppable for write in self._queue)

    def gave_up_rollouts(self, key: RoundKey) -> bool:
        """Tells whether the rollouts of this round were dropped; no peer will ever see them."""
        return key in self._unpublished

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────────
    def add(self, write: Write) -> None:
        """Write it, in its turn, without waiting for that. Raises as `put` does."""
        self._queue.append(write)
        self._new.set()
        self._stay_within_bounds()

    async def put(self, write: Write) -> None:
        """Write it, in its turn; returns when that is done, or at once while the folder refuses.

        Raises:
            StoreError: more than `most_kept` bytes of rows and rewards wait.
        """
        self.add(write)
        if self._error is None:
            with self._ctx.clock.move_on_after(LONGEST_PUT):
                await write.tried.wait()

    def _stay_within_bounds(self) -> None:
        while self._waiting_bytes(droppable=True) > self._most_droppable:
            oldest = next((p for p in self._queue if p.droppable and p is not self._writing), None)
            if oldest is None:
                break
            self._drop(oldest)
        if (kept := self._waiting_bytes(droppable=False)) > self._most_kept:
            raise StoreError(
                f"{self._summary()} wait to be written, {kept} bytes of rows and rewards, more than "
                f"the {self._most_kept} that a node keeps in memory; fix the folder ({self._error}) and start the "
                f"node anew: it does the rounds without a row again"
            )

    def _waiting_bytes(self, *, droppable: bool) -> int:
        return sum(write.size for write in self._queue if write.droppable is droppable)

    def _drop(self, write: Write) -> None:
        self._queue.remove(write)
        self._dropped[write.what] += 1
        if write.what == "rollouts":
            self._unpublished.add(write.key)
        write.tried.set()
        write.done.set()

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def deliver(self) -> None:
        """Writes what was put, in order, and again what was refused, until cancelled.

        Raises:
            StoreError: the path of something without which nothing is true is blocked.
        """
        while True:
            with self._ctx.clock.move_on_after(self._pause()):
                await self._new.wait()
            self._new = anyio.Event()
            await self._write_all()

    def _pause(self) -> float | None:
        """Returns seconds until the next attempt; None: there is nothing to try."""
        if self._error is None:
            return None
        if self._patience is not None:
            return min(PAUSE_AT_STOP, LONGEST_PAUSE)
        return min(max(SHORTEST_PAUSE, (self._ctx.clock.monotonic() - self._failing_since) / 2), LONGEST_PAUSE)

    async def _write_all(self) -> None:
        while self._queue:
            write = self._writing = self._queue[0]
            publishing = self.publishing.running() if write.what == "rollouts" else nullcontext()
            try:
                with publishing:
                    await self._ctx.blocking.run(write.write)
            except StoreError as error:
                if not error.blocked:
                    self._refused(error)
                    return
                self._blocked(write, error)
            else:
                self._written(write)
            finally:
                self._writing = None
        self._healed()

    def _written(self, write: Write) -> None:
        self._queue.remove(write)
        if self._error:
            self._late[write.what] += 1
        if write.what == "row":
            self._unpublished.discard(write.key)  # the row has said it
        write.tried.set()
        write.done.set()

    def _blocked(self, write: Write, error: StoreError) -> None:
        if write.needed:
            raise error
        logger.error("folder.path_blocked", what=write.what, round=write.key.round, error=str(error))
        self._drop(write)

    def _refused(self, error: StoreError) -> None:
        if self._error is None:
            self._failing_since, self._failing_since_wall = self._ctx.clock.monotonic(), self._ctx.clock.wall()
            logger.warning(
                "folder.unwritable",
                error=str(error),
                since=self._failing_since_wall,
                kept_back=self._waiting(),
                effect="the node goes on alone and publishes later",
            )
        self._error = error
        for write in self._queue:
            write.tried.set()
        if self._patience is not None:
            self._tell_of_patience()

    def _healed(self) -> None:
        if self._error is None:
            return
        logger.info(
            "folder.healed",
            since=self._failing_since_wall,
            seconds=round(self._ctx.clock.monotonic() - self._failing_since, 1),
            published_late=dict(self._late),
            dropped=dict(self._dropped),
        )
        self._error = None
        self._late.clear()
        self._dropped.clear()

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def flush(self, patience: float, *, rows_alone: bool = False) -> None:
        """Waits, as a node ends, until all that must not be lost is on disk, and logs what it waits for.

        Args:
            patience: seconds, since the first call.
            rows_alone: do not wait for what the next start would make up for.

        Raises:
            StoreError: it is not in time; says what is missing.
        """
        now = self._ctx.clock.monotonic()
        if self._patience is None:
            self._ending_since = now
        self._patience = patience
        if self._error is not None:
            self._tell_of_patience()
        with self._ctx.clock.move_on_after(max(self._ending_since + patience - now, LEAST_PATIENCE)):
            while kept := self._kept(rows_alone):
                self._new.set()
                await kept[-1].done.wait()
        if self._kept(rows_alone):
            reason = self._error or "a write that does not come back"
            raise StoreError(
                f"{self._summary()} could not be written before this node ended: {reason}. Fix the "
                f"folder and start the node anew: it does the rounds without a row again"
            )

    def _kept(self, rows_alone: bool) -> list[Write]:
        return [write for write in self._queue if (write.needed if rows_alone else not write.droppable)]

    async def flush_the_rest(self, patience: float) -> None:
        """Wait until everything is on disk, or for `patience` seconds: this may be lost."""
        with self._ctx.clock.move_on_after(patience):
            while self._queue:
                self._new.set()
                await self._queue[-1].done.wait()

    def _tell_of_patience(self) -> None:
        if self._told or not self.keeps_back:
            return
        self._told = True
        logger.warning(
            "node.waits",
            for_what="rows and rewards to be written, then the last checkpoint",
            waiting=self._waiting(),
            at_most=f"{self._patience:g} s",
            error=str(self._error),
            again="Ctrl-C once more ends it at once, and this is lost",
        )

    def report_loss(self) -> None:
        """Say what a node that ends leaves unwritten, whatever it ends of."""
        if self._queue:
            logger.error("folder.not_written", lost=self._waiting(), error=str(self._error or ""))

    def rows(self) -> list[MetricsRow]:
        """Returns the rows that wait, as a node would write them that ends without writing its rollouts."""
        unseen = {write.key for write in self._queue if write.what == "rollouts"} | self._unpublished
        waiting = [write.row for write in self._queue if write.row]
        return [replace(row, bytes_published=0) if row.key in unseen else row for row in waiting]

    def _waiting(self) -> dict[str, int]:
        return dict(Counter(write.what for write in self._queue))

    def _summary(self) -> str:
        rounds = [write.key.round for write in self._queue if not write.droppable]
        things = ", ".join(f"{what} ({count})" for what, count in self._waiting().items())
        return f"{things} of rounds {min(rounds)} to {max(rounds)}"
