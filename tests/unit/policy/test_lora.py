"""Adapters: what PEFT computes from the same matrices, beside a base that several nodes share and nobody changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.together_drift import adapted
from swarm.errors import CheckpointError, ModelError
from swarm.policy import gradient
from swarm.policy.batch import encode_groups
from swarm.policy.generator import ModelGenerator
from swarm.policy.lora import AdaptedBase
from swarm.policy.model import LanguageModel, load_model, wrap_model
from swarm.policy.policy import JoinedPolicy
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.policy.shared_base import SharedBase, SharedBases
from swarm.policy.trainer import ModelTrainer
from swarm.types import GenerationCall
from tests.unit.policy.factories import ARCHITECTURES, CPU, make_group, make_model, make_module, make_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # which PEFT asks for

LORA = LoraConfig(rank=4, alpha=16)
GROUPS = [make_group(), make_group("Which is larger, 9 or 11?", ("a", "bc", "11"), (1.0, -1.0, 0.0))]
PROMPTS = ["What is 1 + 1?", "Sort: d b a c, and say which comes first of them all.", "?"]


def shared_base(
    architecture: str = "qwen2", *, precision: str = "fp32", targets: tuple[str, ...] | None = None
) -> SharedBase:
    module = make_module(architecture)
    options: dict[str, Any] = {"device": CPU, "max_new_tokens": 12, "precision": precision, "frozen": True}
    model = wrap_model(f"tiny-{architecture}", module, make_tokenizer(), **options)
    return SharedBase(model, AdaptedBase(architecture, module, targets))


def trained_model(shared: SharedBase, seed: int, config: LoraConfig = LORA) -> LanguageModel:
    """One node's."""
    return adapted(shared, config, seed, deviation=0.1)


def policy_of(shared: SharedBase, model: LanguageModel, **settings: Any) -> JoinedPolicy:
    config = GrpoConfig(**{"learning_rate": 1e-2, "adapter": LORA, "max_grad_norm": 1e9} | settings)
    return JoinedPolicy(ModelGenerator(model, config, None, shared), ModelTrainer(model, config))


def logits_of(model: LanguageModel, ids: Tensor) -> Tensor:
    positions = torch.arange(ids.shape[1])[None].expand_as(ids)
    with torch.no_grad():
        return model.logits(model.hidden(ids, mask=None, positions_B_T=positions))


def gradient_of(policy: JoinedPolicy) -> dict[str, Tensor]:
    """Of one update, read off Adam's first moment."""
    assert policy.finish_update(GROUPS).updated
    return {name: moment / 0.1 for name, moment in policy.snapshot().optimizer.first_moments.items()}


def as_peft(model: LanguageModel, shared: SharedBase, architecture: str, folder: Path) -> Any:
    from peft import PeftModel  # here: its import takes four seconds

    folder.mkdir()
    policy_of(shared, model).snapshot().write(str(folder))
    return PeftModel.from_pretrained(make_module(architecture), str(folder / "model"), is_trainable=True).eval()


def close(left: Tensor, right: Tensor, tolerance: float = 2e-5) -> bool:
    return (left - right).abs().max().item() <= tolerance * (1 + right.abs().max().item())


