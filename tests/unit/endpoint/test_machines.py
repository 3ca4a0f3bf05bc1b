"""What decides about an endpoint's requests, without any: budget, limits per minute, pauses, breaker, a generation."""

from __future__ import annotations

import heapq
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.endpoint.config import EndpointConfig
from swarm.endpoint.generation import Done, EndpointLimits, Generation, Request, Send
from swarm.endpoint.limits import LONGEST_ASKED, MINUTE, Breaker, Budget, Window, backoff
from swarm.endpoint.outcomes import Failure, Kind, UsableReply
from swarm.endpoint.usage import Prices, Tokens, Usage


def config(**settings: Any) -> EndpointConfig:
    return EndpointConfig(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})


# ── budget ────────────────────────────────────────────────────────────────────────────────────────────────────────────
TOKENS = st.builds(Tokens, st.integers(0, 100), st.integers(0, 100))


@given(
    st.lists(st.tuples(TOKENS, st.floats(0, 1), st.booleans()), max_size=60),
    st.integers(1, 2000),
    st.floats(0.0001, 0.01),
)
def test_caps_hold_whatever_is_under_way_as_long_as_nothing_exceeds_its_worst_case(
    steps: list[tuple[Tokens, float, bool]], cap_tokens: int, cap_money: float
) -> None:
    budget = Budget(Usage(), Prices(1.0, 20.0), cap_tokens=cap_tokens, cap_money=cap_money)
    held: list[tuple[Tokens, float]] = []
    for worst, share, sends in steps:
        if sends and budget.allows(worst):
            budget.hold(worst)
            held.append((worst, share))
        elif held:
            ended, part = held.pop(0)
            budget.settle(ended, Tokens(int(ended.prompt * part), int(ended.reply * part)))
    for worst, _ in held:
        budget.settle(worst, worst)
    assert budget.usage.tokens <= cap_tokens
    assert budget.usage.money <= cap_money * (1 + 1e-9)


def test_totals_survive_as_json() -> None:
    usage = Usage(requests=3, tokens_in=5, tokens_out=7, money=0.25)
    assert msgspec.json.decode(msgspec.json.encode(usage), type=Usage) == usage
    assert msgspec.json.decode(b"{}", type=Usage) == Usage()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"tokens_in": -1}', type=Usage)


# ── limits per minute ─────────────────────────────────────────────────────────────────────────────────────────────────
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=60), st.integers(1, 20))
def test_in_no_minute_more_is_taken_than_the_limit_but_for_one_that_is_larger_by_itself(
    asked: list[tuple[int, int]], limit: int
) -> None:
    window, now, taken = Window(limit), 0.0, list[tuple[float, int]]()
    for later, amount in asked:
        now += later
        now += window.wait(now, amount)
        assert window.wait(now, amount) == 0.0
        window.take(now, amount)
        taken.append((now, amount))
    for end, _ in taken:
        within = [amount for at, amount in taken if end - MINUTE < at <= end]
        assert sum(within) <= limit or len(within) == 1


def test_what_turns_out_less_makes_room() -> None:
    window = Window(100)
    first = window.take(0.0, 90)
    assert window.wait(1.0, 50) == 59.0
    window.correct(first, 40)
    assert window.wait(1.0, 50) == 0.0
    window.wait(70.0, 1)
    window.correct(first, 90)  # long forgotten
    assert window.wait(70.0, 100) == 0.0


def test_without_a_limit_nothing_waits_and_nothing_is_kept() -> None:
    window = Window(None)
    window.take(0.0, 10**9)
    assert window.wait(0.0, 10**9) == 0.0


# ── pauses ────────────────────────────────────────────────────────────────────────────────────────────────────────────
@given(st.integers(1, 1000), st.integers(0, 2**30), st.none() | st.floats(0, 1e300))
def test_pauses_double_to_their_bound_and_are_never_shorter_than_asked(
    failures: int, seed: int, asked: float | None
) -> None:
    pause = backoff(0.5, 30.0, failures, seed, 1, 2, asked=asked)
    whole = min(30.0, 0.5 * 2 ** min(failures - 1, 60))
    assert max(whole / 2, min(asked or 0.0, LONGEST_ASKED)) <= pause <= max(whole, LONGEST_ASKED if asked else 0.0)
    assert pause == backoff(0.5, 30.0, failures, seed, 1, 2, asked=asked)


def test_requests_of_one_seed_do_not_come_back_together() -> None:
    assert len({backoff(1.0, 30.0, 1, 7, question, 0, asked=None) for question in range(50)}) == 50


# ── breaker ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_breaker_opens_after_failures_in_a_row_rests_longer_each_time_and_closes_with_a_reply() -> None:
    breaker = Breaker(config(breaker_failures=2, breaker_rest=10.0, breaker_longest_rest=25.0))
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.failed(0.0)
    states = []
    for now in (0, 9, 10):
        states.append(breaker.state(now))
    assert states == ["open", "open", "trial"]
    breaker.failed(10.0)
    assert [breaker.state(29.0), breaker.state(30.0)] == ["open", "trial"]
    breaker.failed(30.0)
    assert [breaker.state(54.0), breaker.state(55.0)] == ["open", "trial"]
    breaker.succeeded()
    assert breaker.state(55.0) == "closed"


