"""Groups that were published one by one give what one file would give, or are refused."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.types import RoundKey
from swarm.wire import group_files, keys
from swarm.wire.codec import brackets, encode
from swarm.wire.group_files import digest, named_by, put_together
from swarm.wire.messages import PolicyInfo, RolloutFile
from tests.unit.wire.forms import ROLLOUTS

KEY = RoundKey(17)


class Place(dict[str, bytes]):
    """Files of single groups by key."""

    def get_bounded(self, key: str, limit: int) -> bytes:
        if key not in self:
            raise FileNotFoundError(key)
        if len(self[key]) > limit:
            raise ProtocolError("oversized", key)
        return self[key]


def one_by_one(file: RolloutFile, last: str = "") -> tuple[RolloutFile, Place]:
    """The same groups, each in a file of its own but for one, which is in the last file."""
    place, named = Place(), {}
    for slot in file.rollouts.keys() - {last}:
        data = encode(msgspec.structs.replace(alone(file, slot), timestamp=0.0))
        place[keys.group_file(KEY, file.peer_id, int(slot))], named[slot] = data, digest(data)
    rest = alone(file, last) if last else msgspec.structs.replace(file, rollouts={}, groups={})
    return msgspec.structs.replace(rest, earlier=named), place


def alone(file: RolloutFile, slot: str) -> RolloutFile:
    rollouts, groups = {slot: file.rollouts[slot]}, {slot: file.groups[slot]}
    return msgspec.structs.replace(file, rollouts=rollouts, groups=groups)


def together(file: RolloutFile, place: Place, *, most_bytes: int = 10**6, most_groups: int = 64) -> RolloutFile:
    return put_together(file, "anna", KEY, place.get_bounded, most_bytes=most_bytes, most_groups=most_groups)


def reason(file: RolloutFile, place: Place, **limits: int) -> str:
    with pytest.raises(ProtocolError) as refused:
        together(file, place, **limits)
    return refused.value.reason


@pytest.mark.parametrize("last", ["", "0", "1"])
def test_they_give_the_one_file_whichever_came_last(last: str) -> None:
    assert together(*one_by_one(ROLLOUTS, last)) == ROLLOUTS


def test_a_file_that_names_no_others_is_itself_and_nothing_is_read() -> None:
    assert together(ROLLOUTS, Place()) is ROLLOUTS


SECOND = "rollouts/round_17/stage_0/anna.1.json"
LIES: dict[str, tuple[str, Callable[[RolloutFile, Place], RolloutFile]]] = {
    "a group is not there": ("missing_part", lambda file, place: place.pop(SECOND) and file),
    **{
        f"{byte!r} is added": (
            "other_part",
            lambda file, place, b=byte: place.update({SECOND: place[SECOND] + b}) or file,
        )
        for byte in (b" ", b"\n", b"\t", b"\r")  # digests above and below the one that is named
    },
    "of another policy": ("other_part", lambda file, _: msgspec.structs.replace(file, policy=PolicyInfo(model="b"))),
    "twice": ("malformed", lambda file, _: msgspec.structs.replace(file, rollouts={"1": ROLLOUTS.rollouts["1"]})),
}


@pytest.mark.parametrize("lie", LIES)
def test_groups_that_are_not_what_the_last_file_names_are_refused(lie: str) -> None:
    expected, change = LIES[lie]
    file, place = one_by_one(ROLLOUTS)
    assert reason(change(file, place), place) == expected


def named_anew(file: RolloutFile, place: Place, slot: int, one: RolloutFile) -> RolloutFile:
    """The file with this in the place of one that it names."""
    data = place[keys.group_file(KEY, "anna", slot)] = encode(one)
    assert file.earlier
    return msgspec.structs.replace(file, earlier=file.earlier | {str(slot): digest(data)})


def test_a_file_of_another_node_or_of_more_than_its_group_is_refused() -> None:
    file, place = one_by_one(ROLLOUTS)
    alone = msgspec.structs.replace(ROLLOUTS, rollouts={"0": ROLLOUTS.rollouts["0"]})
    for other in ({"peer_id": "ben"}, {"peer_id": "abe"}, {"round": 16}, {"round": 18}, {"stage": 1}):
        assert reason(named_anew(file, place, 0, msgspec.structs.replace(alone, **other)), place) == "misplaced"
    assert reason(named_anew(file, place, 0, ROLLOUTS), place) == "malformed"
    file, place = one_by_one(ROLLOUTS)
    assert reason(named_anew(file, place, 1, alone), place) == "malformed"


def test_all_together_are_held_to_the_bytes_of_one_file() -> None:
    file, place = one_by_one(ROLLOUTS)
    total = sum(map(len, place.values()))
    assert together(file, place, most_bytes=total) == ROLLOUTS
    assert reason(file, place, most_bytes=total - 1) == "oversized"


def test_all_together_are_held_to_the_brackets_of_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file, place = one_by_one(ROLLOUTS)
    total = sum(map(brackets, place.values()))
    monkeypatch.setattr(group_files, "MOST_BRACKETS", total)
    assert together(file, place) == ROLLOUTS
    monkeypatch.setattr(group_files, "MOST_BRACKETS", total - 1)
    assert reason(file, place) == "oversized"


def test_more_groups_than_a_node_may_publish_are_refused_before_any_is_read() -> None:
    file, _ = one_by_one(ROLLOUTS)
    assert reason(file, Place(), most_groups=1) == "oversized"


@pytest.mark.parametrize(
    "parts", [{"x": "0" * 64}, {"00": "0" * 64}, {"0": "0" * 63}, {"0": "../../etc/passwd"}, {"-1": "0" * 64}], ids=str
)
def test_odd_slots_and_digests_are_malformed(parts: dict[str, str]) -> None:
    assert reason(msgspec.structs.replace(ROLLOUTS, rollouts={}, earlier=parts), Place()) == "malformed"


def test_they_come_in_the_order_of_their_slots() -> None:
    file = msgspec.structs.replace(ROLLOUTS, rollouts={}, earlier={"10": "a" * 64, "2": "b" * 64})
    assert list(named_by(file)) == [2, 10]