@pytest.mark.parametrize(
    ("architecture", "targets"),
    [
        *((architecture, None) for architecture in ARCHITECTURES),
        ("qwen2", ("q_proj", "down_proj")),
        ("llama", ("layers.1.self_attn.v_proj", "up_proj")),
        ("gpt2", ("attn.c_proj", "c_attn")),
    ],
)
def test_logits_logprobs_and_gradients_are_those_of_peft_on_the_same_weights(
    architecture: str, targets: tuple[str, ...] | None, tmp_path: Path
) -> None:
    shared = shared_base(architecture, targets=targets)
    model = trained_model(shared, 3)
    theirs = as_peft(model, shared, architecture, tmp_path / "saved")
    ids = torch.tensor([[5, 9, 11, 40, 7, 3]])
    assert close(logits_of(model, ids), theirs(input_ids=ids).logits)

    generator = policy_of(shared, model).generator
    ((first, second),) = generator.generate(PROMPTS[:1], group_size=2, seed=1)
    prompt = generator.encode(PROMPTS[0])
    for written in (first, second):
        all_logprobs = theirs(input_ids=torch.tensor([[*prompt, *written.token_ids]])).logits.log_softmax(-1)
        chosen = all_logprobs[0, len(prompt) - 1 : -1].gather(1, torch.tensor(written.token_ids)[:, None])[:, 0]
        assert close(torch.tensor(written.logprobs), chosen)

    encoded = encode_groups(GROUPS, model, all_rows=False, use_claims=False)
    loss = torch.zeros(())
    for row in encoded.rows:
        whole = torch.tensor([[*row.prompt_ids, *row.token_ids]])
        logprobs = theirs(input_ids=whole).logits.log_softmax(-1)[0, len(row.prompt_ids) - 1 : -1]
        loss = loss - row.advantage * logprobs.gather(1, torch.tensor(row.token_ids)[:, None]).sum()
    (loss / encoded.tokens).backward()
    trained = [(name, matrix) for name, matrix in theirs.named_parameters() if matrix.requires_grad]
    expected = {name.replace(".default", ""): matrix.grad for name, matrix in trained}
    ours = gradient_of(policy_of(shared, model))
    assert ours.keys() == expected.keys()
    assert all(close(ours[name], expected[name]) for name in ours)


def test_an_adapter_at_first_changes_nothing_and_then_never_the_base() -> None:
    shared = shared_base()
    policy, base = policy_of(shared, model := shared.join(LORA)), make_model()
    ids = torch.tensor([[5, 9, 11, 40]])
    assert torch.equal(logits_of(model, ids), logits_of(base, ids))
    for _ in range(3):
        policy.finish_update(GROUPS)
    assert not torch.equal(logits_of(model, ids), logits_of(base, ids))
    assert torch.equal(logits_of(replace(model, adapter=None), ids), logits_of(base, ids))
    assert all(parameter.grad is None for parameter in model.module.parameters())


def test_nodes_of_one_process_use_the_same_weights() -> None:
    bases = SharedBases()
    first, second = (bases.join("tiny-qwen2", LORA, device="cpu")[1] for _ in range(2))
    assert first.module is second.module
    other = bases.join("tiny-qwen2", replace(LORA, targets=("q_proj", "v_proj")), device="cpu")[1]
    assert other.module is not first.module
    assert len(other.trained) == 2 * 2 * other.module.config.num_hidden_layers


@pytest.mark.parametrize(("architecture", "decoding"), [("qwen2", "dynamic"), ("gpt2", "static")])
def test_what_a_node_writes_does_not_depend_on_who_is_in_its_batch(architecture: str, decoding: str) -> None:
    shared = shared_base(architecture)
    models = [trained_model(shared, seed, replace(LORA, rank=rank)) for seed, rank in ((1, 4), (2, 2), (3, 4))]
    policies = [policy_of(shared, model, decoding=decoding) for model in models]
    calls = [GenerationCall(PROMPTS[:count], 3, 10 + count) for count in (2, 3, 1)]
    generators = [policy.generator for policy in policies]
    together = ModelGenerator.generate_together(list(zip(generators, calls, strict=True)))
    for generator, call, groups in zip(generators, calls, together, strict=True):
        alone = generator.generate(call.prompts, group_size=call.group_size, seed=call.seed)
        assert not isinstance(groups, ModelError)
        assert [[one.token_ids for one in group] for group in groups] == [
            [one.token_ids for one in group] for group in alone
        ]
        for ours, theirs in zip(sum(groups, ()), sum(alone, ()), strict=True):
            assert close(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs))
    texts = {groups[0][0].token_ids for groups in together}
    assert len(texts) == 3  # another seed and another adapter each


