"""Random tiny models and byte-level tokenizers, made on the spot: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from swarm.policy.model import LanguageModel, wrap_model
from swarm.policy.settings import GrpoConfig
from swarm.policy.static_decode import Replay, Step
from swarm.policy.trainer import ModelTrainer
from swarm.types import Completion, TrainGroup

EOS = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM_TEMPLATE = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
NO_SYSTEM_TEMPLATE += CHAT_TEMPLATE
ARCHITECTURES = ("qwen2", "gpt2", "llama")
CPU = torch.device("cpu")

torch.set_num_threads(1)  # tiny tensors gain nothing from more, and lose much on a busy machine


def make_tokenizer(*, chat_template: str | None = None, pad: bool = False, eos: bool = True) -> Any:
    """256 bytes, no merges, and the special tokens; without chat template and pad token it is like GPT-2's."""
    vocabulary = {token: index for index, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = {"eos_token": EOS} if eos else {}
    special |= {"pad_token": "<|pad|>"} if pad else {}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = chat_template
    return tokenizer


SHAPE = {
    "vocab_size": 264,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
}
"""Of a tiny model, as most architectures call it."""


def make_config(architecture: str, *, vocabulary: int = 264, context: int = 512, dropout: float = 0.0) -> Any:
    """A configuration with two layers of 32."""
    if architecture == "gpt2":
        sizes = {"vocab_size": vocabulary, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": context}
        dropped = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), dropout)
        return GPT2Config(**sizes, **dropped, bos_token_id=None, eos_token_id=None)
    shape = SHAPE | {"vocab_size": vocabulary, "max_position_embeddings": context, "attention_dropout": dropout}
    if architecture == "sliding":  # a window shorter than the prompts of the tests
        return MistralConfig(**shape, sliding_window=24)
    return {"qwen2": Qwen2Config, "llama": LlamaConfig}[architecture](
        **shape, tie_word_embeddings=architecture != "llama"
    )


def make_module(architecture: str = "qwen2", *, seed: int = 0, config: Any = None, scale: float = 4.0) -> Any:
    """A random model whose weights are large enough for its tokens to be far from equally likely."""
    torch.manual_seed(seed)
    module = AutoModelForCausalLM.from_config(config or make_config(architecture))
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 2:
                parameter.mul_(scale)
    return module


def make_model(
    architecture: str = "qwen2",
    *,
    seed: int = 0,
    tokenizer: Any = None,
    max_new_tokens: int = 12,
    eos_ids: tuple[int, ...] = (),
    **config: Any,
) -> LanguageModel:
    """A LanguageModel on the CPU; eos_ids are further tokens that end a completion, so that some random ones do."""
    module = make_module(architecture, seed=seed, config=make_config(architecture, **config))
    module.generation_config.eos_token_id = list(eos_ids) or None
    return wrap_model(
        f"tiny-{architecture}", module, tokenizer or make_tokenizer(), device=CPU, max_new_tokens=max_new_tokens
    )


def make_group(
    prompt: str = "What is 1 + 1?",
    texts: tuple[str, ...] = ("<answer>2</answer>", "three", "no"),
    advantages: tuple[float, ...] | None = (1.0, -0.25, -0.75),
    *,
    finished: bool = True,
) -> TrainGroup:
    """An external group: text alone."""
    completions = tuple(Completion(text, finished) for text in texts)
    return TrainGroup(prompt, completions, advantages or (0.0,) * len(texts), external=True)


def make_trainer(model: LanguageModel, **settings: Any) -> ModelTrainer:
    """A trainer whose steps are large enough to be seen."""
    return ModelTrainer(model, GrpoConfig(**{"learning_rate": 1e-3, "max_grad_norm": 1e9} | settings))


def gradient_of(model: LanguageModel, groups: Sequence[TrainGroup], **settings: Any) -> dict[str, torch.Tensor]:
    """The gradient of one update by parameter, read off Adam's first moment, which is 0.1 x gradient after one step."""
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    trainer = make_trainer(model, **settings)
    assert trainer.finish_update(groups).updated
    model.module.load_state_dict(before)
    return {name: moment / 0.1 for name, moment in trainer.state().first_moments.items()}


def largest_gap(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    """Largest difference between two gradients, relative to the largest entry."""
    assert left.keys() == right.keys()
    scale = max(tensor.abs().max().item() for tensor in left.values())
    return max((left[name] - right[name]).abs().max().item() for name in left) / scale


class FakeCapture:
    """Records steps as CUDA graphs are, but on the CPU: a replay runs the step again and returns nothing."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, step: Step) -> Replay:
        self.recorded += 1
        return lambda: self.replay(step)

    def replay(self, step: Step) -> None:
        """Tests of broken graphs do something else here."""
        self.replayed += 1
        step()
