"""Remembers which mixture of tasks each peer asks: the one that this node saw first of it holds for the run.

    registration ─▶ first seen ◀─ rollout file
                        │
                        ▼ another one: the file is refused (`other_mixture`)

Who could change its mixture from round to round could choose, of each slot, among as many questions as the run has
tasks. A file says its mixture itself, so that it is understood alone, by a reader that came later or redoes a round.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from swarm.errors import ProtocolError
from swarm.tasks.universe import Mixture, Universe, mixture_text

MOST_PEERS = 8192
"""Peers of whom it is known; of more the first are forgotten."""


class Mixtures:
    """Holds the mixture that one node saw first of each peer."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._first: dict[str, Mixture] = {}

    def registered(self, peer: str, said: Mapping[str, float] | UnsetType) -> None:
        """Take note of a registration; of one outside of the universe the peer's files will tell."""
        if peer not in self._first:
            try:
                self._hold(peer, self._universe.mixture_said(said))
            except ProtocolError:
                return

    def of_file(self, peer: str, said: Mapping[str, float] | UnsetType) -> Mixture:
        """Returns the mixture of a peer's file. Raises ProtocolError: `outside_universe`, `other_mixture`."""
        mixture = self._universe.mixture_said(said)
        if peer not in self._first:
            self._hold(peer, mixture)
        if (first := self._first[peer]) != mixture:
            raise ProtocolError(
                "other_mixture",
                f"{peer} asks {mixture_text(mixture):.200}, after {mixture_text(first):.200}: a mixture is fixed for "
                "the run",
            )
        return mixture

    def known(self, peer: str) -> Mixture:
        """Returns the mixture that a peer asks, as far as it is known, else everybody's."""
        return self._first.get(peer, self._universe.mixture)

    def _hold(self, peer: str, mixture: Mixture) -> None:
        self._first[peer] = mixture
        if len(self._first) > MOST_PEERS:
            del self._first[next(iter(self._first))]