def test_a_node_whose_adapter_diverged_fails_alone() -> None:
    shared = shared_base()
    sound, broken = trained_model(shared, 1), trained_model(shared, 2)
    with torch.no_grad():
        next(iter(broken.trained.values())).fill_(torch.nan)
    calls = [(policy_of(shared, model).generator, GenerationCall(PROMPTS, 2, 5)) for model in (sound, broken)]
    fine, error = ModelGenerator.generate_together(calls)
    alone = calls[0][0].generate(PROMPTS, group_size=2, seed=5)
    assert [one.token_ids for group in fine for one in group] == [one.token_ids for group in alone for one in group]
    assert isinstance(error, ModelError)
    assert "its weights have diverged" in str(error)


def test_groups_are_told_of_to_the_node_that_asked() -> None:
    shared, told = shared_base(), dict[tuple[int, int], Any]()
    calls = []
    for node in (0, 1):

        def tell(number: int, group: Any, node: int = node) -> None:
            told[node, number] = group

        generator = policy_of(shared, trained_model(shared, node)).generator
        calls.append((generator, GenerationCall(PROMPTS, 2, node, tell)))
    results = ModelGenerator.generate_together(calls)
    assert told == {(node, number): group for node, groups in enumerate(results) for number, group in enumerate(groups)}


def test_the_reference_of_a_kl_term_is_the_base_and_costs_no_copy() -> None:
    shared = shared_base()
    policy = policy_of(shared, model := shared.join(LORA), kl_weight=0.5)
    reports = [policy.finish_update(GROUPS) for _ in range(3)]
    assert reports[0].kl == pytest.approx(0, abs=1e-6)
    assert reports[2].kl > 1e-3
    assert gradient._reference(model).module is model.module


def test_recomputed_activations_give_the_same_gradient() -> None:
    settings: list[dict[str, Any]] = [{"gradient_checkpointing": on, "kl_weight": 0.1} for on in (False, True)]
    plain, recomputed = (
        gradient_of(policy_of(shared := shared_base(), trained_model(shared, 1), **chosen)) for chosen in settings
    )
    assert all(close(plain[name], recomputed[name]) for name in plain)


# ── half precision ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_a_frozen_base_is_held_in_what_it_computes_in(precision: str, dtype: torch.dtype) -> None:
    for frozen, expected in ((True, dtype), (False, torch.float32)):
        model = load_model("tiny-qwen2", device="cpu", precision=precision, frozen=frozen)
        assert {parameter.dtype for parameter in model.module.parameters()} == {expected}


def test_a_gradient_in_fp16_is_near_that_in_fp32() -> None:
    exact = gradient_of(policy_of(shared := shared_base(), trained_model(shared, 1)))
    coarse = gradient_of(policy_of(shared := shared_base(precision="fp16"), trained_model(shared, 1)))
    for name in exact:
        gap = (exact[name] - coarse[name]).norm() / exact[name].norm()
        assert gap < 0.05, name


