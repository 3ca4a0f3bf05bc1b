"""Puts the weights of a folder that anybody may have written into a model of one's own: numbers, and nothing else.

    a checkpoint's model ─▶ names and shapes in the header, held against the model ─▶ tensor by tensor, into its weights

Training changes weights alone. So a checkpoint's configuration, tokenizer, chat template and code are never opened: the
model that its node started from has the same, and that one is the user's own. A file is read, not mapped, since whoever
cuts a mapped file ends the process; nothing is allocated that the model does not have itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from swarm.errors import ModelError
from swarm.harmless import quoted
from swarm.policy.lora import adapted_layers, adapter_shapes, layer_size, merge, unmatched
from swarm.policy.model_files import WEIGHTS, header_bytes
from swarm.policy.peft_form import WEIGHTS as ADAPTER_WEIGHTS
from swarm.policy.peft_form import SavedAdapter, adapter_of, is_adapter, not_merged, not_plain

_Shapes = Mapping[str, tuple[int, ...]]
"""Shape of each tensor, by name."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""What safetensors calls the types that weights have."""
_A_TENSOR = 4096
"""Bytes that a header may need for one tensor, and for what else it says: a name, numbers, brackets."""


@torch.no_grad()
def take_weights(name: str, module: nn.Module, folder: Path) -> None:
    """Overwrite a model's weights by those of a checkpoint's model, or add a checkpoint's adapter to them.

    Raises:
        ModelError: they are not of this model, or cannot be read.
    """
    if is_adapter(folder):
        merge_adapter(name, module, folder, adapter_of(folder))
        return
    own = named_weights(module)
    with _opened(name, folder / WEIGHTS, {path: tuple(tensor.shape) for path, tensor in own.items()}) as given:
        for path, tensor in own.items():
            tensor.copy_(given.get_tensor(path))


def merge_adapter(name: str, module: nn.Module, folder: Path, saved: SavedAdapter) -> None:
    """Add a saved adapter to the weights of its base.

    Raises:
        ModelError: it is more than plain LoRA of linear layers, not of this base, or cannot be read.
    """
    missed = unmatched(module, saved.target_modules if isinstance(saved.target_modules, list) else ())
    if odd := not_plain(folder) or [f"target_modules = {quoted(target)}" for target in missed]:
        raise ModelError(f"model {name!r}: {not_merged(odd)}")
    targets = list(dict.fromkeys(saved.target_modules)) if isinstance(saved.target_modules, list) else None
    layers = adapted_layers(name, module, targets)
    largest = max(max(layer_size(layer)) for layer in layers.values())
    if saved.r > largest:
        raise ModelError(
            f"model {name!r}: an adapter of r {saved.r}: expected at most {largest}, a layer's largest side"
        )
    shapes = adapter_shapes(layers, saved.r)
    with _opened(name, folder / ADAPTER_WEIGHTS, shapes) as given:
        matrices: dict[str, Tensor] = {path: given.get_tensor(path) for path in shapes}
    merge(layers, matrices, saved.scale)


def named_weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; tied ones once, under their first name, as transformers ties them."""
    first_names: dict[int, str] = {}
    state = module.state_dict()
    for name, tensor in state.items():
        first_names.setdefault(tensor.data_ptr(), name)
    return {name: state[name] for name in first_names.values()}


@contextmanager
def _opened(name: str, file: Path, expected: _Shapes) -> Iterator[Any]:
    """A file of weights whose header names these tensors and no others, for the block.

    Raises:
        ModelError: it does not, or cannot be read, then or in the block.
    """
    try:
        if (size := header_bytes(file)) > (most := _A_TENSOR * (1 + len(expected))):
            raise ModelError(f"model {name!r}: a header of {size} bytes before the weights: expected at most {most}")
        with safe_open(file, framework="pt", backend="pread") as given:
            got = {path: tuple(given.get_slice(path).get_shape()) for path in given.keys()}  # noqa: SIM118 - no mapping
            if odd := sorted(path for path in expected.keys() | got.keys() if expected.get(path) != got.get(path)):
                raise ModelError(
                    f"model {name!r}: weights of another model: tensor {quoted(odd[0])}: expected "
                    f"{_said(expected.get(odd[0]))}, got {_said(got.get(odd[0]))}. Set MODEL_NAME to theirs"
                )
            if others := sorted({given.get_slice(path).get_dtype() for path in got} - FLOATS):
                raise ModelError(
                    f"model {name!r}: weights of type {others[0]}: expected one of {', '.join(sorted(FLOATS))}"
                )
            yield given
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"model {name!r}: its weights cannot be read: {error}") from None


def _said(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else f"the shape {list(shape)}"
