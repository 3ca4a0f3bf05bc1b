"""One experiment in a shared place: its name, its store, and what this process does about signatures."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.store.base import Blob, Store
from swarm.wire.trust import TRUSTING, Trust


@dataclass(frozen=True)
class Run:
    """Holds what everybody needs who works with an experiment."""

    experiment: str
    store: Store
    trust: Trust = TRUSTING
    archive: Store | None = None
    """What was cleaned away; None: this place keeps none."""

    def put_sealed(self, key: str, data: bytes, durable: bool = True) -> None:
        """Write a file, signed where this process signs. Raises as Store.put does."""
        self.store.put(key, self.trust.seal(data, key), durable=durable)

    def get_checked(self, key: str, limit: int) -> Blob:
        """Read a file of at most `limit` bytes that its owner may have to have signed.

        Raises:
            FileNotFoundError: it is not there.
            ProtocolError: as Store.get and Trust.check do.
        """
        blob = self.store.get(key, limit)
        self.trust.check(blob.data, key)
        return blob

    @property
    def place(self) -> str:
        """Returns the shared place, as people find it; for messages alone."""
        return self.store.describe().removesuffix(f"/experiments/{self.experiment}")
