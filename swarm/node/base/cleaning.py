"""Has old rounds cleaned up while a node works: by turns, so that a round costs a swarm one look, and no more.

    round done ─▶ my turn? ─▶ what do workers say that they need? ─▶ first_kept ─▶ Janitor, beside the rounds
                  the live workers by name, one each round
    last round done and saved ─▶ once more, whoever's turn it is

What fails is said once, and done by a later turn. Nobody waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Set
from contextlib import suppress

import anyio

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.looking import LogOnce
from swarm.records.files import read_needs
from swarm.records.janitor import Cleaned, Janitor, Rules
from swarm.records.retention import Lived, WorkerNeed, first_kept, held_in_place, keeping, more_than_asked, needed_from

logger = get_logger(__name__)


def is_turn(node: str, live: Set[str], round_: int) -> bool:
    """Tells whether a node is the one of those alive that cleans up after a round. Two with other views may both be, or
    none; neither matters."""
    by_name = sorted({*live, node})
    return by_name[round_ % len(by_name)] == node


class Cleaning:
    """Has old rounds of one node's run cleaned up, by turns with the other workers, for the node's life."""

    def __init__(self, ctx: NodeContext) -> None:
        settings = ctx.settings
        self._ctx = ctx
        self._keeping = keeping(settings)
        self._lived: deque[Lived] = deque(maxlen=self._keeping.reach)
        rules = Rules(settings.archive_old, settings.limits.max_peers, settings.limits.pool_bytes)
        self._janitor = Janitor(ctx.run, ctx.node_id, rules, ctx.clock.wall)
        self._saved: deque[int] = deque(maxlen=settings.checkpoint_keep)
        self._working = anyio.Lock()
        self._failing = LogOnce("cleanup.failed", over="cleanup.healed")
        self._forbidden = LogOnce("cleanup.refused", over="cleanup.allowed")

    def take_up(self, lived: Iterable[Lived], saved: Iterable[int]) -> None:
        """Takes up what lies behind this node, in order: rounds that have rows, and the rounds done at each of its
        checkpoints."""
        self._lived.extend(lived)
        self._saved.extend(saved)
        if more := more_than_asked(self._ctx.settings):
            remedy = {"remedy": more.remedy} if more.remedy else {}
            asked = self._ctx.settings.keep_last_rounds
            logger.warning("cleanup.keeps_more", asked=asked, rounds=more.rounds, why=more.why, **remedy)

    def saved(self, rounds_done: int) -> None:
        """Notes that there is one more checkpoint."""
        self._saved.append(rounds_done)

    def needed_from(self, round_: int) -> int:
        """Returns the first round of whose files this node may still need any, while it works on one."""
        return needed_from(self._saved, round_, self._lived, self._ctx.settings)

    def done(self, done: Lived) -> None:
        """A round, or one more stage of it, is done."""
        if self._lived and self._lived[-1].round == done.round:
            done = Lived(done.round, min(done.oldest, self._lived.pop().oldest))
        self._lived.append(done)

    async def after(self, round_: int, live: Set[str], known: Set[str]) -> None:
        """A round is done, and its row is on disk: clean up, where this is the node's turn.

        Args:
            live: the other workers that are alive.
            known: nodes that have done their part.
        """
        if self._ctx.settings.cleanup and not self._working.locked() and is_turn(self._ctx.node_id, live, round_):
            await self._clean_up(known)

    async def at_the_end(self, tell: Callable[[], Awaitable[None]], known: Set[str]) -> None:
        """This node's last round is done and saved: clean up once more, whoever's turn it is. The last node to end
        finds that nobody needs any other rounds than those that are asked for.

        Args:
            tell: says to the others what this node needs now.
        """
        if not self._ctx.settings.cleanup:
            return
        with suppress(StoreError):  # then the others do not know, and leave more
            await tell()
        while await self._clean_up(known):
            pass

    async def _clean_up(self, known: Set[str]) -> int:
        """One pass; how many old rounds it did not come to."""
        round_ = self._lived[-1].round if self._lived else -1
        own = WorkerNeed(self.needed_from(round_), round_, self._ctx.node_id)
        async with self._working:
            try:
                done = await self._ctx.blocking.run(self._clean, own, known | {self._ctx.node_id})
            except StoreError as error:
                self._failing.found(error)
                return 0
        self._failing.gone()
        return done.left if done.rounds else 0

    def _clean(self, own: WorkerNeed, known: Set[str]) -> Cleaned:
        needs = [own, *read_needs(self._ctx.run, self._ctx.node_id)]
        lived = [one.round for one in self._lived]
        redone = first_kept(lived, [need.files for need in needs], self._keeping)
        before = first_kept(lived, held_in_place(needs, self._ctx.settings), self._keeping)
        if before <= 0:
            return Cleaned()
        done = self._janitor.clean(before, known, redone)
        if done.refused:
            self._forbidden.found(done.refused)
        else:
            self._forbidden.gone()
        if done.rounds or done.files:
            logger.info("cleanup.done", before=before, rounds=done.rounds, archived=done.files, bytes=done.bytes)
        return done
