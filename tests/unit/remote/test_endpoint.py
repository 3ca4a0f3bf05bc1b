"""The generator of an endpoint against a server on a real socket that misbehaves by plan."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import ConfigError, SpendingCapError
from swarm.node.process.system import ComputeExecutor, compute_thread
from swarm.remote.endpoint import EndpointGenerator
from swarm.remote.endpoint_config import EndpointConfig
from swarm.remote.outcomes import Failure
from swarm.types import Completion, GenerationCall, Generator
from tests.engines import stub_openai as stubs
from tests.engines.stub_openai import Fault, Stub, good, refused, serving, throttled
from tests.patience import PATIENCE
from tests.unit.node.nodes import until

SEVEN = Completion("<answer>7</answer>", finished=True)
QUICK: dict[str, Any] = {"backoff": 0.001, "longest_backoff": 0.002, "patience": PATIENCE, "request_timeout": PATIENCE}


def generator(
    stub: Stub | str, key: str = "", clock: Callable[[], float] = time.monotonic, **config: Any
) -> EndpointGenerator:
    url = stub if isinstance(stub, str) else stub.url
    settings = EndpointConfig(**{"base_url": url, "model": "lab/tiny", "api": "chat", **QUICK, **config})
    environ = {"OPENAI_API_KEY": key} if key else {}
    return EndpointGenerator(settings, environ=environ, clock=clock)


def from_request(stub: Stub, number: int) -> Callable[[], float]:
    """A clock that stands still until the server has had so many requests: however slow the machine is."""
    began: list[float] = []

    def clock() -> float:
        if len(stub.asked) >= number and not began:
            began.append(time.monotonic())
        return time.monotonic() - began[0] if began else 0.0

    return clock


def ask(made: EndpointGenerator, questions: int = 1, size: int = 2) -> list[tuple[Completion, ...]]:
    return made.generate([f"Question {number}?" for number in range(questions)], group_size=size, seed=1)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ── what is asked, and what comes back ────────────────────────────────────────────────────────────────────────────────
def test_each_question_gets_its_completions_from_as_many_requests() -> None:
    told: list[tuple[int, tuple[Completion, ...]]] = []
    with serving() as stub:
        made: Generator = generator(stub, temperature=0.7, top_p=0.9, stop=("\n\n",), extra_body='{"top_k": 4}')
        groups = made.generate(
            ["a?", "b?"], group_size=3, seed=1, ready=lambda number, group: told.append((number, group))
        )
    assert groups == [(SEVEN,) * 3] * 2
    assert sorted(told) == [(0, (SEVEN,) * 3), (1, (SEVEN,) * 3)]
    assert [asked.body["messages"][1]["content"] for asked in stub.asked].count("a?") == 3
    (body,) = {json.dumps({**asked.body, "messages": ()}, sort_keys=True) for asked in stub.asked}
    sent = {"model": "lab/tiny", "messages": (), "max_tokens": 256, "temperature": 0.7, "top_p": 0.9, "stop": ["\n\n"]}
    assert json.loads(body) == {**sent, "messages": [], "top_k": 4}
    assert (made.name, made.tokenizer, made.repeats) == ("tiny", "", False)


PASSING = (
    *(stubs.killed, stubs.huge, throttled(0), refused(500), refused(503, retry_after="0"), stubs.raw(b"{")),
    stubs.raw(b"\x1f\x8b", content_encoding="gzip"),
)
DECLINED = (refused(400, "too long"), refused(413), refused(422))
BOTH = (SEVEN, SEVEN)


@pytest.mark.parametrize(
    ("fault", "first", "asked"),
    [*((fault, BOTH, 7) for fault in PASSING), *((fault, (), 5) for fault in DECLINED)],
)
def test_a_request_that_failed_once_is_repeated_and_a_question_that_is_declined_given_up_but_not_the_others(
    fault: Fault, first: tuple[Completion, ...], asked: int
) -> None:
    with serving(fault) as stub:
        assert ask(generator(stub, concurrency=1), questions=3) == [first, BOTH, BOTH]
    assert len(stub.asked) == asked


@pytest.mark.parametrize("fault", [stubs.killed, refused(500), stubs.raw(b"{")])
def test_a_request_is_repeated_as_often_as_asked_for_and_not_by_the_client(fault: Fault) -> None:
    with serving(then=fault) as stub:
        assert ask(generator(stub, retries=1), size=1) == [()]
    assert len(stub.asked) == 2


def test_a_reply_of_a_gigabyte_is_not_read() -> None:
    with serving(then=stubs.huge) as stub:
        made = generator(stub, retries=0)
        ask(made, size=1)  # what is imported for the first is none of the reply's
        tracemalloc.start()
        assert ask(made, size=1) == [()]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20 * 2**20


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("fault", [stubs.hanging, stubs.dripping])
def test_a_request_has_its_own_time(fault: Fault) -> None:
    with serving(fault) as stub:
        assert ask(generator(stub, request_timeout=0.2, concurrency=1, retries=100)) == [BOTH]


def test_what_is_not_there_when_patience_ends_is_left_out() -> None:
    with serving(good(), good(), then=stubs.hanging) as stub:
        made = generator(stub, clock=from_request(stub, 3), patience=0.2, concurrency=1)
        assert ask(made, questions=2) == [(SEVEN, SEVEN), ()]


def test_who_does_not_wait_any_more_pays_the_worst_case_of_what_is_under_way() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.write, GenerationCall(["?"], 2, 1))
            await until(lambda: len(stub.asked) == 2)
            tasks.cancel_scope.cancel()

    with serving(then=stubs.hanging) as stub:
        made = generator(stub)
        asyncio.run(main())
        assert (made.usage.requests, made.usage.tokens_out) == (2, 512)
        assert made.usage.tokens_estimated == made.usage.tokens


def test_while_an_endpoint_writes_the_node_computes_something_else() -> None:
    computed = threading.Event()

    def waiting(handler: Any, body: dict[str, Any]) -> None:
        assert computed.wait(PATIENCE), "the compute thread is not free"
        good()(handler, body)

    async def main(executor: ComputeExecutor) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.generate, generator(stub), GenerationCall(["?"], 1, 1))
            await until(lambda: stub.asked)
            await executor.run(computed.set)

    with serving(waiting) as stub, compute_thread() as thread:
        asyncio.run(main(ComputeExecutor(time.monotonic, thread)))
    assert computed.is_set()


# ── an endpoint that is not there ─────────────────────────────────────────────────────────────────────────────────────
def test_an_endpoint_that_is_down_costs_rounds_nothing_says_so_once_and_comes_back() -> None:
    with serving(*[refused(500)] * 3) as stub, capture_logs() as logs:
        made = generator(stub, breaker_failures=2, breaker_rest=0.05, concurrency=1)
        assert ask(made) == [()]
        while not all(ask(made)):
            pass
        assert ask(made) == [(SEVEN, SEVEN)]
    said = [line["event"] for line in logs if line["event"] in ("endpoint.down", "endpoint.back")]
    assert said == ["endpoint.down", "endpoint.back"]
    assert len(stub.asked) == 7


def test_nobody_at_the_address_is_said_with_the_reason_and_ends_nothing() -> None:
    made = generator(f"http://127.0.0.1:{unused_port()}/v1", api="auto")
    with capture_logs() as logs:
        checked = made.check()
        assert ask(made, questions=2) == [(), ()]
    assert isinstance(checked, Failure)
    assert "ConnectError" in checked.detail
    assert [line["event"] for line in logs] == ["endpoint.down"]
    assert made.usage.tokens == 0


def test_an_endpoint_that_hangs_costs_one_generation_its_patience_and_the_next_ones_nothing() -> None:
    with serving(then=stubs.hanging) as stub, capture_logs() as logs:
        made = generator(stub, clock=from_request(stub, 2), patience=0.2, breaker_rest=1e6, breaker_longest_rest=1e6)
        assert ask(made) == [()]
        asked = len(stub.asked)
        assert ask(made) == [()]
    assert len(stub.asked) == asked == 2
    assert [line["event"] for line in logs] == ["endpoint.down", "endpoint.generated"]


# ── the look at the start ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (refused(401, "Incorrect API key"), r"HTTP 401: Incorrect API key \(the key is read from the var"),
        (refused(404, "No such model."), r"HTTP 404: No such model\. \(is that the model's"),
        (refused(400, "Unsupported parameter: max_tokens"), "Unsupported parameter: max_tokens"),
        (refused(429, "insufficient_quota"), "HTTP 429: insufficient_quota"),
        (stubs.raw(b"<html>Welcome</html>"), "of another form: .*'<html>Welcome</html>'"),
        (stubs.redirecting("http://elsewhere.example/v1"), r"redirects to http://elsewhere\.example/v1; none is foll"),
    ],
)
def test_an_endpoint_that_refuses_everything_is_told_at_the_start(fault: Fault, said: str) -> None:
    with serving(then=fault) as stub, pytest.raises(ConfigError, match=said) as error:
        generator(stub, api="auto").check()
    assert stub.url in str(error.value)


@pytest.mark.parametrize(
    ("fault", "form"),
    [
        (stubs.by_form(good(), refused(404)), "chat"),
        (stubs.by_form(refused(400, "System role not supported"), refused(404), user=good()), "chat-user"),
        (stubs.by_form(refused(500, "Jinja template: no system role"), good(), user=good()), "chat-user"),
        (stubs.by_form(refused(404), good()), "completions"),
        (stubs.by_form(refused(400, "no chat template"), good()), "completions"),
    ],
)
def test_the_form_is_found_that_the_endpoint_takes(fault: Fault, form: str) -> None:
    with serving(then=fault) as stub:
        made = generator(stub, api="auto")
        assert made.check() == form
        assert ask(made) == [(SEVEN, SEVEN)]


def test_a_server_that_is_ill_is_not_taken_for_one_of_another_form() -> None:
    with serving(refused(500, "out of memory"), then=good()) as stub:
        made = generator(stub, api="auto", breaker_rest=1e-9)
        assert isinstance(made.check(), Failure)
        assert ask(made) == [(SEVEN, SEVEN)]
    assert {asked.path for asked in stub.asked} == {"/v1/chat/completions"}


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_totals_are_the_servers_own_and_go_on_in_the_next_life() -> None:
    with serving() as stub:
        first = generator(stub, price_in=1.0, price_out=10.0)
        ask(first)
        second = generator(stub, price_in=1.0, price_out=10.0)
        second.take_up(first.as_json())
        ask(second)
    usage = second.usage
    assert (usage.requests, usage.replies, usage.tokens_in, usage.tokens_out) == (4, 4, 80, 20)
    assert usage.tokens_estimated == 0
    assert usage.money == pytest.approx(280e-6)


def test_where_the_server_does_not_count_totals_are_estimates_and_say_so() -> None:
    with serving(then=good(text="x" * 300, usage={"prompt_tokens": "20", "completion_tokens": -1})) as stub:
        made = generator(stub)
        ask(made, size=1)
    assert made.usage.tokens_out == 100
    assert made.usage.tokens_in == 31  # of the instruction and the question, three bytes each
    assert made.usage.tokens_estimated == 131


def test_the_cap_ends_the_generation_with_what_is_complete_and_nothing_is_asked_any_more() -> None:
    with serving() as stub:
        made = generator(stub, cap_tokens=800, concurrency=1)
        groups = ask(made, questions=20, size=2)
        complete = sum(1 for group in groups if group)
        assert 0 < complete < 20
        assert groups == [(SEVEN, SEVEN)] * complete + [()] * (20 - complete)
        assert made.bill.closed, "the node ends after its round"
        assert 0 < made.usage.tokens <= 800
        asked = len(stub.asked)
        assert ask(made) == [()]
        next_life = generator(stub, cap_tokens=300, api="auto")
        next_life.take_up(made.as_json())
        with pytest.raises(SpendingCapError, match=r"cap_tokens 300, .*raise it"):
            next_life.check()
    assert len(stub.asked) == asked


# ── the key ───────────────────────────────────────────────────────────────────────────────────────────────────────────
KEY = "sk-0123456789-distinctive"


def test_the_key_is_sent_in_one_header_and_without_one_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-machine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-machine")  # the generator is given another environment
    with serving() as stub:
        ask(generator(stub, key=KEY), size=1)
        ask(generator(stub), size=1)
    with_key, without = (asked.headers for asked in stub.asked)
    assert with_key["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in without
    assert "machine" not in repr(stub.asked)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_takes_the_key_nowhere(status: int) -> None:
    with (
        serving() as other,
        serving(then=refused(status, location=f"http://localhost:{other.server_address[1]}/v1")) as stub,
    ):
        assert ask(generator(stub, key=KEY)) == [()]
    assert other.asked == []
    assert stub.asked


SPELT = "".join(f"\\u{ord(character):04x}" for character in KEY)


@pytest.mark.parametrize("spelt", [KEY, SPELT])
def test_a_server_that_repeats_the_key_does_not_bring_it_out(spelt: str, caplog: pytest.LogCaptureFixture) -> None:
    reply = b'{"choices": [{"message": {"content": "it is %s"}}]}' % spelt.encode()
    error_body = b'{"error": {"message": "Incorrect API key: %s"}}' % spelt.encode()
    with serving(stubs.raw(reply), then=stubs.raw(error_body, 401)) as stub, capture_logs() as logs:
        made = generator(stub, key=KEY)
        assert made.generate(["?"], group_size=1, seed=1)[0][0].text == "it is [key]"
        caplog.set_level("DEBUG")
        assert ask(made) == [()]
        with pytest.raises(ConfigError, match=r"Incorrect API key: \[key\]") as error:
            made.check()
    shown = [repr(logs), caplog.text, repr(made), repr(vars(made)), repr(error.value.__dict__), str(error.value)]
    assert KEY not in "".join(shown)
    assert {record.name.split(".")[0] for record in caplog.records} <= {"asyncio", "swarm"}


@pytest.mark.parametrize("before", range(300 - len(KEY), 300, 4))
def test_no_part_of_the_key_is_left_where_a_servers_words_are_cut(before: int) -> None:
    body = b'{"error": {"message": "%s%s"}}' % (b"x" * before, SPELT.encode())
    reply_body = b'{"choices": [{"message": {"content": "%s%s"}}]}' % (b"x" * (128 - 300 + before), SPELT.encode())
    with serving(stubs.raw(reply_body), then=stubs.raw(body, 401)) as stub, capture_logs() as logs:
        made = generator(stub, key=KEY, max_tokens=2)
        ((completion,),) = made.generate(["?"], group_size=1, seed=1)
        ask(made)
    assert KEY[:4] not in repr(logs) + completion.text
