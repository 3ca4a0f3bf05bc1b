"""What a generation server does wrong, and one that is away: nothing of it becomes a completion."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import GenerationServerError
from swarm.remote.key import Key
from swarm.remote.server import serve
from swarm.types import GenerationCall, Groups
from tests.engines.stub_openai import hanging, raw, refused
from tests.engines.stub_vllm import Fault, broken, changed, forgetting, good, serving
from tests.patience import PATIENCE
from tests.unit.remote.factories import CONFIG, MODEL, QUESTIONS, ask, learn, policy_of, served, server_of

# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────
PASSING: dict[str, Fault] = {
    "an error": refused(500),
    "overloaded": refused(429),
    "broken off": broken,
    "begun anew": forgetting,
    "garbage": raw(b"<html>"),
    "too few": changed(lambda reply: reply["choices"].pop()),
}


def test_what_goes_wrong_once_is_asked_for_again_and_changes_nothing(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        expected = ask(policy)
        policy.take_use()
        for name, fault in PASSING.items():
            stub.plan.append(fault)
            assert ask(policy) == expected, name
            assert policy.take_use().retries >= 1, name
            assert policy.take_use() == (0, None, False)


@pytest.mark.parametrize("name", ["garbage", "too few"])
def test_what_stays_wrong_ends_in_an_error_and_not_in_completions(tmp_path: Path, name: str) -> None:
    with serving(MODEL, *[PASSING[name]] * 99) as stub:
        policy = served(stub, tmp_path, plays_on=True)
        with pytest.raises(GenerationServerError, match=r"generation server http://127\.0\.0\.1") as raised:
            ask(policy)
        assert not raised.value.away
        assert len(stub.completions) <= 3 * len(QUESTIONS), "bounded"


def test_a_bad_request_is_not_repeated(tmp_path: Path) -> None:
    with serving(MODEL, *[refused(400, "max_tokens is too large")] * 99) as stub:
        policy = served(stub, tmp_path)
        with pytest.raises(GenerationServerError, match="HTTP 400: max_tokens is too large"):
            ask(policy)


def test_a_server_with_limits_of_its_own_is_told_of(tmp_path: Path) -> None:
    def shorter(reply: dict[str, Any]) -> None:
        for choice in reply["choices"]:
            choice.update(token_ids=[5], finish_reason="length")
            choice["logprobs"]["token_logprobs"] = [-1.0]

    words = "limits of its own"
    with serving(MODEL, *[changed(shorter)] * 99) as stub, pytest.raises(GenerationServerError, match=words):
        ask(served(stub, tmp_path))


def test_logprobs_at_another_temperature_are_found_out(tmp_path: Path) -> None:
    def raw_logprobs(handler: Any, body: dict[str, Any]) -> None:
        body["temperature"] = 3.0
        good(handler, body)

    words = "--logprobs-mode processed_logprobs"
    with serving(MODEL, *[raw_logprobs] * 99) as stub, pytest.raises(GenerationServerError, match=words):
        ask(served(stub, tmp_path), size=8)


def test_a_server_that_takes_no_adapters_is_refused_before_the_run(tmp_path: Path) -> None:
    with serving(MODEL, loads=False) as stub, pytest.raises(GenerationServerError) as raised:
        ask(served(stub, tmp_path))
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" in str(raised.value)


def test_a_folder_that_the_server_cannot_read_is_told_of(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        asked = policy.ask(GenerationCall(QUESTIONS, 3, 1))
        for file in (tmp_path / "adapters").rglob("adapter_config.json"):
            file.unlink()
        with pytest.raises(GenerationServerError, match=r"cannot read that folder: set SWARM_ADAPTER_FOLDER"):
            asyncio.run(asked.wait())


def test_a_wrong_key_is_refused_at_the_start_and_the_right_one_is_taken(tmp_path: Path) -> None:
    with serving(MODEL, key="right-and-long") as stub:
        with pytest.raises(GenerationServerError, match="HTTP 401"):
            served(stub, tmp_path, key=Key("wrong-and-long"))
        assert ask(served(stub, tmp_path, key=Key("right-and-long")))


def test_adapters_that_a_killed_life_left_there_are_unloaded(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        ask(served(stub, tmp_path))
        stub.loaded["run.b.0.aaaaaaaaaaaa"] = "of another node"
        left = dict(stub.loaded)
        policy = served(stub, tmp_path)
        assert list(stub.loaded) == ["run.b.0.aaaaaaaaaaaa"]
        ask(policy)
        assert stub.loaded == left, "the same weights have the same name"


# ── away ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def closed_port() -> int:
    with serving(MODEL) as stub:
        return int(stub.server_address[1])


@pytest.mark.parametrize("patience", [0.0, 0.05])
def test_a_server_that_is_away_too_long_ends_the_node_with_what_to_do(tmp_path: Path, patience: float) -> None:
    config = server_of(f"http://127.0.0.1:{closed_port()}", tmp_path, patience=patience)
    words = rf"no usable reply for {patience:g} s.*SWARM_GENERATION_SERVER_AWAY=own"
    with pytest.raises(GenerationServerError, match=words) as raised:
        ask(serve(policy_of(), CONFIG, config))
    assert raised.value.away


def test_only_where_it_is_said_does_the_node_generate_by_itself_and_with_the_weights_of_the_moment(
    tmp_path: Path,
) -> None:
    config = server_of(f"http://127.0.0.1:{closed_port()}", tmp_path, patience=0.05, plays_on=True)
    policy, alone = serve(policy_of(), CONFIG, config), policy_of()
    asked = policy.ask(GenerationCall(QUESTIONS, 3, 1))
    expected = alone.generate(QUESTIONS, group_size=3, seed=1)
    learn(policy, expected)  # while the server is waited for
    asyncio.run(asked.wait())
    assert asked.groups() == expected
    assert policy.take_use().away


def test_a_server_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    port = closed_port()
    policy = serve(policy_of(), CONFIG, server_of(f"http://127.0.0.1:{port}", tmp_path))
    result: list[Groups] = []
    thread = threading.Thread(target=lambda: result.append(ask(policy)))
    thread.start()
    with serving(MODEL, port=port) as stub:
        thread.join(PATIENCE)
        assert result
        assert stub.completions


def test_a_request_that_hangs_is_given_up_and_repeated(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path, patience=8.0)  # of which a request may take half
        expected = ask(policy)
        stub.plan.append(hanging)
        assert ask(policy) == expected
        assert policy.take_use().retries >= 1
