"""Trust with Ed25519: signs own files, checks others against the pinned key of their author."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.signing.envelope import seal, signature_of, verify
from swarm.signing.keys import load_key, public_text
from swarm.signing.known_keys import KnownKeys
from swarm.wire.keys import owner_of

logger = get_logger(__name__)


class Signatures:
    """As swarm.wire.trust.Trust."""

    asks = True

    def __init__(
        self,
        key_folder: Path,
        shared_folder: Path | str,
        experiment: str,
        *,
        required: bool,
        expected: Set[str] = frozenset(),
    ) -> None:
        """As make_trust. Raises ConfigError without a usable key."""
        self._key = load_key(key_folder)
        self._own = public_text(self._key)
        self._trusted = expected | {self._own}
        """A stranger who was first under a name does not shut out who has one of these keys."""
        self._known = KnownKeys(key_folder, shared_folder, experiment)
        self._experiment = experiment
        self._required = required

    def seal(self, data: bytes, key: str) -> bytes:
        return seal(data, self._place_of(key), self._key)

    def check(self, data: bytes, key: str) -> None:
        place, author = self._place_of(key), owner_of(key) or key
        signature, held_to = signature_of(data), self._held_to(author)
        if signature is None:
            if held_to is not None or self._required:
                raise ProtocolError("unsigned", f"{place} is not signed, {self._expected(author, held_to)}")
            return
        verify(signature, place)
        if held_to is None or (signature.public_key in self._trusted and held_to not in self._trusted):
            held_to = self._pin(author, signature.public_key, before=held_to)
        if signature.public_key not in (held_to, self._own):  # nobody else has the own one
            raise ProtocolError(
                "other_key",
                f"{place} is signed by {signature.public_key}, {self._expected(author, held_to)}; if {author} has a "
                f"new key, `swarm keys forget {author}`",
            )

    def key_of(self, author: str) -> str | None:
        try:
            return self._held_to(author)
        except ProtocolError:
            return None

    def _held_to(self, author: str) -> str | None:
        try:
            return self._known.of(author)
        except OSError as error:  # not knowing is no reason to believe
            raise ProtocolError("pin_unreadable", f"the key of {author} cannot be looked up: {error}") from None

    def _pin(self, author: str, public_key: str, before: str | None) -> str:
        try:
            if before is not None:
                self._known.forget(author)
            held_to = self._known.pin(author, public_key)
        except OSError as error:
            logger.warning("key.not_remembered", author=author, error=str(error))
            return public_key
        logger.info("key.pinned", author=author, public_key=held_to, **({"before": before} if before else {}))
        return held_to

    @staticmethod
    def _expected(author: str, held_to: str | None) -> str:
        if held_to is None:
            return "expected a signature, for SWARM_SIGNING=require"
        return f"expected {author} to sign with {held_to}"

    def _place_of(self, key: str) -> str:
        """How signatures name a file; the same wherever the shared place is mounted."""
        return f"{self._experiment}/{key}"
