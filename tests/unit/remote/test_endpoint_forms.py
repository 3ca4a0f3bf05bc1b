"""What is sent, what replies say, and what settings are refused: pure functions of an endpoint."""

from __future__ import annotations

import json
import math
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.instruction import INSTRUCTION, OURS, Asking
from swarm.node.process.generator_only import endpoint_config
from swarm.remote.endpoint_config import FORMS, EndpointConfig, Form
from swarm.remote.endpoint_forms import TEMPLATE_TOKENS, cost_of, read_reply, request_body, without_prompt
from swarm.remote.key import Key
from swarm.remote.outcomes import Failure, Reply, failure_of, retry_after
from swarm.types import Completion, Dialogue, Turn


def config(**settings: Any) -> EndpointConfig:
    return EndpointConfig(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})


def reply(content: object = "7", reason: object = "stop", form: Form = "chat", **more: Any) -> bytes:
    choice = {"text": content} if form == "completions" else {"message": {"content": content, **more}}
    return json.dumps({"choices": [{**choice, "finish_reason": reason}]}).encode()


def read(body: bytes, **settings: Any) -> Completion:
    return read_whole(body, **settings).completion


def read_whole(body: bytes, **settings: Any) -> Reply:
    outcome = read_reply(body, config(**settings), "chat", "1 + 1?")
    assert isinstance(outcome, Reply), outcome
    return outcome


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_requests_have_the_form_that_the_endpoint_takes() -> None:
    made = config(temperature=None, max_tokens_field="max_completion_tokens", extra_body='{"top_k": 3}')
    common = {"model": "m", "max_completion_tokens": 256, "top_k": 3}
    system, user = {"role": "system", "content": INSTRUCTION}, {"role": "user", "content": "1?"}
    assert request_body(made, "chat", "1?") == {**common, "messages": [system, user]}
    one = {"role": "user", "content": f"{INSTRUCTION}\n\n1?"}
    assert request_body(made, "chat-user", "1?") == {**common, "messages": [one]}
    assert request_body(made, "completions", "1?") == {**common, "prompt": OURS.as_plain_text("1?")}


@given(st.text(), st.sampled_from(FORMS))
def test_the_worst_case_is_at_least_a_token_for_each_byte(question: str, form: Form) -> None:
    assert cost_of(form, question, 9).prompt >= len(question.encode()) + len(INSTRUCTION) + TEMPLATE_TOKENS
    assert cost_of(form, question, 9).reply == 9


def test_an_endpoint_is_told_what_the_user_says_and_that_is_paid_for_and_cut_off_again() -> None:
    asking = Asking(system_prompt="You sort.", instruction="Answer in <answer>." * 100)
    system, user = "You sort.", f"{asking.instruction}\n\n1?"
    messages = request_body(config(asking=asking), "chat", "1?")["messages"]
    assert [turn["content"] for turn in messages] == [system, user]
    assert cost_of("chat", "1?", 9, asking).prompt == len(system) + len(user) + TEMPLATE_TOKENS
    assert without_prompt(f"<|im_start|>system\n{system}<|im_end|>\n{user}<|im_end|>7", "chat", "1?", asking) == "7"


DIALOGUE = Dialogue("1?", (Turn("2", True, "more"), Turn("3", False, "less")))


def test_a_dialogue_is_sent_turn_by_turn_and_every_turn_is_paid_for() -> None:
    later = [
        {"role": role, "content": text}
        for role, text in (("assistant", "2"), ("user", "more"), ("assistant", "3"), ("user", "less"))
    ]
    for form in ("chat", "chat-user"):
        first = request_body(config(), form, "1?")["messages"]
        assert request_body(config(), form, DIALOGUE)["messages"] == [*first, *later]
    plain = OURS.as_plain_text("1?") + "2\n\nmore\nAnswer:3\n\nless\nAnswer:"
    assert request_body(config(), "completions", DIALOGUE)["prompt"] == plain
    for form in FORMS:
        assert cost_of(form, DIALOGUE, 9).prompt >= cost_of(form, "1?", 9).prompt + len("2more3less")


