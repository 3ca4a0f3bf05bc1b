"""A signature inside a JSON file, so that whoever does not care for it reads the file as before. Pure.

    {"peer_id":"alice", ..., "signature":"<public key>.<signature>"}\\n
    └────────── what is signed ──────────┘  both base64; the name of the place is signed as well

The signature is the last field, over the very bytes before it: nothing has to be brought into a canonical form. As the
place (experiment and path) is signed too, a file that is moved to another place, round or experiment is not valid.

    the experiment has an id   swarm file 2 · {id}/{key} · body     another run of the same name has another id
    it has none                swarm file 1 · {name}/{key} · body   as every earlier version signs
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from swarm.errors import ProtocolError

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
    """The experiment's; empty: it has none, None: it is not known yet."""

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
        where = f"{place} of the experiment {place.id}" if place.id else f"{place}"
        raise ProtocolError("bad_signature", f"{where} was not signed here by {signature.public_key}") from None


def _decoded(text: bytes) -> bytes:
    """Base64 in its one spelling: its unused bits are 0, or a stranger could change a file that stays signed."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw) != text:
        raise ValueError("not the canonical spelling")
    return raw
