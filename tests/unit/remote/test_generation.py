"""What decides about an endpoint's requests, without any: budget, pauses, breaker, a generation."""

from __future__ import annotations

import heapq
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.remote.generation import Done, Generation, RemoteWait, Request, Send, Terms
from swarm.remote.limits import LONGEST_ASKED, Breaker, Budget, Prices, ServerLimits, Usage, backoff
from swarm.remote.outcomes import Failure, Kind, Reply, Tokens
from swarm.types import Completion


def terms(**more: Any) -> Terms:
    return Terms(**{"concurrency": 4, "patience": 100.0, "repeats": 4, "pause": 0.5, "longest_pause": 30.0, **more})


COST = Tokens(300, 20)
SEVEN = Completion("7", finished=True)
REPLY = Reply(SEVEN, Tokens(10, 5))


def generation(terms: Terms, limits: ServerLimits, questions: int, size: int, began: float = 0.0) -> Generation:
    return Generation(terms, limits, [COST] * questions, size, 1, began=began)


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
    budget = Budget(Usage(), Prices(1.0, 20.0), cap_tokens, cap_money)
    held: list[tuple[Tokens, float]] = []
    for worst, share, sends in steps:
        if sends and budget.allows(worst):
            budget.hold(worst)
            held.append((worst, share))
        elif held:
            ended, part = held.pop(0)
            budget.settle(ended, Reply(SEVEN, Tokens(int(ended.prompt * part), int(ended.reply * part))))
    for worst, _ in held:
        budget.settle(worst, Failure("late", "", billed=True))
    assert budget.usage.tokens <= cap_tokens
    assert budget.usage.money <= cap_money * (1 + 1e-9)


def test_what_another_call_holds_is_not_spent_until_it_is() -> None:
    limits = ServerLimits(Budget(cap_tokens=sum(COST) + 40))
    first, second = generation(terms(), limits, 1, 1), generation(terms(), limits, 1, 1)
    sent = first.next(0.0)
    assert isinstance(sent, Send)
    waits = second.next(0.0)
    assert isinstance(waits, RemoteWait)
    assert waits.until < 1.0
    first.replied(sent.request, Reply(SEVEN, Tokens(20, 20)))
    assert isinstance(second.next(waits.until), Send), "40 tokens were used, not the worst case"
    assert generation(terms(), ServerLimits(Budget(cap_tokens=1)), 1, 1).next(0.0) == Done("spent")


