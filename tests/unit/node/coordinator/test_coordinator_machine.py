"""What the round clock decides: scripts of looks at the folder, and what is written after which.

    SECONDS what=nodes ...; SECONDS ...: decision        nothing is decided at the looks before the last of a line

Nodes are letters; `clock=4` is a state file of round 4 in the place of the one that was decided last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.node.coordinator.coordinator_machine import (
    CoordinatorLook,
    CoordinatorMachine,
    Decision,
    FolderClock,
    StepDown,
    WriteState,
    majority_front,
)
from swarm.types import RoundKey

FIELDS = {"before": "submitted_before", "no_say": "without_a_say"}
SETTINGS = {"expected": "expected_workers", "settle": "settle_time"}


class Clock:
    """A coordinator's machine, whose decisions are in the folder at its next look."""

    def __init__(self, *, at: int = 0, held: int = 0, rounds: int = 90, **asked: Any) -> None:
        """`held`: the state file says so, as after a restart. One worker is expected if nothing else is said."""
        asked = {"expected": 1, "round_interval": 60.0} | asked
        named = {SETTINGS.get(name, name): value for name, value in asked.items()}
        self.machine = CoordinatorMachine(Settings(max_rounds=rounds, **named))
        assert self.machine.resume(RoundKey(at)) is None
        self._before = FolderClock(RoundKey(at), finished=False, held=True) if held else None

    def look(self, now: float, live: str | frozenset[str] = "", **seen: Any) -> Decision | None:
        key = self.machine.key
        clock = FolderClock(key, self.machine.finished) if key else self._before
        found: dict[str, Any] = {"submitted": frozenset(), "called": frozenset(live), "clock": clock}
        for name, what in seen.items():
            match name:
                case "front":
                    found[name] = RoundKey(int(what))
                case "clock":
                    found[name] = None if what == "torn" else FolderClock(RoundKey(int(what[0])), *_says(what[1:]))
                case "rival":
                    found[name] = what
                case _:
                    found[FIELDS.get(name, name)] = frozenset(what)
        return self.machine.handle(CoordinatorLook(now, frozenset(live), **found))

    def plays(self, script: str) -> None:
        for line in script.strip().splitlines():
            looks, _, decision = line.partition(": ")
            decided = [self.look(float(now), **_pairs(seen)) for now, *seen in map(str.split, looks.split(";"))]
            assert list(map(said, decided)) == ["waits"] * (len(decided) - 1) + [decision], line


def _says(more: str) -> tuple[bool, bool]:
    return more == "end", more == "held"


def _pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=") for word in words)


def said(decision: Decision | None) -> str:
    """A decision in words."""
    match decision:
        case None:
            return "waits"
        case StepDown(rival):
            return f"gives way to {rival}"
    words = [decision.reason, str(decision.key.round)] + ["end"] * decision.finished
    for how, nodes in (("without", decision.missing), ("not awaiting", decision.not_awaited)):
        words += [how, "".join(sorted(nodes))] if nodes else []
    return " ".join(words)


def scripts(text: str) -> list[Any]:
    """Blocks of a claim, the settings in brackets behind it, and lines as above."""
    found = []
    for block in text.strip().split("\n\n"):
        title, _, script = block.partition("\n")
        claim, _, asked = title.rstrip("]").partition(" [")
        found.append(pytest.param({name: _value(v) for name, v in _pairs(asked.split()).items()}, script, id=claim))
    return found


def _value(text: str) -> Any:
    return {"nobody": None}.get(text, tuple(text.split("+")) if text.isalpha() or "+" in text else int(text))