def test_a_loss_that_overflows_in_fp16_is_scaled_down_until_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = policy_of(shared := shared_base(precision="fp16"), trained_model(shared, 1))
    expected = gradient_of(scaled)
    monkeypatch.setattr(gradient, "_LOSS_SCALE", 2.0**30)
    policy = policy_of(shared := shared_base(precision="fp16"), trained_model(shared, 1))
    policy.begin_update(GROUPS[:1])
    assert policy.finish_update(GROUPS[1:]).updated
    found = {name: moment / 0.1 for name, moment in policy.snapshot().optimizer.first_moments.items()}
    for name in expected:
        assert (expected[name] - found[name]).norm() < 0.05 * expected[name].norm(), name


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_training_goes_on_bit_for_bit_after_restore(tmp_path: Path) -> None:
    policy = policy_of(shared := shared_base(), shared.join(LORA))
    policy.finish_update(GROUPS)
    policy.snapshot().write(str(tmp_path))
    expected = [policy.finish_update(GROUPS) for _ in range(2)]
    resumed = policy_of(shared := shared_base(), shared.join(LORA))
    resumed.finish_update(GROUPS[:1])
    resumed.restore(str(tmp_path))
    assert [resumed.finish_update(GROUPS) for _ in range(2)] == expected
    ours, theirs = policy.snapshot().weights, resumed.snapshot().weights
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_checkpoint_holds_the_adapter_alone_as_peft_has_it(tmp_path: Path) -> None:
    shared = shared_base()
    policy_of(shared, shared.join(LORA)).snapshot().write(str(tmp_path))
    assert all("lora_" in name for name in load_file(tmp_path / "model" / "adapter_model.safetensors"))
    config = json.loads((tmp_path / "model" / "adapter_config.json").read_bytes())
    assert config["target_modules"] == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (4, 16.0, "qwen2")
    assert not list(tmp_path.rglob("model.safetensors"))


def test_a_checkpoint_of_another_base_or_of_a_whole_model_is_refused(tmp_path: Path) -> None:
    shared = shared_base()
    policy = policy_of(shared, shared.join(LORA))
    said = "SWARM_ADAPTER=lora SWARM_ADAPTER_RANK=4 SWARM_ADAPTER_ALPHA=16"
    for name, other, why in (
        ("full", make_model_policy(), rf"expected {said}, got SWARM_ADAPTER=none\. Set these"),
        ("base", other_base_policy(), r"frozen base: expected .*set MODEL_NAME"),
    ):
        (tmp_path / name).mkdir()
        other.snapshot().write(str(tmp_path / name))
        with pytest.raises(CheckpointError, match=why) as refused:
            policy.restore(str(tmp_path / name))
        assert refused.value.other_model
    (tmp_path / "adapter").mkdir()
    policy.snapshot().write(str(tmp_path / "adapter"))
    with pytest.raises(CheckpointError, match=f"expected SWARM_ADAPTER=none, got {said}"):
        make_model_policy().restore(str(tmp_path / "adapter"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"rank": 2}, "RANK=2"), ({"alpha": 8.0}, "ALPHA=8"), ({"targets": ("q_proj", "up_proj")}, "=q_proj,up_proj")],
)
def test_a_checkpoint_of_an_adapter_with_other_settings_is_refused(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    policy_of(shared := shared_base(), shared.join(LORA)).snapshot().write(str(tmp_path))
    config = replace(LORA, **changed)
    shared = shared_base(targets=config.targets)
    with pytest.raises(CheckpointError, match=f"expected SWARM_ADAPTER=lora .*{said}.*, got SWARM_ADAPTER=lora"):
        policy_of(shared, shared.join(config)).restore(str(tmp_path))
    again = policy_of(shared := shared_base(), shared.join(replace(LORA, seed=7)))
    again.restore(str(tmp_path))  # of a draw that is overwritten nothing depends


def make_model_policy() -> JoinedPolicy:
    model = make_model()
    return JoinedPolicy(ModelGenerator(model, GrpoConfig()), ModelTrainer(model, GrpoConfig()))


def other_base_policy() -> JoinedPolicy:
    module = make_module("qwen2", seed=5)
    model = wrap_model("tiny-qwen2", module, make_tokenizer(), device=CPU, frozen=True)
    shared = SharedBase(model, AdaptedBase("tiny-qwen2", module, None))
    return policy_of(shared, shared.join(LORA))


def test_a_target_that_no_layer_is_called_is_named_with_what_there_is() -> None:
    with pytest.raises(ModelError, match=r"SWARM_ADAPTER_TARGETS names 'c_attn'.*Expected some of .*q_proj"):
        shared_base(targets=("q_proj", "c_attn"))
