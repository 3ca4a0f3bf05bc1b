"""What beats, and what merely lies there."""

from __future__ import annotations

from swarm.node.base.presence import MOST_WATCHED, PROOF_BEATS, Heartbeats
from tests.unit.node.factories import make_peer


def looks(*beats: tuple[str, int]) -> bool:
    """Whether a registration beats that was seen with these incarnations and beats, one after the other."""
    hearts = Heartbeats()
    return [hearts.observe(make_peer("bob", incarnation=life, beat=beat)) for life, beat in beats][-1]


def test_one_that_beats_again_and_again_beats() -> None:
    assert not looks(*(("a", beat) for beat in range(PROOF_BEATS)))
    assert looks(*(("a", beat) for beat in range(PROOF_BEATS + 1)))


def test_a_file_that_lies_there_or_comes_back_does_not_beat() -> None:
    assert not looks(*[("a", 7)] * 20)
    assert not looks(*[("a", 7), ("a", 8)] * 20)


def test_lives_that_take_turns_do_not_beat() -> None:
    assert not looks(*((life, beat) for beat in range(20) for life in ("a", "b")))


def test_what_is_remembered_is_bounded() -> None:
    hearts = Heartbeats()
    for number in range(MOST_WATCHED + 50):
        hearts.observe(make_peer(f"node-{number}"))
    assert len(hearts._watched) == MOST_WATCHED
