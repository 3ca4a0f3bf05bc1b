"""Remembers by which id a node knows its experiment: learnt once, held for the node's life, remembered on its machine.

    nobody has begun it ─────────────▶ unknown: nothing but the own user's signatures is believed
    experiment.json gives an id ─────▶ signed with; the same one STANDS_FOR later ─▶ settled: never read again
                                          └ none, or none that this machine knows ─▶ ExperimentError
    the file is gone, or is none ────▶ the one that this machine knew last

So whoever rewrites experiment.json in mid-run changes nothing for those who run, and a node that starts again notices.
Of two who begin an experiment at once the store lets one win; where it has no sure winner both find at their second
look whose file is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from swarm.errors import ExperimentError
from swarm.logs import get_logger
from swarm.signing.known_keys import KnownKeys

logger = get_logger(__name__)

STANDS_FOR = 1.0
"""Seconds between two looks for the id."""


class Birth:
    """Knows for one node by which id its experiment goes. Callable from any thread."""

    def __init__(
        self, experiment: str, where: str, born: Callable[[], str | None], memory: KnownKeys, wall: Callable[[], float]
    ) -> None:
        """Look for the first time.

        Args:
            where: the place, for messages.
            born: reads the experiment's id, empty where it has none; None: nobody has begun it, or nobody can tell.
            memory: knows by which ids this machine knows the experiment.
            wall: Unix seconds.

        Raises:
            ExperimentError: it is another one than this machine began in, or has no id.
        """
        self._experiment, self._where = experiment, where
        self._born, self._memory, self._wall = born, memory, wall
        self.id: str | None = None
        """Id as it is known now; None: it is not known yet."""
        self._seen_at = math.inf
        """Since when experiment.json has given it."""
        self._looked_at = -math.inf
        self._settled = False
        self.look()

    def look(self) -> None:
        """See what experiment.json says, unless that is settled. Raises ExperimentError as above."""
        if self._settled:
            return
        id_, known, now = self._born(), self._memory.ids(), self._wall()
        self._looked_at = now
        if id_ is None:
            self.id, self._seen_at = known[-1] if known else self.id, math.inf
        elif not id_ or (known and id_ not in known):
            raise ExperimentError(self._another(id_, known))
        elif id_ != self.id or self._seen_at == math.inf:
            self.id, self._seen_at = id_, now
        elif abs(now - self._seen_at) >= STANDS_FOR:
            self._settle(id_, known)

    def look_now_and_then(self) -> None:
        """Looks again, where the last look is a while ago."""
        if not self._settled and abs(self._wall() - self._looked_at) >= STANDS_FOR:
            self.look()

    def begin(self, fresh: str, again: Callable[[], bool]) -> str:
        """Returns the id to begin the experiment with. Implements swarm.wire.trust.Trust."""
        known = self._memory.ids()
        if not known:
            return fresh  # whoever it is that began it: it is remembered when it is settled
        if again():
            return known[-1]
        self._remember(fresh)  # before others of this machine read it
        return fresh

    def _settle(self, id_: str, known: list[str]) -> None:
        self._settled = True
        if known[-1:] != [id_]:
            self._remember(id_)

    def _remember(self, id_: str) -> None:
        try:
            self._memory.add_id(id_)
        except OSError as error:
            logger.warning("experiment.not_remembered", experiment=self._experiment, error=str(error))

    def _another(self, id_: str, known: list[str]) -> str:
        expected = f"the id {known[-1]}" if known else "an id, without which nothing can be signed"
        return (
            f"experiment.json of {self._experiment} in {self._where} is none that this machine began in: expected "
            f"{expected}, got {id_ or 'none'}. Restore the file; or, where somebody has begun the experiment anew, "
            f"`swarm keys forget @experiment --experiment {self._experiment} --path {self._where}`"
        )