PLAYED = "\n".join(
    ["0 live=abc; 100 live=abc: opened 0"]
    + [f"{100 + 4 * n} live=abc submitted=abc before=abc: all_submitted {n}" for n in range(1, 6)]
)
"""Five rounds of three workers, of four seconds each."""
SILENT = "\n".join(
    ["0 live=ab: opened 0"] + [f"{60 * n} live=ab submitted=a: interval {n} without b" for n in (1, 2, 3)]
)
"""Three rounds in which one was alive and never submitted."""
BEGINNINGS = f"""
when the expected workers are there [expected=2]
    0 live=a; 1 live=ab: opened 0

one interval after the first came [expected=3]
    1000; 1001 live=a; 1060.9 live=a; 1061 live=a: opened 0

one interval after the first that is expected by name [expected=a+b]
    0 live=xy; 100 live=xy; 1000000 live=xy; 1000001 live=xya; 1000061 live=xya: opened 0 without b

two intervals after the first, however many come one after the other [expected=nobody]
    {"; ".join(f"{10 * n} live={'abcdefghijklm'[: n + 1]}" for n in range(13))}: opened 0

together, of terminals that are opened one after the other [expected=nobody]
    0 coming=a; 8 live=a coming=b; 12 live=ab coming=c; 26 live=abc; 27 live=abc: opened 0

as soon as one is ready, without a settling time [expected=nobody settle=0]
    0 coming=a; 5 live=a: opened 0

for no claim to be at work in a round that was never begun [expected=nobody]
    0 live=a working=a: waits

where another has opened [expected=2]
    0 live=ab clock=3: opened 3

after a restart where a worker is at work [expected=nobody at=7 held=1]
    0 live=abc working=a before=abc: opened 7

after a restart where a worker is at work, by number [expected=4 at=7 held=1]
    0 live=abc working=a before=abc: opened 7

after all were cut off when those of the last rounds are there, without a settling time [expected=nobody at=7 held=1]
    0 coming=abc before=abc; 9 live=ab coming=c before=abc; 10 live=abc before=abc: opened 7

after a restart by number without those who do not come, by name [expected=3 at=7 held=1]
    0 live=ab before=abc; 60 live=ab before=abc: opened 7 without c

where most workers are, after a restart [expected=5 at=2]
    0 live=ab front=4: caught_up 4
    1 live=ab front=4: waits

at the end, where workers did more rounds alone than are asked for now [at=5 rounds=6]
    0 live=ab front=7: caught_up 6 end
    1 live=ab: waits
"""
"""When and where the first round opens."""


@pytest.mark.parametrize(("asked", "script"), scripts(BEGINNINGS))
def test_a_clock_begins(asked: dict[str, Any], script: str) -> None:
    Clock(**asked).plays(script)


ROUNDS = f"""
an open round ends at the interval and says who was missing
    0 live=ab: opened 0
    59.9 live=ab submitted=a; 60 live=ab submitted=a: interval 1 without b

the interval counts anew when somebody comes back
    0 live=ab: opened 0
    1000; 1001 live=ab; 1060.9 live=ab; 1061 live=ab: interval 1 without ab

who has no say closes no round and keeps no clock going
    0 live=ab: opened 0
    1 live=xy submitted=xy no_say=xy; 59 live=xy submitted=xy no_say=xy: waits
    60 live=xy submitted=xy before=xy no_say=xy: interval 1
    120 live=xy submitted=xy before=xy no_say=xy: interval 2
    180 live=xy submitted=xy before=xy no_say=xy: interval 3
    {"; ".join(f"{60 * n} live=xy submitted=xy before=xy no_say=xy" for n in range(4, 9))}: waits
    999 live=xy submitted=xyab no_say=xy: all_submitted 4

a clock that is taken up far from all rewards stands until one comes [at=5]
    0 live=ab: opened 5
    {"; ".join(f"{60 * n} live=ab" for n in range(1, 9))}; 999 live=ab submitted=a: interval 6 without b

a last round that was done while no coordinator was there is closed [at=4 rounds=5]
    0 submitted=ab; 59.9 submitted=ab; 60 submitted=ab: opened 4
    61 submitted=ab: all_submitted 5 end

a round before the last that was done so waits for somebody [at=3 rounds=5]
    0 submitted=ab; 60 submitted=ab; 1000 submitted=ab: waits

a last round is closed so where nobody said how many there are [expected=nobody at=4 rounds=5]
    0 submitted=ab; 59.9 submitted=ab; 60 submitted=ab: opened 4
    61 submitted=ab: all_submitted 5 end

a round that all have left waits for one that is starting, however long, and for nobody who gave up [expected=2]
    0 live=ab: opened 0
    61 submitted=a coming=b; 1000000 submitted=a coming=b; 1000001 submitted=a: all_submitted 1

one that loads again is waited for two median rounds, once for each death [expected=nobody]
    {PLAYED}
    122 live=ac submitted=ac coming=b before=abc; 129.9 live=ac submitted=ac coming=b before=abc: waits
    130 live=ac submitted=ac coming=b before=abc: all_submitted 6
    134 live=ac submitted=ac coming=b before=abc: all_submitted 7

where workers are expected the round waits for it, and names it [expected=3]
    {PLAYED.replace("0 live=abc; ", "")}
    179 live=ac submitted=ac coming=b before=abc; 180 live=ac submitted=ac coming=b before=abc: interval 6 without b

an open round whose workers all died waits until they are back [expected=nobody]
    {PLAYED}
    121 submitted=a coming=abc before=abc; 122 live=a submitted=a before=abc: waits
    420 live=a submitted=a coming=bc before=abc: waits
    450 live=abc submitted=a before=abc; 454 live=abc submitted=abc before=abc: all_submitted 6

all who come back to such a round with their rewards close it at once [expected=nobody]
    {PLAYED}
    121 submitted=a coming=abc before=abc; 122 live=a submitted=a before=abc: waits
    450 live=abc submitted=abc before=abc: all_submitted 6

who comes new to a round that all have left waits for nobody [expected=nobody]
    {PLAYED}
    121 before=abc; 122 live=d submitted=d before=abc: all_submitted 6

one that is there and never submits holds up three rounds and no more
    {SILENT}
    181 live=ab submitted=a: all_submitted 4 not awaiting b

one that submits again is waited for again
    {SILENT}
    181 live=ab submitted=b; 182 live=ab submitted=a: waits

one whose reward comes late is waited for again
    {SILENT}
    181 live=ab before=b; 182 live=ab submitted=a: waits

the one with the younger claim steps down before it decides anything
    0 live=ab: opened 0
    1 live=ab submitted=ab rival=older: gives way to older
    2 live=ab submitted=ab: all_submitted 1

one that was paused follows the one that took over, neither back nor on
    0 live=ab: opened 0
    500 live=ab clock=4; 559 live=ab clock=4; 560 live=ab clock=4 before=ab: interval 5 without ab

one follows another that finished [rounds=4]
    0 live=ab: opened 0
    1 live=ab clock=4end; 99 live=ab submitted=ab: waits

one follows another that finished more rounds than it was asked for [rounds=4]
    0 live=ab: opened 0
    1 live=ab clock=6end; 99 live=ab submitted=ab: waits
"""


