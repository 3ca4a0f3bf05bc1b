"""A node's completions from a server with a model inside, which applies adapters by the real peft."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import torch

from swarm.errors import GenerationServerError, ModelError
from swarm.node.process.system import ComputeExecutor, compute_thread
from swarm.policy.policy import JoinedPolicy
from swarm.policy.settings import LoraConfig
from swarm.remote.server import ServedGenerator
from swarm.types import Completion, Dialogue, GenerationCall, Groups, RemoteGenerator, Turn
from tests.engines.stub_vllm import Engine, good, serving
from tests.patience import PATIENCE
from tests.unit.node.nodes import until
from tests.unit.remote.factories import CONFIG, MODEL, QUESTIONS, ask, learn, neighbours, policy_of, served, server_of


# ── the same policy there as here ───────────────────────────────────────────────────────────────────────────────────
def test_in_fp32_the_servers_logprobs_are_the_trainers_to_rounding_update_after_update(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path)
        drifts = []
        for seed in range(3):
            groups = ask(policy, seed)
            assert {len(group) for group in groups} == {3}
            assert all(completion.token_ids for group in groups for completion in group)
            drifts.append(learn(policy, groups).logprob_drift)
        assert max(drifts) < 1e-4, drifts
        assert len(stub.history) == len(set(stub.history)) == 3, "each version has a name of its own"
        assert [body["model"] for body in stub.completions[::3]] == stub.history
        use = policy.take_use()
        assert use.gap is not None
        assert use.gap < 1e-5
        assert (use.retries, use.away) == (0, False)


def test_a_server_in_bf16_drifts_and_its_tokens_are_weighed_for_that(tmp_path: Path) -> None:
    with serving(Engine(MODEL, torch.bfloat16)) as stub:
        policy = served(stub, tmp_path)
        reports = [learn(policy, ask(policy, seed)) for seed in range(2)]
        use = policy.take_use()
        assert use.gap is not None
        assert 1e-4 < use.gap < 0.1
        for report in reports:
            assert report.logprob_drift > 1e-4
            assert report.importance_tokens == report.trained_tokens > 0
            assert report.importance_mean != 1.0
            assert report.importance_mean == pytest.approx(1.0, abs=0.1)


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


def test_a_stop_string_ends_a_completion_and_what_a_server_writes_behind_it_is_left_out(tmp_path: Path) -> None:
    def deaf(handler: Any, body: dict[str, Any]) -> None:
        body["stop"] = []
        good(handler, body)

    stopping = replace(CONFIG, max_new_tokens=40, stop=("e",))
    with serving(MODEL) as stub:
        policy = served(stub, tmp_path / "hears", stopping)
        expected = [one for group in ask(policy) for one in group]
        tokenizer = policy.generator.own.model.tokenizer  # type: ignore[attr-defined]
    stopped = [one for one in expected if "e" in one.text]
    assert all(one.finished and "e" not in tokenizer.decode((one.token_ids or ())[:-1]) for one in stopped)
    assert stopped
    with serving(MODEL, *[deaf] * 3) as stub:
        found = [one for group in ask(served(stub, tmp_path / "deaf", stopping)) for one in group]
    for one, same in zip(found, expected, strict=True):
        assert (one.text, one.token_ids, one.finished) == (same.text, same.token_ids, same.finished)
        assert one.logprobs == pytest.approx(same.logprobs, abs=1e-4), (
            "the server's batches differ, and its sums with them"
        )


def test_every_default_that_a_server_may_have_is_overruled(tmp_path: Path) -> None:
    with serving(MODEL) as stub:
        ask(served(stub, tmp_path))
        body = stub.completions[0]
        names = (
            *("temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
            *("presence_penalty", "frequency_penalty"),
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

    async def main(policy: JoinedPolicy) -> Groups:
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


def test_nodes_of_one_process_ask_at_the_same_time_each_with_its_own_adapter(tmp_path: Path) -> None:
    arrived = threading.Barrier(2)

    def together(handler: Any, body: dict[str, Any]) -> None:
        arrived.wait(PATIENCE)
        good(handler, body)

    async def main(policies: list[JoinedPolicy]) -> list[Groups]:
        found: dict[int, Groups] = {}

        async def generate(number: int) -> None:
            executor = ComputeExecutor(time.monotonic, thread, str(number))
            found[number] = await executor.generate(policies[number], GenerationCall(QUESTIONS[:1], 3, 5))

        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(generate, number)
        return [found[0], found[1]]

    with serving(MODEL) as stub, compute_thread() as thread:
        policies = neighbours(stub, tmp_path, "ab")
        for policy in policies:
            learn(policy, ask(policy))
        stub.plan.extend([together, together])
        for policy, groups in zip(policies, asyncio.run(main(policies)), strict=True):
            report = learn(policy, [*groups, *ask(policy)[1:]])
            assert report.trained_tokens > 0
            assert report.logprob_drift < 1e-4
        assert {body["model"].split(".")[1] for body in stub.completions} == {"a", "b"}


def test_a_node_that_is_cancelled_lets_go_of_a_server_that_hangs(tmp_path: Path, executor: ComputeExecutor) -> None:
    let_go = threading.Semaphore(0)

    def until_the_end(handler: Any, body: dict[str, Any]) -> None:
        if handler.connection.recv(1) == b"":
            let_go.release()
        handler.close_connection = True

    async def main(policy: JoinedPolicy, is_asked: Callable[[], bool]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.generate, policy, GenerationCall(QUESTIONS, 3, 1))
            await until(is_asked)
            tasks.cancel_scope.cancel()

    with serving(MODEL, *[until_the_end] * 3) as stub:
        asyncio.run(main(served(stub, tmp_path), lambda: len(stub.completions) == 3))
        assert all(let_go.acquire(timeout=PATIENCE) for _ in range(3)), "it would write on for nobody"
