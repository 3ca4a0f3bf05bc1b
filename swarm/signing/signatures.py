"""Trust with Ed25519: signs own files, checks others against the pinned key of their author.

A signature lies inside a JSON file, so that whoever does not care for it reads the file as before. Pure.

    {"peer_id":"alice", ..., "signature":"<public key>.<signature>"}\n
    └────────── what is signed ──────────┘  both base64; the name of the place is signed as well

The signature is the last field, over the very bytes before it: nothing has to be brought into a canonical form. As the
place (experiment and path) is signed too, a file that is moved to another place, round or experiment is not valid.

    the experiment is there   swarm file 2 · {id}/{key} · body     another run of the same name has another id
    nobody has begun it yet   swarm file 1 · {name}/{key} · body   believed by the own user alone
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Set
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.signing.birth import Birth
from swarm.signing.keys import load_key, public_text
from swarm.signing.known_keys import MOST_PINS, KnownKeys, NoRoomError
from swarm.wire.keys import owner_of

_FIELD = b',"signature":"'
_END = b"}\n"
_NAMED = b"swarm file 1"
_BORN = b"swarm file 2"
_LONGEST = 256
"""Bytes of the field's value; a key and a signature have 44 + 1 + 88."""


class SignedPlace(NamedTuple):
    """Says how signatures name a file; the same wherever the shared place is mounted."""

    experiment: str
    """Its name."""
    key: str
    id: str | None = None
    """The experiment's; None: it is not known yet."""

    def __str__(self) -> str:
        return f"{self.experiment}/{self.key}"

    def message(self, body: bytes) -> bytes:
        """Returns the bytes of a file that are signed, with the name of its place."""
        context, experiment = (_BORN, self.id) if self.id else (_NAMED, self.experiment)
        return b"\0".join((context, f"{experiment}/{self.key}".encode(), body))


class Signature(NamedTuple):
    """Holds what a file says of its author."""

    public_key: str
    """Base64 of the 32 bytes."""
    value: bytes
    signed: bytes
    """The file's bytes before the signature."""


def seal(data: bytes, place: SignedPlace, key: Ed25519PrivateKey) -> bytes:
    """Returns the same JSON object with its signature as the last field.

    Args:
        data: one JSON object with at least one field, ending in `}` and a newline, as swarm.wire.codec.encode
            gives it.
        place: where the file will lie; readers check it for the place where they found it.
    """
    body = data.removesuffix(_END)
    if body == data:
        raise ValueError("expected a JSON object that ends in '}' and a newline")
    public = base64.b64encode(key.public_key().public_bytes_raw())
    value = base64.b64encode(key.sign(place.message(body)))
    return body + _FIELD + public + b"." + value + b'"' + _END


def signature_of(data: bytes) -> Signature | None:
    """Returns what a file says of its author, not yet verified; None if it is not signed.

    Raises:
        ProtocolError: `bad_signature`: it is signed in no way that could be verified.
    """
    body, field, rest = data.rpartition(_FIELD)
    if not field or not rest.endswith(b'"' + _END) or len(rest) > _LONGEST:
        return None
    public, _, value = rest.removesuffix(b'"' + _END).partition(b".")
    try:
        key, raw = _decoded(public), _decoded(value)
    except (binascii.Error, ValueError):
        raise ProtocolError("bad_signature", "expected `<public key>.<signature>` in base64") from None
    if (len(key), len(raw)) != (32, 64):
        raise ProtocolError(
            "bad_signature", f"expected a key of 32 and a signature of 64 bytes, got {len(key)} and {len(raw)}"
        )
    return Signature(base64.b64encode(key).decode(), raw, body)


def verify(signature: Signature, place: SignedPlace) -> None:
    """See that the holder of the key signed this file for this place.

    Raises:
        ProtocolError: `bad_signature`.
    """
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(signature.public_key))
        key.verify(signature.value, place.message(signature.signed))
    except (InvalidSignature, ValueError):
        raise ProtocolError("bad_signature", f"{place} was not signed here by {signature.public_key}") from None


def _decoded(text: bytes) -> bytes:
    """Base64 in its one spelling: its unused bits are 0, or a stranger could change a file that stays signed."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw) != text:
        raise ValueError("not the canonical spelling")
    return raw


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