@pytest.mark.parametrize(("asked", "script"), scripts(ROUNDS))
def test_a_clock_goes_on(asked: dict[str, Any], script: str) -> None:
    Clock(**asked).plays(script)


@pytest.mark.parametrize("says", ["torn", "0", "1end", "1held"])
def test_a_state_that_is_not_what_was_decided_is_written_again(says: str) -> None:
    """Before anything else is decided."""
    Clock().plays(f"""
        0 live=ab: opened 0
        1 live=ab submitted=ab: all_submitted 1
        2 live=ab submitted=ab clock={says}: restored 1
    """)


@pytest.mark.parametrize(
    ("live", "submitted", "decision"),
    [
        ("ab", "a", "waits"),
        ("ab", "ab", "all_submitted 1"),
        ("a", "a", "all_submitted 1"),
        ("b", "ab", "all_submitted 1"),
        ("abc", "ab", "waits"),
    ],
    ids=["one is missing", "all", "one died", "one submitted and left", "one joined in mid round"],
)
def test_a_round_advances_as_soon_as_all_live_workers_have_submitted(live: str, submitted: str, decision: str) -> None:
    Clock().plays(f"0 live=ab: opened 0\n1 live={live} submitted={submitted}: {decision}")


@pytest.mark.parametrize("done", [5, 8])
def test_an_experiment_without_rounds_left_is_finished_at_once_and_never_turned_back(done: int) -> None:
    machine = CoordinatorMachine(Settings(max_rounds=5))
    assert said(machine.resume(RoundKey(done))) == f"done {done} end"
    finished = FolderClock(RoundKey(done), finished=True)
    assert machine.handle(CoordinatorLook(0.0, frozenset("ab"), frozenset(), finished)) is None


# ── workers that went on without it ─────────────────────────────────────────────────────────────────────────────────
def submitted_in(**last_round_of: int) -> Callable[[RoundKey], frozenset[str]]:
    """Workers without a coordinator do every round, up to their last."""
    return lambda key: frozenset(node for node, last in last_round_of.items() if key.round <= last)


@pytest.mark.parametrize(
    ("at", "live", "last_rounds", "front"),
    [
        (2, "abcd", {"a": 9, "b": 6, "c": 6, "d": 2}, 6),
        (6, "abcd", {"a": 9, "b": 6, "c": 6, "d": 2}, None),
        (2, "abx", {"a": 2, "b": 2, "x": 10**6}, None),
        (2, "a", {"a": 2, "x": 9, "y": 9}, None),
        (2, "", {"a": 2, "x": 9, "y": 9}, None),
    ],
)
def test_the_front_is_where_more_than_half_of_the_live_workers_have_come(
    at: int, live: str, last_rounds: dict[str, int], front: int | None
) -> None:
    found = majority_front(RoundKey(at), frozenset(live), submitted_in(**last_rounds))
    assert found == (None if front is None else RoundKey(front))


