"""Has old rounds cleaned up while a node works: by turns, so that a round costs a swarm one look, and no more.

    round done ─▶ my turn? ─▶ what do workers say that they need? ─▶ first_kept ─▶ Janitor, beside the rounds
                  the live workers by name, one each round

What fails is said once, and done by a later turn. Nobody waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce
from swarm.records.files import read_needs
from swarm.records.janitor import Janitor, Rules
from swarm.records.retention import first_kept, keeping, needed_from

logger = get_logger(__name__)


def is_turn(node: str, live: Set[str], round_: int) -> bool:
    """Whether a node is the one of those alive that cleans up after a round. Two with other views may both be, or none;
    neither matters."""
    by_name = sorted({*live, node})
    return by_name[round_ % len(by_name)] == node


class Cleaning:
    """Of one node, for its life."""

    def __init__(self, ctx: NodeContext) -> None:
        settings = ctx.settings
        self._ctx = ctx
        self._keeping = keeping(settings)
        self._lived: deque[int] = deque(maxlen=self._keeping.reach)
        rules = Rules(settings.archive_old, settings.max_peers, settings.pool_bytes)
        self._janitor = Janitor(ctx.run, ctx.node_id, rules, ctx.clock.wall)
        self._saved: deque[int] = deque(maxlen=settings.checkpoint_keep)
        self._works = False
        self._failing = LogOnce("cleanup.failed", over="cleanup.healed")
        self._forbidden = LogOnce("cleanup.refused", over="cleanup.allowed")

    def take_up(self, lived: Iterable[int], saved: Iterable[int]) -> None:
        """What this node has behind it: rounds with rows, and rounds behind each of its checkpoints; in order."""
        self._lived.extend(lived)
        self._saved.extend(saved)

    def saved(self, rounds_done: int) -> None:
        """There is one more checkpoint."""
        self._saved.append(rounds_done)

    def needed_from(self, round_: int) -> int:
        """The first round whose rollouts this node may still read, while it works on one."""
        return needed_from(self._saved, round_, self._ctx.settings)

    async def after(self, round_: int, live: Set[str], known: Set[str]) -> None:
        """A round is done: clean up, where this is the node's turn.

        Args:
            live: the other workers that are alive.
            known: nodes that have done their part.
        """
        self._lived.append(round_)
        if not self._ctx.settings.cleanup or self._works or not is_turn(self._ctx.node_id, live, round_):
            return
        self._works = True
        try:
            await self._ctx.blocking.run(self._clean, self.needed_from(round_), known | {self._ctx.node_id})
        except StoreError as error:
            self._failing.found(error)
        else:
            self._failing.gone()
        finally:
            self._works = False

    def _clean(self, own: int, known: Set[str]) -> None:
        needs = [own, *read_needs(self._ctx.run, self._ctx.node_id)]
        before = first_kept(self._lived, needs, self._keeping)
        if before <= 0:
            return
        done = self._janitor.clean(before, known)
        if done.refused:
            self._forbidden.found(done.refused)
        else:
            self._forbidden.gone()
        if done.rounds or done.files:
            logger.info("cleanup.done", before=before, rounds=done.rounds, archived=done.files, bytes=done.bytes)