def test_totals_survive_as_json() -> None:
    usage = Usage(requests=3, tokens_in=5, tokens_out=7, money=0.25)
    assert msgspec.json.decode(msgspec.json.encode(usage), type=Usage) == usage
    assert msgspec.json.decode(b"{}", type=Usage) == Usage()
    for wrong in (b'{"tokens_in": -1}', b'{"tokens_estimated": -1}', b'{"requests": 1e30}', b'{"money": -1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=Usage)


# ── pauses ────────────────────────────────────────────────────────────────────────────────────────────────────────────
@given(st.integers(1, 1000), st.integers(0, 2**30), st.none() | st.floats(0, 1e300))
def test_pauses_double_to_their_bound_and_are_never_shorter_than_asked(
    failures: int, seed: int, asked: float | None
) -> None:
    pause = backoff(0.5, 30.0, failures, seed, 1, 2, asked=asked)
    whole = min(30.0, 0.5 * 2 ** min(failures - 1, 60))
    assert max(whole / 2, min(asked or 0.0, LONGEST_ASKED)) <= pause <= max(whole, LONGEST_ASKED if asked else 0.0)
    assert pause == backoff(0.5, 30.0, failures, seed, 1, 2, asked=asked)
    others = {backoff(0.5, 30.0, failures, seed, question, 0, asked=None) for question in range(50)}
    assert len(others) == 50, "requests of one seed do not come back together"


# ── breaker ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_breaker_opens_after_failures_in_a_row_rests_longer_each_time_and_closes_with_a_reply() -> None:
    breaker = Breaker(2, 10.0, 25.0)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.failed(0.0)
    for rest_ends in (10.0, 30.0, 55.0):
        assert [breaker.state(rest_ends - 1.0), breaker.state(rest_ends)] == ["open", "trial"]
        breaker.failed(rest_ends)
    breaker.succeeded()
    assert breaker.state(55.0) == "closed"
    for other, state in ((Breaker(20, 10.0, 10.0), "open"), (Breaker(), "closed")):
        other.failed(0.0, at_once=True)
        assert other.state(0.0) == state, "by a refusal of everything, at once"


# ── a generation in virtual time ──────────────────────────────────────────────────────────────────────────────────────
KINDS: tuple[Kind, ...] = ("throttled", "down", "late", "unreadable", "declined", "refused")
OUTCOME = st.tuples(
    st.sampled_from(("good", "good", "good", *KINDS)), st.integers(0, 20), st.none() | st.integers(0, 40)
)


@given(st.data())
def test_any_generation_ends_in_time_with_whole_groups_within_every_limit(data: st.DataObject) -> None:
    """Any order of replies and failures, any limits: the promises of the module, at every step."""
    size, questions = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    asked = terms(concurrency=data.draw(st.integers(1, 4)), repeats=data.draw(st.integers(0, 3)))
    cap = data.draw(st.none() | st.integers(1, 4000))
    limits = ServerLimits(Budget(cap_tokens=cap), Breaker(data.draw(st.none() | st.integers(1, 6)), 10.0, 300.0))
    made = generation(asked, limits, questions, size)
    now, sent, complete = 0.0, 0, set[int]()
    running: list[tuple[float, Request, Reply | Failure]] = []
    while not isinstance(step := made.next(now), Done):
        if isinstance(step, Send):
            sent += 1
            kind, seconds, wanted = data.draw(OUTCOME)
            outcome = REPLY if kind == "good" else Failure(kind, "", asked=wanted, billed=kind == "late")  # type: ignore[arg-type]
            heapq.heappush(running, (now + seconds, step.request, outcome))
            assert len(running) <= asked.concurrency
        elif running and running[0][0] <= step.until:
            now, request, outcome = heapq.heappop(running)
            if isinstance(outcome, Failure):
                made.failed(request, outcome, now)
            elif group := made.replied(request, outcome):
                assert len(group) == size
                complete.add(request.question)
        else:
            assert step.until > now  # else it would spin
            now = step.until
    groups = made.end(now)
    assert now <= asked.patience
    assert {number for number, group in enumerate(groups) if group} == complete
    assert {len(group) for group in groups} <= {0, size}
    assert limits.budget.usage.requests == sent
    assert limits.budget.usage.tokens <= (cap or 10**9)
    if step.reason == "complete" and not made.failures:
        assert complete == set(range(questions))


def test_the_groups_of_the_first_questions_are_complete_first() -> None:
    made = generation(terms(concurrency=1), ServerLimits(), 2, 2)
    order = []
    while isinstance(step := made.next(0.0), Send):
        order.append(step.request)
        made.replied(step.request, REPLY)
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_throttling_pauses_all_requests_and_counts_as_no_failure() -> None:
    limits = ServerLimits(breaker=Breaker(1, 10.0, 10.0))
    made = generation(terms(concurrency=1, repeats=0), limits, 2, 1)
    for now in (0.0, 30.0, 60.0):
        step = made.next(now)
        assert isinstance(step, Send)
        made.failed(step.request, Failure("throttled", "", asked=30.0), now)
        assert made.next(now) == (now + 30.0,)
    assert generation(terms(), limits, 1, 1, 60.0).next(60.0) == (90.0,), "the next generation knows of it"
    assert generation(terms(patience=20.0), limits, 1, 1, 60.0).next(60.0) == ("patience",), (
        "a longer one is not waited"
    )


def test_a_server_that_was_down_is_tried_with_one_request_before_the_others_go() -> None:
    limits = ServerLimits(breaker=Breaker(20, 10.0, 300.0))
    limits.breaker.failed(0.0, at_once=True)
    made = generation(terms(), limits, 2, 2)
    assert made.next(9.0) == ("down",)
    trial = made.next(10.0)
    assert isinstance(trial, Send)
    assert made.next(10.0) == (100.0,)
    made.replied(trial.request, REPLY)
    assert [type(made.next(11.0)) for _ in range(3)] == [Send] * 3
