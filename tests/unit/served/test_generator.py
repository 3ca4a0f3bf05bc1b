"""A node's completions from a server with a model inside, which applies adapters by the real peft."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import torch

from swarm.endpoint.key import Key
from swarm.errors import GenerationServerError, ModelError
from swarm.node.process.executor import ComputeExecutor, compute_thread
from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.served import generator as generators
from swarm.served.config import ServerConfig
from swarm.served.generator import ServedGenerator
from swarm.served.policy import ServedPolicy, serve
from swarm.types import Completion, Dialogue, GenerationCall, Groups, RemoteGenerator, TrainGroup, Turn
from tests.engines.stub_vllm import (
    Fault,
    Stub,
    broken,
    changed,
    forgetting,
    good,
    hanging,
    raw,
    refused,
    serving,
)
from tests.patience import PATIENCE
from tests.unit.node.nodes import until

MODEL = "tiny-2-qwen2"
CONFIG = GrpoConfig(
    learning_rate=3e-3, max_new_tokens=12, importance_cap=2.0, adapter=LoraConfig(rank=4, alpha=8.0, seed=1)
)
QUESTIONS = ["What is 1 + 1?", "Sort: b a", "What is 20 - 7?"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "FIRST_PAUSE", 0.001)


def policy_of(config: GrpoConfig = CONFIG) -> JoinedPolicy:
    return load_policy(MODEL, config, threads=1, device="cpu")


def server_of(url: str, folder: Path, **more: Any) -> ServerConfig:
    return ServerConfig(url=url, folder=folder / "adapters", prefix="run.a", **{"patience": PATIENCE, **more})


def served(stub: Stub, folder: Path, config: GrpoConfig = CONFIG, **more: Any) -> ServedPolicy:
    return serve(policy_of(config), config, server_of(stub.url, folder, **more))


def ask(policy: ServedPolicy, seed: int = 1, size: int = 3) -> Groups:
    return policy.generate(QUESTIONS, group_size=size, seed=seed)


def learn(policy: JoinedPolicy, groups: Groups) -> float:
    """An update on made-up advantages; the largest difference of log-probs, trainer's and server's."""
    advantages = (1.0, -0.5, -0.5)
    train = [TrainGroup(question, group, advantages) for question, group in zip(QUESTIONS, groups, strict=True)]
    policy.begin_update(train)
    return policy.finish_update([]).logprob_drift


# ── the same policy there as here ───────────────────────────────────────────────────────────────────────────────────
def test_in_fp32_the_servers_logprobs_are_the_trainers_to_rounding_update_after_update(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        drifts = []
        for seed in range(4):
            groups = ask(policy, seed)
            assert {len(group) for group in groups} == {3}
            assert all(completion.token_ids for group in groups for completion in group)
            drifts.append(learn(policy, groups))
        assert max(drifts) < 1e-4, drifts
        assert len(stub.history) == len(set(stub.history)) == 4, "each version has a name of its own"
        assert [body["model"] for body in stub.completions[::3]] == stub.history
        use = policy.take_use()
        assert use.gap is not None
        assert use.gap < 1e-5
        assert (use.retries, use.away) == (0, False)


def test_the_adapter_is_applied_there_and_older_versions_go(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        for seed in range(3):
            learn(policy, ask(policy, seed))
        ask(policy)
        assert list(stub.loaded) == [stub.history[-1]]
        assert [path.name for path in (tmp_path / "adapters").iterdir()] == [stub.history[-1]]
        stale = stub.history[-1]
        stub.engine.load(stale, str(_fresh_adapter(tmp_path)))
        with pytest.raises(GenerationServerError, match=r"differ by 0.2 nats at most on the mean, got .* by run.a.3"):
            ask(policy, 20)


def _fresh_adapter(folder: Path) -> Path:
    """One that changes much."""
    config = replace(CONFIG, adapter=LoraConfig(rank=4, alpha=8.0, seed=9))
    policy = policy_of(config)
    generator: Any = policy.generator
    with torch.no_grad():
        for matrix in generator.model.adapter.up:
            matrix.normal_(generator=torch.Generator().manual_seed(1), std=0.5)
    served_by = ServedGenerator(generator, config, server_of("http://127.0.0.1:9", folder / "other"))
    return served_by.ask(GenerationCall([], 1, 0))._published.folder


def test_text_and_end_are_read_off_the_ids(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path, replace(CONFIG, max_new_tokens=5))
        completions = [one for group in ask(policy, size=8) for one in group]
        model = policy.generator.own.model  # type: ignore[attr-defined]
        assert {one.finished for one in completions} == {True, False}
        for one in completions:
            assert one.token_ids
            assert one.finished == (one.token_ids[-1] in model.eos_ids)
            assert one.finished or len(one.token_ids) == 5
            assert one.text == model.tokenizer.decode(one.token_ids, skip_special_tokens=True)


def test_a_stop_string_ends_a_completion_and_stays_in_it(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path, replace(CONFIG, max_new_tokens=40, stop=("e",)))
        completions = [one for group in ask(policy, size=8) for one in group]
        stopped = [one for one in completions if "e" in one.text]
        assert stopped
        model = policy.generator.own.model  # type: ignore[attr-defined]
        for one in stopped:
            assert one.finished
            assert one.token_ids
            assert "e" not in model.tokenizer.decode(one.token_ids[:-1]), "it ends with the token that completes it"
        assert {body["include_stop_str_in_output"] for body in stub.completions} == {True}


def test_what_a_server_writes_behind_a_stop_string_is_left_out(tmp_path: Path) -> None:
    def deaf(handler: Any, body: dict[str, Any]) -> None:
        body["stop"] = []
        good(handler, body)

    stopping = replace(CONFIG, max_new_tokens=40, stop=("e",))
    with serving(MODEL) as stub:
        expected = ask(served(stub, tmp_path / "hears", stopping))
    with serving(MODEL, *[deaf] * 3) as stub:
        assert ask(served(stub, tmp_path / "deaf", stopping)) == expected


def test_every_default_that_a_server_may_have_is_overruled(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        ask(served(stub, tmp_path))
        body = stub.completions[0]
        names = (
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
        )
        assert [body[name] for name in names] == [1.0, 1.0, 0, 0.0, 1.0, 0.0, 0.0]
        assert (body["n"], body["max_tokens"], body["return_token_ids"], body["logprobs"]) == (3, 12, True, 0)
        assert len({body["seed"] for body in stub.completions}) == 3


def test_a_dialogues_next_turn_is_asked_with_the_very_ids_of_those_before(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        (first,) = policy.generate(["Guess"], group_size=1, seed=3)
        said = first[0]
        turn = Turn(said.text, said.finished, "Higher.", said.token_ids, said.logprobs)
        (second,) = policy.generate([Dialogue("Guess", (turn,))], group_size=1, seed=4)
        before, after = (body["prompt"] for body in stub.completions)
        assert after[: len(before) + len(said.token_ids or ())] == [*before, *(said.token_ids or ())]
        assert len(second) == 1


def test_what_has_no_room_in_either_context_is_not_asked(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        stub.max_model_len = 8
        policy = served(stub, tmp_path)
        talk = Dialogue("Guess", (Turn("1", finished=True, reply="Higher."),))
        groups = policy.generate(["What is 1 + 1, or 2 + 2, or 3 + 3?", talk], group_size=2, seed=1)
        assert groups == [(Completion("", finished=False, token_ids=(), logprobs=()),) * 2, ()]
        assert not policy.has_room("What is 1 + 1?")
        assert stub.completions == []


def test_a_policy_that_diverged_is_not_published(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        generator: Any = policy.generator
        with torch.no_grad():
            generator.own.model.adapter.up[0].fill_(float("nan"))
        with pytest.raises(ModelError, match="its weights have diverged"):
            ask(policy)
        assert not stub.history


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────
PASSING: dict[str, Fault] = {
    "an error": refused(500),
    "overloaded": refused(429),
    "broken off": broken,
    "begun anew": forgetting,
    "garbage": raw(b"<html>"),
    "too few": changed(lambda reply: reply["choices"].pop()),
    "of the base": changed(lambda reply: reply.update(model="base")),
    "another prompt": changed(lambda reply: reply["choices"][0]["prompt_token_ids"].pop()),
    "a wild id": changed(lambda reply: reply["choices"][1]["token_ids"].__setitem__(0, 10**6)),
    "a log-prob of nothing": changed(
        lambda reply: reply["choices"][1]["logprobs"]["token_logprobs"].__setitem__(0, -9999.0)
    ),
    "log-probs missing": changed(lambda reply: reply["choices"][1]["logprobs"]["token_logprobs"].pop()),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_goes_wrong_once_is_asked_for_again_and_changes_nothing(tmp_path: Path, name: str) -> None:
    with serving(MODEL) as stub:
        expected = ask(served(stub, tmp_path / "whole"))
    with serving(MODEL, PASSING[name]) as stub:
        policy = served(stub, tmp_path / "broken")
        assert ask(policy) == expected
        assert policy.take_use().retries >= 1
        assert policy.take_use() == (0, None, False)


@pytest.mark.parametrize(
    "name", ["garbage", "too few", "of the base", "another prompt", "a wild id", "log-probs missing"]
)
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

    with (
        serving(MODEL, *[changed(shorter)] * 99) as stub,
        pytest.raises(GenerationServerError, match="limits of its own"),
    ):
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


def test_a_server_that_is_away_too_long_ends_the_node_with_what_to_do(tmp_path: Path) -> None:
    config = server_of(f"http://127.0.0.1:{closed_port()}", tmp_path, patience=0.05)
    policy = serve(policy_of(), CONFIG, config)
    with pytest.raises(
        GenerationServerError, match=r"no usable reply for 0.05 s.*SWARM_GENERATION_SERVER_AWAY=own"
    ) as raised:
        ask(policy)
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
    def hanging_once(handler: Any, body: dict[str, Any]) -> None:
        server._timeout = PATIENCE
        hanging(handler, body)

    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        expected = ask(policy)
        server: Any = policy.generator.server  # type: ignore[attr-defined]
        server._timeout = 0.5
        stub.plan.append(hanging_once)
        assert ask(policy) == expected
        assert policy.take_use().retries >= 1


# ── beside the rest of the node ─────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def executor() -> Iterator[ComputeExecutor]:
    with compute_thread() as thread:
        yield ComputeExecutor(time.monotonic, thread)


def test_while_the_server_writes_the_node_computes_something_else(tmp_path: Path, executor: ComputeExecutor) -> None:
    computed = threading.Event()

    def waiting(handler: Any, body: dict[str, Any]) -> None:
        assert computed.wait(PATIENCE), "the compute thread is not free"
        good(handler, body)

    async def main(policy: ServedPolicy) -> Groups:
        groups: list[Groups] = []

        async def generate() -> None:
            groups.append(await executor.generate(policy, GenerationCall(QUESTIONS, 3, 1)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(generate)
            await until(lambda: stub.completions)
            await executor.run(computed.set)
        return groups[0]

    with serving(MODEL, *[waiting] * 3) as stub:
        policy = served(stub, tmp_path)
        assert isinstance(policy, RemoteGenerator)
        groups = asyncio.run(main(policy))
        assert {len(group) for group in groups} == {3}


def test_a_node_that_is_cancelled_does_not_wait_for_a_server_that_hangs(
    tmp_path: Path, executor: ComputeExecutor
) -> None:
    async def main(policy: ServedPolicy, is_asked: Callable[[], bool]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.generate, policy, GenerationCall(QUESTIONS, 3, 1))
            await until(is_asked)
            tasks.cancel_scope.cancel()

    with serving(MODEL, *[hanging] * 3) as stub:
        asyncio.run(main(served(stub, tmp_path), lambda: len(stub.completions) == 3))
        assert not stub.released.is_set()
    gc.collect()


def test_a_policy_without_a_server_is_no_remote_generator() -> None:
    assert not isinstance(policy_of(), RemoteGenerator)
