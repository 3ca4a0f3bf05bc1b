"""An adapter as PEFT and inference servers read it: adapter_config.json beside adapter_model.safetensors.

Adapter, AdaptedBase ──adapter_config──▶ {"peft_type": "LORA", "base_model_name_or_path": MODEL_NAME, ...}
folder ──adapter_of──▶ SavedAdapter ──▶ load_model merges it into its base (swarm.policy.model)
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from swarm import forms
from swarm.errors import ModelError

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_LARGEST = 1 << 20


class SavedAdapter(msgspec.Struct, frozen=True):
    """What adapter_config.json says, as far as it matters here."""

    peft_type: str
    base_model_name_or_path: str
    r: int
    lora_alpha: float
    target_modules: list[str] | str
    bias: str = "none"
    use_rslora: bool = False
    use_dora: bool = False
    fan_in_fan_out: bool = False
    task_type: str = "CAUSAL_LM"
    lora_dropout: float = 0.0
    inference_mode: bool = True

    @property
    def scale(self) -> float:
        """What the product of its matrices is multiplied by."""
        return self.lora_alpha / (self.r**0.5 if self.use_rslora else self.r)

    def encoded(self) -> bytes:
        """As a file."""
        return msgspec.json.format(msgspec.json.encode(self))


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no whole model."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def adapter_of(folder: Path) -> SavedAdapter:
    """What a folder says of its adapter.

    Raises:
        ModelError: unreadable, or of a kind that swarm does not know.
    """
    try:
        with (folder / CONFIG).open("rb") as file:
            saved = forms.decode(file.read(_LARGEST), SavedAdapter)
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelError(f"adapter {folder}: {CONFIG} cannot be read: {error}") from error
    if saved.peft_type != "LORA" or saved.bias != "none" or saved.use_dora or saved.r < 1:
        raise ModelError(
            f"adapter {folder}: expected plain LoRA without biases, got peft_type {saved.peft_type}, "
            f"bias {saved.bias}, r {saved.r}, use_dora {saved.use_dora}. Merge it with PEFT, and name the result."
        )
    return saved


def target_modules(adapted: list[str], linear: list[str]) -> list[str]:
    """Endings of names that mean exactly these layers of a model's linear ones; else their whole names."""
    kinds = sorted({path.rsplit(".", 1)[-1] for path in adapted})
    meant = [path for path in linear if path.rsplit(".", 1)[-1] in kinds]
    return kinds if set(meant) == set(adapted) else sorted(adapted)
