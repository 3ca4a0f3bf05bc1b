"""A file whose groups were published one by one gives what one file would give, or is refused."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from swarm.errors import ProtocolError
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PolicyInfo, RolloutFile
from swarm.wire.parts import digest, parts_of, put_together
from tests.unit.wire.forms import ROLLOUTS

KEY = RoundKey(17)


class Place(dict[str, bytes]):
    """Parts by key."""

    def get_bounded(self, key: str, limit: int) -> bytes:
        if key not in self:
            raise FileNotFoundError(key)
        if len(self[key]) > limit:
            raise ProtocolError("oversized", key)
        return self[key]


def in_parts(file: RolloutFile) -> tuple[RolloutFile, Place]:
    """The same groups, each in a part."""
    place, named = Place(), {}
    for slot in file.rollouts:
        alone = {"rollouts": {slot: file.rollouts[slot]}, "groups": {slot: file.groups[slot]}}
        data = encode(msgspec.structs.replace(file, **alone, timestamp=0.0))
        place[keys.part(KEY, file.peer_id, int(slot))], named[slot] = data, digest(data)
    return msgspec.structs.replace(file, rollouts={}, groups={}, parts=named), place


def together(file: RolloutFile, place: Place, *, most_bytes: int = 10**6, most_parts: int = 64) -> RolloutFile:
    return put_together(file, "anna", KEY, place.get_bounded, most_bytes=most_bytes, most_parts=most_parts)


def reason(file: RolloutFile, place: Place, **limits: int) -> str:
    with pytest.raises(ProtocolError) as refused:
        together(file, place, **limits)
    return refused.value.reason


def test_the_parts_give_the_one_file() -> None:
    assert together(*in_parts(ROLLOUTS)) == ROLLOUTS


def test_a_file_that_names_no_parts_is_itself_and_nothing_is_read() -> None:
    assert together(ROLLOUTS, Place()) is ROLLOUTS


def test_a_part_that_is_not_there_is_missing() -> None:
    file, place = in_parts(ROLLOUTS)
    del place["rollouts/round_17/parts_0/anna@1.json"]
    assert reason(file, place) == "missing_part"


def test_a_part_with_one_byte_changed_is_another_one() -> None:
    file, place = in_parts(ROLLOUTS)
    place["rollouts/round_17/parts_0/anna@1.json"] += b" "
    assert reason(file, place) == "other_part"


def test_a_part_of_another_policy_is_another_one() -> None:
    file, place = in_parts(ROLLOUTS)
    other = msgspec.structs.replace(file, policy=PolicyInfo(model="another"))
    assert reason(other, place) == "other_part"


def named_anew(file: RolloutFile, place: Place, slot: int, part: RolloutFile) -> RolloutFile:
    """The file with this in the place of one of its parts."""
    data = place[keys.part(KEY, "anna", slot)] = encode(part)
    assert file.parts is not UNSET
    return msgspec.structs.replace(file, parts=file.parts | {str(slot): digest(data)})


def test_a_part_of_another_node_or_of_more_than_its_group_is_refused() -> None:
    file, place = in_parts(ROLLOUTS)
    alone = msgspec.structs.replace(ROLLOUTS, rollouts={"0": ROLLOUTS.rollouts["0"]})
    assert reason(named_anew(file, place, 0, msgspec.structs.replace(alone, peer_id="ben")), place) == "misplaced"
    assert reason(named_anew(file, place, 0, ROLLOUTS), place) == "malformed"
    file, place = in_parts(ROLLOUTS)
    assert reason(named_anew(file, place, 1, alone), place) == "malformed"


def test_all_parts_together_are_held_to_the_bytes_of_one_file() -> None:
    file, place = in_parts(ROLLOUTS)
    total = sum(map(len, place.values()))
    assert together(file, place, most_bytes=total) == ROLLOUTS
    assert reason(file, place, most_bytes=total - 1) == "oversized"


def test_more_parts_than_a_node_may_publish_are_refused_before_any_is_read() -> None:
    file, _ = in_parts(ROLLOUTS)
    assert reason(file, Place(), most_parts=1) == "oversized"


@pytest.mark.parametrize(
    "parts",
    [{"x": "0" * 64}, {"00": "0" * 64}, {"0": "0" * 63}, {"0": "../../etc/passwd"}, {"-1": "0" * 64}],
    ids=str,
)
def test_odd_slots_and_digests_are_malformed(parts: dict[str, str]) -> None:
    assert reason(msgspec.structs.replace(ROLLOUTS, rollouts={}, parts=parts), Place()) == "malformed"


def test_groups_beside_parts_are_malformed() -> None:
    file, place = in_parts(ROLLOUTS)
    assert reason(msgspec.structs.replace(file, rollouts=ROLLOUTS.rollouts), place) == "malformed"


def test_parts_come_in_the_order_of_their_slots() -> None:
    file = msgspec.structs.replace(ROLLOUTS, rollouts={}, parts={"10": "a" * 64, "2": "b" * 64})
    assert list(parts_of(file)) == [2, 10]
