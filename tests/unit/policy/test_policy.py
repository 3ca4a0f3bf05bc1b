"""The policy as a node sees it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from swarm.instruction import Asking
from swarm.policy.generator import ModelGenerator
from swarm.policy.policy import JoinedPolicy, load_policy, make_policy
from swarm.policy.settings import GrpoConfig
from swarm.policy.trainer import ModelTrainer
from swarm.types import Completion, Dialogue, Ready, TrainGroup
from tests.unit.policy.factories import make_group, make_model


def test_bf16_trains_in_fp32_weights_on_what_it_generated() -> None:
    config = GrpoConfig(learning_rate=1e-3, max_new_tokens=16, importance_cap=2.0)
    policy = load_policy("tiny-qwen2", config, device="cpu", precision="bf16")
    (completions,) = policy.generate(["What is 1 + 1?"], group_size=4, seed=0)
    policy.begin_update([TrainGroup("What is 1 + 1?", completions, (1.0, -1.0, 0.5, -0.5))])
    report = policy.finish_update([make_group()])
    assert report.updated
    assert 0 < report.logprob_drift < 0.2
    assert report.importance_mean == pytest.approx(1, abs=0.05)
    assert {parameter.dtype for parameter in policy.generator.model.module.parameters()} == {torch.float32}


def test_an_engine_that_only_generates_and_one_that_only_trains_are_a_policy() -> None:
    model = make_model()
    written = (Completion("<answer>2</answer>", True), Completion("no", True))

    class Elsewhere:
        name, tokenizer, repeats, bill = "somewhere/else", "", False, None

        def has_room(self, prompt: str) -> bool:
            return True

        def generate(
            self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
        ) -> list[tuple[Completion, ...]]:
            return [written[:group_size] for _ in prompts]

    policy = JoinedPolicy(Elsewhere(), ModelTrainer(model, GrpoConfig()))
    (completions,) = policy.generate(["1 + 1?"], group_size=2, seed=0)
    report = policy.finish_update([TrainGroup("1 + 1?", completions, (1.0, -1.0))])
    assert (policy.name, report.updated, report.logprob_drift) == ("somewhere/else", True, 0.0)
    assert ModelGenerator(model, GrpoConfig()).generate(["?"], group_size=1, seed=0)


def test_a_policy_is_trained_on_the_prompt_that_it_was_asked_with() -> None:
    """Otherwise the trainer's log-probs are not those of the generator."""
    policy = make_policy(make_model(), GrpoConfig(asking=Asking("You sort.", "Answer."), stop=("a", "e", "i"), top_k=4))
    (completions,) = policy.generate(["c a b"], group_size=4, seed=0)
    report = policy.finish_update([TrainGroup("c a b", completions, (1.0, -1.0, 0.5, -0.5))])
    assert report.trained_tokens == sum(len(one.token_ids or ()) for one in completions)
    assert report.logprob_drift < 1e-4