def test_no_front_lies_beyond_a_round_that_most_have_not_done() -> None:
    assert majority_front(RoundKey(2), frozenset("ab"), lambda key: frozenset("ab" * (key.round == 4))) is None


# ── names that do nothing ───────────────────────────────────────────────────────────────────────────────────────────
def rounds_with_strangers(strangers_at: Callable[[float], frozenset[str]], rounds: int) -> float:
    """Seconds for so many rounds of a swarm of one, who needs a second for each, by a clock of 60 s rounds."""
    clock, now, since = Clock(rounds=rounds), 0.0, 0.0
    while not clock.machine.finished:
        now += 0.5
        if clock.look(now, strangers_at(now) | {"a"}, submitted="a" if now - since >= 1.0 else ""):
            since = now
    return now


STRANGERS = {
    "one that stays": lambda now: frozenset({"stranger"}),
    "one every five seconds": lambda now: frozenset({f"stranger-{int(now / 5)}"}),
    "one that comes and goes": lambda now: frozenset({"stranger"}) if now % 60 < 55 else frozenset(),
    "a thousand": lambda now: frozenset(f"stranger-{number}" for number in range(1000)),
}


@pytest.mark.parametrize("strangers_at", STRANGERS.values(), ids=STRANGERS)
def test_names_that_never_publish_cost_a_run_three_intervals_at_most_however_many_they_are(
    strangers_at: Callable[[float], frozenset[str]],
) -> None:
    """A new name every five seconds once left a swarm five percent of its pace."""
    rounds = 20 if strangers_at is STRANGERS["a thousand"] else 150
    alone = rounds_with_strangers(lambda now: frozenset(), rounds)
    assert rounds_with_strangers(strangers_at, rounds) <= alone + 3 * 60.0 + 10.0


def test_strangers_that_are_starting_for_ever_cost_no_more_where_an_expected_worker_is_missing() -> None:
    clock, now = Clock(rounds=200, expected=2), 0.0
    clock.plays("0 live=ab: opened 0")
    while not clock.machine.finished and now < 1e5:
        now += 0.5
        clock.look(now, "a", submitted="a", coming=STRANGERS["one every five seconds"](now))
    assert now <= 200 * 0.5 + 3 * 60.0 + 10.0


def test_names_that_beat_and_do_nothing_use_up_no_more_than_three_rounds() -> None:
    clock = Clock()
    for number in range(1000):
        clock.look(30.0 * number, frozenset({f"stranger-{int(0.3 * number)}"}))
    assert clock.machine.key == RoundKey(3)
    clock.plays("30000 live=a submitted=a: all_submitted 4")


# ── whatever it sees ────────────────────────────────────────────────────────────────────────────────────────────────
nodes = st.text("abc", max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 30), nodes, nodes), max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.builds(RoundKey, st.integers(0, 5), st.integers(0, 2)),
)
def test_the_clock_moves_by_single_steps_forwards_and_never_without_a_reason(
    looks: list[tuple[float, str, str]], rounds: int, stages: int, expected: int, at: RoundKey
) -> None:
    clock = Clock(rounds=rounds, max_stages=stages, round_interval=20.0, expected=expected)
    clock.machine.resume(at)
    key: RoundKey | None = None
    now, moved_at = 0.0, 0.0
    for pause, live, submitted in looks:
        now += pause
        write = clock.look(now, live, submitted=submitted)
        if write is None:
            continue
        assert isinstance(write, WriteState)
        assert live or submitted, "an empty room burns no rounds"
        assert not write.missing or now - moved_at >= 20.0, "nobody is left behind before the interval is over"
        assert write.missing == (frozenset(live) - frozenset(submitted) if key else frozenset())
        following = _successor(key, rounds, stages) if key else at
        assert write.key == following
        assert write.finished == (following.round >= rounds)
        key, moved_at = write.key, now


def _successor(key: RoundKey, rounds: int, stages: int) -> RoundKey:
    return RoundKey(key.round, key.stage + 1) if key.stage + 1 < stages else RoundKey(key.round + 1)
