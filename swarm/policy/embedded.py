"""The models that ship with swarm: ordinary Hugging Face folders inside the package, or inside one of its plugins.

The first two differ in architecture and tokenizer on purpose, so that a laptop can run a heterogeneous swarm without a
download.
`swarm.plugins.lab.warmup.build` made them and can make them again.

suited_learning_rate is Adam's step size where nobody chooses one, by kind of model and adapter, and suited_device where
they compute. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from swarm import entry_points
from swarm.errors import ModelError

EMBEDDED: tuple[str, ...] = (
    "tiny-2-qwen2",
    "tiny-2-gpt2",
    "tiny-2-qwen2-rare",
    "tiny-2-qwen2-content",
    "tiny-qwen2",
    "tiny-gpt2",
    "tiny-qwen2-rare",
)
"""Names that stand for a model inside this package; the first is what `swarm up` uses.

    tiny-2-qwen2, tiny-2-gpt2   rarely in the format that the verifier accepts, and rarely right: both can rise
    tiny-2-qwen2-rare           right in one of three, and hardly ever in that format: where sharing is studied, reward
                                is rare
    tiny-2-qwen2-content        nearly always in that format, and rarely right
    tiny-qwen2, tiny-gpt2, tiny-qwen2-rare   for the profile `tiny`, for runs begun with it; right in one of two

Those that lie in no folder of the core's are a plugin's, which registers each in `swarm.models`.
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|user|>{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}<|assistant|>{{ message['content'] }}<|endoftext|>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""User text and answer alone; system messages are ignored, since the models never saw any."""
FOR_OTHERS = "paper-2"
"""The profile for models that are not embedded: those of the embedded ones ask what they were made for."""


def made_for(model: str) -> str:
    """Returns the profile whose questions a model is asked where nobody chooses one."""
    if model not in EMBEDDED:
        return FOR_OTHERS
    return "tiny-3" if model.startswith("tiny-2-") else "tiny"


def any_embedded(models: Iterable[str]) -> bool:
    """Tells whether one of these models, at least, is embedded."""
    return any(name in EMBEDDED for name in models)


def all_embedded(models: Iterable[str]) -> bool:
    """Tells whether every one of these models is embedded."""
    return all(name in EMBEDDED for name in models)


def suited_device(named: str | None, models: Iterable[str]) -> str | None:
    """Returns the device that computes; None: the first GPU, if there is one. Where none is named, embedded models take
    the CPU: a GPU would wait for each next operation of models so small.

    Args:
        models: the one that a node trains; of several nodes: `cpu` only if all of them compute there.
    """
    return "cpu" if named is None and all_embedded(models) else named


def embedded_path(name: str) -> Path:
    """Returns the folder of an embedded model.

    Raises:
        ModelError: none has that name, or it is not installed.
        DanglingError: the plugin that has it is not there any more.
    """
    if name not in EMBEDDED:
        raise ModelError(f"no embedded model is called {name!r}; expected one of {', '.join(EMBEDDED)}")
    path = Path(str(files("swarm"))) / "assets" / "models" / name
    if not path.is_dir() and (entry := entry_points.bundled(entry_points.MODELS).get(name)):
        path = entry_points.load(entry)
    if not (path / "model.safetensors").is_file():
        raise ModelError(
            f"embedded model {name!r} is missing at {path}: install swarm again, with its plugins, or make it with "
            f"`swarm model build {path.parent} --names {name}`"
        )
    return path


LORA_FACTOR = 10
"""Factor of the rate of full fine-tuning, where no rate of adapters has been measured: "LoRA Without Regret" (Thinking
Machines, 2025) found its optimum at about ten times that of full fine-tuning, for supervised training and for RL."""
OTHERS_RATE = 1e-6
"""Of models that are not embedded: the policy's rate of GRPO (DeepSeekMath, arXiv:2402.03300, section 4.2), and the
default of TRL's GRPOTrainer."""
RATES: Mapping[str, float] = {
    "tiny-2-qwen2": 3e-4,
    "tiny-2-gpt2": 3e-4,
    "tiny-2-qwen2-rare": 2e-4,
    "tiny-2-qwen2-content": 3e-4,
    "tiny-qwen2": 3e-4,
    "tiny-gpt2": 2e-4,
    "tiny-qwen2-rare": 2e-4,
}
"""Measured: each learns within forty rounds, and not so fast that the first ten are over before one looks."""
ADAPTER_RATES: Mapping[str, float] = {"tiny-2-qwen2": 2e-3}
"""Measured: of 1e-3, 2e-3 and 3e-3 at rank 16 the one that learns most in forty rounds (benchmarks/results/README.md,
Adapters)."""


def suited_learning_rate(model: str, *, adapted: bool = False) -> float:
    """Returns the learning rate that suits a model, trained by itself or through an adapter."""
    full = RATES.get(model, OTHERS_RATE)
    return ADAPTER_RATES.get(model, full * LORA_FACTOR) if adapted else full
