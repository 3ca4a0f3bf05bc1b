"""An adapter as PEFT and inference servers read it: adapter_config.json beside adapter_model.safetensors.

Adapter, AdaptedBase ──adapter_config──▶ {"peft_type": "LORA", "base_model_name_or_path": MODEL_NAME, ...}
folder ──adapter_of──▶ SavedAdapter ─┬ plain LoRA ─▶ given_weights merges it into its base
                                     └ anything else ─▶ refused: PEFT alone knows what its keys mean

PEFT has some fifty keys, and every version adds some. Plain is an adapter none of whose keys says anything else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from swarm import forms
from swarm.errors import ModelError
from swarm.harmless import printable

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_LARGEST = 1 << 20
_READ = frozenset(
    {"peft_type", "base_model_name_or_path", "r", "lora_alpha", "target_modules", "use_rslora"}
)  # by merging a plain one
_OF_TRAINING = frozenset(
    {"task_type", "auto_mapping", "peft_version", "revision", "inference_mode", "lora_dropout", "fan_in_fan_out"}
    | {"megatron_core", "qalora_group_size", "runtime_config", "ensure_weight_tying"}
)
"""Keys that change nothing of what a saved adapter computes, or only beside another key that does."""
_SAME_BASE = (None, True, False, "gaussian", "orthogonal", "eva")
"""Ways to begin (`init_lora_weights`) that leave the base as it is; what saved them begins elsewhere no more."""
_ALL_LINEAR = "all-linear"
_LONGEST = 60

Form = TypeVar("Form")


class SavedAdapter(msgspec.Struct, frozen=True):
    """Holds what adapter_config.json says, as far as it matters here."""

    peft_type: str
    base_model_name_or_path: str
    r: int = 0
    lora_alpha: float = 0.0
    target_modules: list[str] | str | None = None
    bias: str = "none"
    use_rslora: bool = False
    use_dora: bool = False
    fan_in_fan_out: bool = False
    task_type: str | None = "CAUSAL_LM"
    lora_dropout: float = 0.0
    inference_mode: bool = True

    @property
    def scale(self) -> float:
        """Returns the factor of its matrices' product."""
        return self.lora_alpha / (self.r**0.5 if self.use_rslora else self.r)

    def encoded(self) -> bytes:
        """Encodes it as the bytes of the file."""
        return msgspec.json.format(msgspec.json.encode(self))


def is_adapter(folder: Path) -> bool:
    """Tells whether a folder holds an adapter and no whole model."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def adapter_of(folder: Path) -> SavedAdapter:
    """Reads what a folder says of its adapter, of any kind.

    Raises:
        ModelError: unreadable.
    """
    return _read(folder, SavedAdapter)


def not_plain(folder: Path) -> list[str]:
    """Returns what a folder's adapter has beyond plain LoRA of linear layers, each as `key = value`.

    Raises:
        ModelError: unreadable.
    """
    saved = adapter_of(folder)
    if saved.peft_type != "LORA":
        return [f"peft_type = {printable(saved.peft_type)}"]
    said = _read(folder, dict[str, Any])
    odd = {key: value for key, value in said.items() if key not in _READ | _OF_TRAINING and _says_something(key, value)}
    if saved.r < 1:
        odd["r"] = saved.r
    if isinstance(saved.target_modules, str) and saved.target_modules != _ALL_LINEAR:
        odd["target_modules"] = saved.target_modules
    return [f"{printable(key)} = {printable(json.dumps(value))[:_LONGEST]}" for key, value in sorted(odd.items())]


def not_merged(odd: Sequence[str]) -> str:
    """Returns why an adapter that has this beyond plain LoRA is not opened, and what to do."""
    return (
        f"its adapter is more than plain LoRA ({', '.join(odd)}): merge it with PEFT (merge_and_unload), save the "
        "whole model, and name that as MODEL_NAME"
    )


def _says_something(key: str, value: Any) -> bool:
    if key == "init_lora_weights":
        return value not in _SAME_BASE
    return value not in (None, False, "none", [], {})


def _read(folder: Path, form: type[Form]) -> Form:
    try:
        with (folder / CONFIG).open("rb") as file:
            return forms.decode(file.read(_LARGEST), form)
    except (OSError, RecursionError, msgspec.MsgspecError) as error:
        raise ModelError(f"adapter {folder}: {CONFIG} cannot be read: {error}") from error


def target_modules(adapted: list[str], linear: list[str]) -> list[str]:
    """Endings of names that mean exactly these layers of a model's linear ones; else their whole names."""
    kinds = sorted({path.rsplit(".", 1)[-1] for path in adapted})
    meant = [path for path in linear if path.rsplit(".", 1)[-1] in kinds]
    return kinds if set(meant) == set(adapted) else sorted(adapted)
