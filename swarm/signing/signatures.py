"""Trust with Ed25519: signs own files, checks others against the pinned key of their author."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from pathlib import Path

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.signing.birth import Birth
from swarm.signing.envelope import SignedPlace, seal, signature_of, verify
from swarm.signing.keys import load_key, public_text
from swarm.signing.known_keys import MOST_PINS, KnownKeys, NoRoomError
from swarm.wire.keys import owner_of

logger = get_logger(__name__)


class Signatures:
    """Signs own files and checks those of others; it implements swarm.wire.trust.Trust."""

    asks = True

    def __init__(
        self,
        key_folder: Path,
        shared_folder: Path | str,
        experiment: str,
        born: Callable[[], str | None],
        wall: Callable[[], float],
        *,
        required: bool,
        expected: Set[str] = frozenset(),
    ) -> None:
        """Loads the key, and learns the experiment's id; arguments as in make_trust. Raises ConfigError without a
        usable key, and ExperimentError."""
        self._key = load_key(key_folder)
        self._own = public_text(self._key)
        self._trusted = expected | {self._own}
        """A stranger who was first under a name does not shut out who has one of these keys."""
        self._known = KnownKeys(key_folder, shared_folder, experiment, wall)
        self._experiment = experiment
        self._birth = Birth(experiment, str(shared_folder), born, self._known, wall)
        self._required = required
        self._told = False
        """That keys cannot be remembered."""
        self._unpinned = 0
        """Authors that are held to a key without a pin."""

    def seal(self, data: bytes, key: str) -> bytes:
        self._birth.look()
        return seal(data, self._place_of(key), self._key)

    def check(self, data: bytes, key: str) -> None:
        self._birth.look_now_and_then()
        place, author = self._place_of(key), owner_of(key) or key
        signature, held_to = signature_of(data), self._held_to(author)
        if signature is None:
            if held_to is not None or self._required:
                raise ProtocolError("unsigned", f"{place} is not signed, {self._expected(author, held_to)}")
            return
        if place.id is None and signature.public_key != self._own:
            raise ProtocolError("not_begun", f"{place} is believed once experiment.json is there")
        verify(signature, place)
        if held_to is None or (signature.public_key in self._trusted and held_to not in self._trusted):
            held_to = self._pin(author, signature.public_key, before=held_to)
        if signature.public_key not in (held_to, self._own):  # nobody else has the own one
            raise ProtocolError(
                "other_key",
                f"{place} is signed by {signature.public_key}, {self._expected(author, held_to)}; if {author} has a "
                f"new key, `swarm keys forget {author}`",
            )
        self._known.heard(author)

    def key_of(self, author: str) -> str | None:
        try:
            return self._held_to(author)
        except ProtocolError:
            return None

    def keep(self, authors: Iterable[str]) -> None:
        for author in authors:
            self._known.keep(author)

    def begin(self, fresh: str, again: Callable[[], bool]) -> str:
        return self._birth.begin(fresh, again)

    def _held_to(self, author: str) -> str | None:
        try:
            return self._known.of(author)
        except OSError as error:  # not knowing is no reason to believe
            raise ProtocolError("pin_unreadable", f"the key of {author} cannot be looked up: {error}") from None

    def _pin(self, author: str, public_key: str, before: str | None) -> str:
        """Returns the key that an author is held to from now on. Raises ProtocolError: it cannot be remembered."""
        try:
            if before is not None:
                self._known.forget(author)
            held_to = self._known.pin(author, public_key)
        except OSError as error:
            self._believe_unpinned(author, public_key, error)
            return public_key
        self._told = False
        logger.info("key.pinned", author=author, public_key=held_to, **({"before": before} if before else {}))
        return held_to

    def _believe_unpinned(self, author: str, public_key: str, error: OSError) -> None:
        """Hold an author to a key for this process's life, where that will do. Raises ProtocolError: it will not."""
        refuses = self._required or isinstance(error, NoRoomError)
        if not self._told:
            self._told = True
            believed = "unknown authors are believed until this process ends"
            refused = "unknown authors are refused, but for those that SWARM_EXPECTED_WORKERS names by key"
            consequence = refused if refuses else believed
            logger.warning("key.not_remembered", author=author, error=str(error), consequence=consequence)
        if public_key not in self._trusted and (refuses or self._unpinned >= MOST_PINS):
            raise ProtocolError("not_pinned", f"the key of {author} cannot be remembered: {error}")
        self._unpinned += 1
        self._known.hold(author, public_key)

    @staticmethod
    def _expected(author: str, held_to: str | None) -> str:
        if held_to is None:
            return "expected a signature, for SWARM_SIGNING=require"
        return f"expected {author} to sign with {held_to}"

    def _place_of(self, key: str) -> SignedPlace:
        return SignedPlace(self._experiment, key, self._birth.id)