@pytest.mark.parametrize(
    ("form", "repeated"),
    [
        ("chat", f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\nuser\n1?<|im_end|>\nassistant\n2<|im_end|>\n"),
        ("chat", "<bos>user\n1?\nmodel\n2\n"),
        ("chat-user", f"[INST] {INSTRUCTION}\n\n1? [/INST]2</s>"),
    ],
)
def test_a_dialogue_in_front_of_the_reply_is_cut_off(form: Form, repeated: str) -> None:
    whole = f"{repeated}user\nmore\nassistant\n3\nuser\nless\nassistant\n"
    assert without_prompt(f"{whole}7", form, DIALOGUE) == "7"
    assert without_prompt(f"{repeated}7", form, DIALOGUE) == f"{repeated}7", "not the whole of it"


# ── what comes back ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("reason", "finished"), [("stop", True), ("eos", True), ("length", False), (None, False), ([], False), ({}, False)]
)
def test_a_completion_is_finished_where_the_server_says_that_the_model_ended_it(reason: object, finished: bool) -> None:
    assert read(reply(reason=reason)).finished is finished


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ("", ""), ([{"type": "text", "text": "a"}, {"text": "b"}, {"text": [1]}], "ab")]
)
def test_a_reply_without_text_is_an_empty_completion(content: object, text: str) -> None:
    assert read(reply(content)).text == text


def test_reasoning_is_left_out_or_kept_in_front() -> None:
    body = reply("7", reasoning_content="one and one")
    assert read(body).text == "7"
    assert read(body, reasoning="keep").text == "<think>\none and one\n</think>\n\n7"
    assert read_whole(body).spent.reply == len("one and one7") / 3, "it may have to be paid for"
    assert read(reply("7", reasoning_content=["x"]), reasoning="keep").text == "7"


def test_a_long_reply_is_cut_to_what_peers_take_and_is_not_finished() -> None:
    cut = read(reply("x" * 1000), max_tokens=2)
    assert (len(cut.text), cut.finished) == (128, False)


def test_no_more_of_a_reply_is_looked_into_than_can_be_kept() -> None:
    """The pattern of a template's marks took 130 bytes of memory for each of them."""
    body = reply("<|user|>1 + 1?" + " " * 2_000_000)
    tracemalloc.start()
    cut = read_whole(body, max_tokens=2)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 * 2**20
    assert cut.completion == Completion("", finished=False)
    assert cut.spent.reply > 600_000, "what was written may have to be paid for"


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


# ── a prompt in front of the reply ────────────────────────────────────────────────────────────────────────────────────
SYSTEM, ASKED = INSTRUCTION, "What is 1 + 1?\nSay it."
ECHOES: list[tuple[Form, str]] = [
    ("chat", f"<|user|>{ASKED}<|assistant|>"),
    ("chat", f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{ASKED}<|im_end|>\n<|im_start|>assistant\n"),
    ("chat", f"system\n{SYSTEM}\nuser\n{ASKED}\nassistant\n"),
    ("chat", f"<s>[INST] <<SYS>>\n{SYSTEM}\n<</SYS>>\n\n{ASKED} [/INST]"),
    ("chat-user", f"<bos><start_of_turn>user\n{SYSTEM}\n\n{ASKED}<end_of_turn>\n<start_of_turn>model\n"),
    ("completions", OURS.as_plain_text(ASKED)),
]


@pytest.mark.parametrize(("form", "prompt"), ECHOES)
@pytest.mark.parametrize("answer", ["<answer>2</answer>", "assistants say 2", "", "2 <|user|>"])
def test_a_prompt_in_front_is_cut_off(form: Form, prompt: str, answer: str) -> None:
    assert without_prompt(prompt + answer, form, ASKED) == answer


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text", [f"{ASKED} Well, 2.", f"You ask: {ASKED}", "<answer>2</answer>", "", "<|user|>", f"{SYSTEM} <answer>"]
)
def test_what_a_model_says_by_itself_stays(form: Form, text: str) -> None:
    assert without_prompt(text, form, ASKED) == text


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
