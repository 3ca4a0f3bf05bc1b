"""What is sent, what replies say, and what settings are refused: pure functions of an endpoint."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.instruction import INSTRUCTION, OURS, Asking
from swarm.node.process.generator_only import endpoint_config
from swarm.remote.endpoint_config import FORMS, EndpointConfig, Form
from swarm.remote.endpoint_forms import TEMPLATE_TOKENS, cost_of, read_reply, request_body
from swarm.remote.key import Key
from swarm.remote.outcomes import Failure, Reply, failure_of, retry_after
from swarm.types import Completion, Dialogue, Turn


def config(**settings: Any) -> EndpointConfig:
    return EndpointConfig(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})


def reply(content: object = "7", reason: object = "stop", form: Form = "chat", **more: Any) -> bytes:
    choice = {"text": content} if form == "completions" else {"message": {"content": content, **more}}
    return json.dumps({"choices": [{**choice, "finish_reason": reason}]}).encode()


def read(body: bytes, **settings: Any) -> Reply:
    outcome = read_reply(body, config(**settings), "chat", "1 + 1?")
    assert isinstance(outcome, Reply), outcome
    return outcome


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────────────────────────
DIALOGUE = Dialogue("1?", (Turn("2", True, "more"), Turn("3", False, "less")))
OWN = Asking(system_prompt="You sort.", instruction="Answer in <answer>." * 100)
PROMPTS = st.text() | st.builds(lambda text: Dialogue(text, DIALOGUE.turns), st.text())


def test_requests_have_the_form_that_the_endpoint_takes() -> None:
    made = config(temperature=None, max_tokens_field="max_completion_tokens", extra_body='{"top_k": 3}')
    later = [("assistant", "2"), ("user", "more"), ("assistant", "3"), ("user", "less")]
    common = {"model": "m", "max_completion_tokens": 256, "top_k": 3}
    chats: list[tuple[Form, list[tuple[str, str]]]] = [
        ("chat", [("system", INSTRUCTION), ("user", "1?")]),
        ("chat-user", [("user", f"{INSTRUCTION}\n\n1?")]),
    ]
    for form, turns in chats:
        for prompt, said in (("1?", turns), (DIALOGUE, [*turns, *later])):
            messages = [{"role": role, "content": text} for role, text in said]
            assert request_body(made, form, prompt) == {**common, "messages": messages}
    plain = OURS.as_plain_text("1?")
    for prompt, text in (("1?", plain), (DIALOGUE, f"{plain}2\n\nmore\nAnswer:3\n\nless\nAnswer:")):
        assert request_body(made, "completions", prompt) == {**common, "prompt": text}
    own = request_body(config(asking=OWN), "chat", "1?")["messages"]
    assert [turn["content"] for turn in own] == ["You sort.", f"{OWN.instruction}\n\n1?"]


@given(PROMPTS, st.sampled_from(FORMS), st.sampled_from([OURS, OWN]))
def test_the_worst_case_is_at_least_a_token_for_each_byte(prompt: str | Dialogue, form: Form, asking: Asking) -> None:
    question, said = (prompt.question, "2more3less") if isinstance(prompt, Dialogue) else (prompt, "")
    cost = cost_of(form, prompt, 9, asking)
    assert cost.prompt >= len((question + said + asking.told).encode()) + TEMPLATE_TOKENS
    assert cost.reply == 9


# ── what comes back ───────────────────────────────────────────────────────────────────────────────────────────────────
THOUGHT = reply("7", reasoning_content="one and one")


@pytest.mark.parametrize(
    ("body", "settings", "text", "finished"),
    [
        *((reply(reason=reason), {}, "7", True) for reason in ("stop", "eos")),
        *((reply(reason=reason), {}, "7", False) for reason in ("length", None, [], {})),
        *((reply(nothing), {}, "", True) for nothing in (None, "")),
        (reply([{"type": "text", "text": "a"}, {"text": "b"}, {"text": [1]}]), {}, "ab", True),
        (THOUGHT, {}, "7", True),
        (THOUGHT, {"reasoning": "keep"}, "<think>\none and one\n</think>\n\n7", True),
        (reply("7", reasoning_content=["x"]), {"reasoning": "keep"}, "7", True),
        (reply("x" * 129), {"max_tokens": 2}, "x" * 128, False),  # what peers take
    ],
)
def test_a_reply_is_a_completion_which_the_model_ended_where_the_server_says_so(
    body: bytes, settings: dict[str, Any], text: str, finished: bool
) -> None:
    assert read(body, **settings).completion == Completion(text, finished)


def test_reasoning_that_is_left_out_may_have_to_be_paid_for() -> None:
    assert read(THOUGHT).spent.reply == len("one and one7") / 3


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
FIELDS = st.sampled_from(
    (
        *("choices", "message", "content", "text", "usage", "finish_reason"),
        *("reasoning_content", "prompt_tokens", "completion_tokens"),
    )
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=30
)


@given(VALUES, st.sampled_from(FORMS))
def test_any_json_is_a_reply_or_a_failure(value: object, form: Form) -> None:
    for shape in (value, {"choices": [value]}, {"choices": [{"message": value, "text": value}], "usage": value}):
        outcome = read_reply(json.dumps(shape).encode(), config(), form, "?")
        if isinstance(outcome, Reply):
            outcome.completion.text.encode()
            assert len(outcome.completion.text) <= config().characters
        else:
            assert (outcome.kind, outcome.billed) == ("unreadable", True)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_reply_or_a_failure(body: bytes) -> None:
    assert isinstance(read_reply(body, config(), "chat", "?"), Reply | Failure)


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, float("inf")),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, wall=40.0) == seconds


@given(st.text(max_size=20), st.binary(max_size=50), st.integers(300, 599))
def test_any_error_is_a_failure_of_one_printable_line(header: str, body: bytes, status: int) -> None:
    failure = failure_of(status, {"retry-after": header, "location": header}, body, 0.0)
    assert failure.detail.isprintable()
    assert len(failure.detail) < 400
    assert not failure.billed


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (429, {}, "throttled"),
        (503, {"retry-after": "5"}, "throttled"),
        (503, {}, "down"),  # as llama.cpp's while it loads
        *((status, {}, "down") for status in (408, 409, 425, 500, 502, 504, 529)),
        *((status, {}, "refused") for status in (301, 307, 401, 402, 403, 404, 405, 501)),
        *((status, {}, "declined") for status in (400, 413, 415, 422)),
    ],
)
def test_a_status_says_what_follows(status: int, headers: dict[str, str], kind: str) -> None:
    assert failure_of(status, headers, b"", 0.0).kind == kind


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no such model", "code": 404}}', "HTTP 404: no such model"),
        (b'{"error": "model \\"x\\" not found"}', 'HTTP 404: model "x" not found'),
        (b'{"detail": "Not Found"}', "HTTP 404: Not Found"),
        (b"<html>\n  nginx\x1b[31m</html>", "HTTP 404: <html> nginx\ufffd[31m</html>"),
        (b"", "HTTP 404"),
    ],
)
def test_the_servers_own_words_are_told(body: bytes, said: str) -> None:
    assert failure_of(404, {}, body, 0.0).detail == said


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        *(({"base_url": url}, "base_url must be a URL such as") for url in ("127.0.0.1:8000", "ftp://x/v1")),
        ({"base_url": "http://[::1/v1"}, "base_url is no URL"),
        ({"model": ""}, "model must be a model's name"),
        ({"temperature": -1.0}, r"Expected `float` >= 0.0 - at `\$.temperature`"),
        ({"top_p": 0.0}, r"Expected `float` > 0.0 - at `\$.top_p`"),
        ({"patience": math.inf}, r"at `\$.patience`"),
        ({"retries": -1}, r"at `\$.retries`"),
        ({"cap_tokens": 0}, r"at `\$.cap_tokens`"),
        ({"requests_per_minute": 5}, "unknown key 'requests_per_minute'"),
        ({"max_token": 5}, "unknown key 'max_token'; did you mean 'max_tokens'"),
        ({"cap_money": 1.0}, "cap_money needs price_in and price_out"),
        ({"extra_body": "{"}, "extra_body is not JSON"),
        ({"extra_body": "[]"}, "must be a JSON object, got list"),
        ({"extra_body": '{"n": 8}'}, "must not set n"),
        ({"stop": ("</answer>",)}, "stop must be no part of `</answer>`"),
        ({"stop": ("",)}, "not empty"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], said: str) -> None:
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings}
    with pytest.raises(ConfigError, match=said):
        endpoint_config(Settings(endpoint=endpoint))
    config(stop=("</answer>",), extra_body='{"include_stop_str_in_output": true}')  # of servers that keep the string


def test_peers_see_no_path_of_this_machine() -> None:
    assert config(model="/home/anna/models/tiny-2-qwen2/").shown_name == "tiny-2-qwen2"
    assert config(model="Qwen/Qwen2.5-0.5B-Instruct").shown_name == "Qwen2.5-0.5B-Instruct"
    assert config(name="oracle").shown_name == "oracle"


# ── the key ───────────────────────────────────────────────────────────────────────────────────────────────────────────
SECRET = "sk-0123456789-distinctive"


@pytest.mark.parametrize(
    "settings",
    [
        {"key_variable": SECRET},
        {"base_url": f"https://anna:{SECRET}@example.org/v1"},
        {"base_url": f"https://example.org/v1?key={SECRET}"},
        {"base_url": f"https://example.org:{SECRET}/v1"},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        config(**settings)
    assert SECRET not in str(error.value)


def test_a_key_comes_from_the_variable_that_is_named() -> None:
    key = config().read_key({"OPENAI_API_KEY": f"{SECRET}\n"})
    assert key
    assert key.reveal() == SECRET
    for no_key in ("two words", "schl\u00fcssel"):
        with pytest.raises(ConfigError, match="is no key"):
            config().read_key({"OPENAI_API_KEY": no_key})
    assert config(key_variable="MINE").read_key({"OPENAI_API_KEY": SECRET}) is None
    assert config(key_variable="").read_key({"OPENAI_API_KEY": SECRET, "": SECRET}) is None


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.org/v1", True),
        *((f"http://{host}:8000/v1", True) for host in ("127.0.0.1", "[::1]", "localhost")),
        ("http://192.168.1.5:8000/v1", False),
        ("http://localhost.example.org/v1", False),
        ("http://llm.localhost/v1", False),  # which some resolvers ask a name server for
        ("http://127.0.0.1.example.org/v1", False),
    ],
)
def test_a_key_goes_unencrypted_to_this_machine_alone_unless_asked_for(url: str, allowed: bool) -> None:
    environ = {"OPENAI_API_KEY": SECRET}
    assert config(base_url=url).read_key({}) is None
    assert config(base_url=url, plain_http_key=True).read_key(environ)
    if allowed:
        assert config(base_url=url).read_key(environ)
    else:
        with pytest.raises(ConfigError, match="unencrypted") as error:
            config(base_url=url).read_key(environ)
        assert SECRET not in str(error.value)


def test_a_key_shows_itself_to_nobody() -> None:
    key = Key(SECRET)
    assert SECRET not in f"{key} {key!r}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert key.hidden_in(f"a {SECRET} b") == "a [key] b"
    assert Key("EMPTY").hidden_in("EMPTY set") == "EMPTY set"
