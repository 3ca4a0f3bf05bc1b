"""What a signature holds fast, and what it leaves readable."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ProtocolError
from swarm.signing.keys import public_text
from swarm.signing.signatures import SignedPlace, seal, signature_of, verify
from swarm.wire.codec import encode
from swarm.wire.messages import RewardFile

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
ID, OTHER = "0123456789abcdef" * 2, "f" * 32
PLACE = SignedPlace("exp", "rewards/round_0/stage_0/alice.json", ID)
NOT_BEGUN = PLACE._replace(id=None)
REWARD = RewardFile(round=0, stage=0, reward=0.5, peer_id="alice", submitted_at=1.0)

json_objects = st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text()), min_size=1)


def as_file(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def reason_of(data: bytes, place: SignedPlace = PLACE) -> str | None:
    """Why a file is refused; `unsigned` where there is no signature, None where all is well."""
    try:
        signature = signature_of(data)
        if signature is None:
            return "unsigned"
        verify(signature, place)
    except ProtocolError as error:
        return error.reason
    return None


@given(json_objects)
def test_a_sealed_file_holds_what_it_held_and_names_its_author(value: dict[str, object]) -> None:
    sealed = seal(as_file(value), PLACE, KEY)
    read = json.loads(sealed)
    read.pop("signature")
    assert read == {k: v for k, v in value.items() if k != "signature"}
    signature = signature_of(sealed)
    assert signature is not None
    assert signature.public_key == public_text(KEY)
    verify(signature, PLACE)


def test_a_signature_has_one_spelling_in_base64() -> None:
    """Else a stranger could make another file of a signed one that is still signed, and its author look two-faced."""
    sealed = seal(encode(REWARD), PLACE, KEY)
    last = sealed.removesuffix(b'=="}\n')[-1:]
    others = [sealed.removesuffix(last + b'=="}\n') + bytes([c]) + b'=="}\n' for c in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    assert {reason_of(other) for other in others if other != sealed} == {"bad_signature"}


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_can_be_changed(position: int, change: int) -> None:
    sealed = bytearray(seal(encode(REWARD), PLACE, KEY))
    sealed[position % len(sealed)] ^= change
    assert reason_of(bytes(sealed)) in {"bad_signature", "unsigned"}


def test_a_file_that_was_moved_is_not_valid_and_one_of_a_copy_of_the_experiment_is() -> None:
    for place in (PLACE, NOT_BEGUN):
        sealed = seal(encode(REWARD), place, KEY)
        assert reason_of(sealed, place) is None
        assert reason_of(sealed, place._replace(key=place.key.replace("round_0", "round_1"))) == "bad_signature"
        held = None if place is PLACE else "bad_signature"  # the id counts, and without one the name
        assert reason_of(sealed, place._replace(experiment="a copy")) == held
    assert reason_of(seal(encode(REWARD), PLACE, KEY), PLACE._replace(id=OTHER)) == "bad_signature"


def test_a_signature_from_before_the_experiment_was_begun_does_not_hold_in_it_and_the_other_way_round() -> None:
    assert reason_of(seal(encode(REWARD), NOT_BEGUN, KEY), PLACE) == "bad_signature"
    assert reason_of(seal(encode(REWARD), PLACE, KEY), NOT_BEGUN) == "bad_signature"
    named_like_the_id = NOT_BEGUN._replace(experiment=ID)
    assert reason_of(seal(encode(REWARD), named_like_the_id, KEY), PLACE) == "bad_signature"


@pytest.mark.parametrize(
    "value", [b"", b".", b"a.b", b"%%%.%%%", b"AAAA.AAAA", b"=.=", b"A" * 43 + b"=." + b"A" * 87 + b"="]
)
def test_what_looks_like_a_signature_and_is_none_is_refused(value: bytes) -> None:
    data = encode(REWARD).removesuffix(b"}\n") + b',"signature":"' + value + b'"}\n'
    assert reason_of(data) == "bad_signature"


def test_a_signature_inside_a_text_is_no_signature() -> None:
    assert reason_of(as_file({"response": ',"signature":"x.y"}'})) == "unsigned"
    assert reason_of(as_file({"response": "x"})) == "unsigned"
    assert reason_of(b"") == "unsigned"
    with pytest.raises(ValueError, match="JSON object"):
        seal(b"[]\n", PLACE, KEY)