def test_a_refusal_of_everything_opens_it_at_once() -> None:
    breaker = Breaker(config())
    breaker.failed(0.0, at_once=True)
    assert breaker.state(0.0) == "open"


# ── a generation in virtual time ──────────────────────────────────────────────────────────────────────────────────────
KINDS: tuple[Kind, ...] = ("throttled", "down", "late", "unreadable", "declined", "refused")
OUTCOME = st.tuples(
    st.sampled_from(("good", "good", "good", *KINDS)), st.integers(0, 20), st.none() | st.integers(0, 40)
)


@given(st.data())
def test_any_generation_ends_in_time_with_whole_groups_within_every_limit(data: st.DataObject) -> None:
    """Any order of replies and failures, any limits: the promises of the module, at every step."""
    settings = config(
        concurrency=data.draw(st.integers(1, 4)),
        retries=data.draw(st.integers(0, 3)),
        max_tokens=20,
        requests_per_minute=data.draw(st.none() | st.integers(1, 12)),
        tokens_per_minute=data.draw(st.none() | st.integers(20, 2000)),
        cap_tokens=data.draw(st.none() | st.integers(1, 4000)),
        breaker_failures=data.draw(st.integers(1, 6)),
    )
    limits, size, deadline = EndpointLimits(settings, Usage()), data.draw(st.integers(1, 3)), 100.0
    questions = [f"{number}?" for number in range(data.draw(st.integers(1, 4)))]
    generation = Generation(settings, limits, questions, size, "chat", 1, deadline=deadline)
    now, sent, complete = 0.0, list[float](), set[int]()
    running: list[tuple[float, Request, UsableReply | Failure]] = []
    while not isinstance(step := generation.next(now), Done):
        if isinstance(step, Send):
            sent.append(now)
            kind, seconds, asked = data.draw(OUTCOME)
            outcome = _reply() if kind == "good" else Failure(kind, "", asked=asked, billed=kind == "late")  # type: ignore[arg-type]
            heapq.heappush(running, (now + seconds, step.request, outcome))
            assert len(running) <= settings.concurrency
        elif running and running[0][0] <= step.until:
            now, request, outcome = heapq.heappop(running)
            if isinstance(outcome, Failure):
                generation.failed(request, outcome, now)
            elif group := generation.replied(request, outcome):
                assert len(group) == size
                complete.add(request.question)
        else:
            assert step.until > now  # else it would spin
            now = step.until
    groups = generation.end(now)
    assert now <= deadline
    assert {number for number, group in enumerate(groups) if group} == complete
    assert {len(group) for group in groups} <= {0, size}
    assert limits.budget.usage.requests == len(sent)
    assert limits.budget.usage.tokens <= (settings.cap_tokens or 10**9)
    if step.reason == "complete" and not generation.failures:
        assert complete == set(range(len(questions)))
    if most := settings.requests_per_minute:
        assert all(sum(other <= at < other + MINUTE for other in sent) <= most for at in sent)


def _reply() -> UsableReply:
    return UsableReply("7", finished=True, tokens_in=10, tokens_out=5, written="7")


def test_the_groups_of_the_first_questions_are_complete_first() -> None:
    settings = config(concurrency=1)
    generation = Generation(settings, EndpointLimits(settings, Usage()), ["a", "b"], 2, "chat", 1, deadline=10.0)
    order = []
    while isinstance(step := generation.next(0.0), Send):
        order.append(step.request)
        generation.replied(step.request, _reply())
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_throttling_pauses_all_requests_and_counts_as_no_failure() -> None:
    settings = config(concurrency=1, retries=0, breaker_failures=1)
    limits = EndpointLimits(settings, Usage())
    generation = Generation(settings, limits, ["a", "b"], 1, "chat", 1, deadline=100.0)
    for now in (0.0, 30.0, 60.0):
        step = generation.next(now)
        assert isinstance(step, Send)
        generation.failed(step.request, Failure("throttled", "", asked=30.0), now)
        assert generation.next(now) == (now + 30.0,)
    other = Generation(settings, limits, ["c"], 1, "chat", 1, deadline=1000.0)
    assert other.next(60.0) == (90.0,)  # the next generation knows of it


def test_an_endpoint_that_was_down_is_tried_with_one_request_before_the_others_go() -> None:
    settings = config(concurrency=4, breaker_rest=10.0)
    limits = EndpointLimits(settings, Usage())
    limits.breaker.failed(0.0, at_once=True)
    generation = Generation(settings, limits, ["a", "b"], 2, "chat", 1, deadline=100.0)
    assert generation.next(9.0) == ("down",)
    trial = generation.next(10.0)
    assert isinstance(trial, Send)
    assert generation.next(10.0) == (100.0,)
    generation.replied(trial.request, _reply())
    assert [type(generation.next(11.0)) for _ in range(3)] == [Send] * 3


@pytest.mark.parametrize("field", ["requests", "tokens_in", "tokens_out", "tokens_estimated"])
@pytest.mark.parametrize("count", [-1, 10**30])
def test_totals_that_no_endpoint_counts_are_refused(field: str, count: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({field: count}), type=Usage)
