"""Checkpoints of a policy: a folder of safetensors and JSON, nothing that runs code when it is read.

    {directory}/
      model/                  an ordinary Hugging Face folder: MODEL_NAME can point at it
        config.json generation_config.json tokenizer... model.safetensors
                              of an adapter, in PEFT's form: adapter_config.json tokenizer... adapter_model.safetensors
      optimizer.safetensors   first_moment/{parameter}, second_moment/{parameter}
      {part}.safetensors      what a plugin's part of the trainer remembers (parts.py)
      manifest.json           what and how far, with size and hash of these files; written last

Reading checks all of it before any weight changes.

write_merged writes an adapter and its base as one model, in the files that transformers reads.

folder of the adapter ──load_model──▶ base + B A alpha / r, fp32 ──▶ config.json, tokenizer..., model.safetensors
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from swarm import forms
from swarm.errors import CheckpointError, StoreError
from swarm.policy import peft_form
from swarm.policy.given_weights import named_weights
from swarm.policy.gradient import OptimizerState, to_host
from swarm.policy.lora import Adapter, adapted_layers
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.model_files import WEIGHTS as WHOLE
from swarm.policy.parts import TrainerPart
from swarm.policy.settings import LoraConfig, trained_as

FORMAT = 1
MODEL_DIR = "model"
WEIGHTS = f"{MODEL_DIR}/model.safetensors"
_ADAPTER = f"{MODEL_DIR}/{peft_form.WEIGHTS}"
OPTIMIZER = "optimizer.safetensors"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 64 << 20
"""Bytes; one has some 100 for each parameter."""
_FIRST, _SECOND = "first_moment/", "second_moment/"

_Layout = dict[str, tuple[str, tuple[int, ...]]]
"""dtype and shape of each tensor, by name."""


class FileStamp(msgspec.Struct, frozen=True):
    """Holds the size and digest of a complete copy of a file."""

    bytes: int
    sha256: str


class CheckpointManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint's table of contents."""

    format: int
    model: str
    architecture: str
    updates: int
    steps: dict[str, int]
    files: dict[str, FileStamp]
    base: str = ""
    """Base of an adapter: the SHA-256 of the frozen weights beside which it was trained."""
    adapter: LoraConfig | None = None
    """What it is; None: all weights were trained."""


@dataclass(frozen=True)
class PolicySnapshot:
    """Weights and optimizer at one moment, in host memory; see swarm.types.Snapshot."""

    model: str
    architecture: str
    weights: dict[str, Tensor]
    """The adapter's alone, where there is one."""
    base: str
    """Base as in CheckpointManifest."""
    adapter: LoraConfig | None
    """Adapter as in CheckpointManifest."""
    optimizer: OptimizerState
    model_files: Mapping[str, bytes]
    """The model folder but for its weights, as read_model_files gives it."""
    parts: Mapping[str, dict[str, Tensor]] = field(default_factory=dict)
    """File -> what a plugin's part remembers; empty: it has no file."""

    def write(self, directory: str) -> None:
        """Write the checkpoint into an existing empty directory; callable from any thread.

        Who wants it durable has to sync it, as `Store.put_bundle` does.

        Raises:
            CheckpointError: the directory cannot be written.
        """
        root = Path(directory)
        try:
            (root / MODEL_DIR).mkdir()
            for name, content in self.model_files.items():
                (root / MODEL_DIR / name).write_bytes(content)
            weights = _ADAPTER if self.base else WEIGHTS
            save_file(self.weights, root / weights, metadata={"format": "pt"})
            save_file(_moments(self.optimizer), root / OPTIMIZER)
            kept = {name: tensors for name, tensors in self.parts.items() if tensors}
            for name, tensors in kept.items():
                save_file(tensors, root / name)
            manifest = CheckpointManifest(
                format=FORMAT,
                model=self.model,
                architecture=self.architecture,
                updates=self.optimizer.updates,
                steps=self.optimizer.steps,
                files={name: _stamp(root / name) for name in (weights, OPTIMIZER, *kept)},
                base=self.base,
                adapter=self.adapter,
            )
            (root / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"checkpoint {directory}: cannot be written: {error}. Expected an existing, empty, writable directory "
                "with room for the weights and twice as much for the optimizer."
            ) from error


def read_model_files(model: LanguageModel) -> dict[str, bytes]:
    """Returns configuration and tokenizer as file contents by name. Training never changes them, so once is enough.

    They are not left to the writing thread, because no tokenizer promises that one thread may save what another uses.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if model.base:
            (folder / peft_form.CONFIG).write_bytes(adapter_config(model))
        else:
            # save_pretrained would refuse a generation config with which a model was nevertheless published
            model.module.config.to_json_file(folder / "config.json")
            model.module.generation_config.to_json_file(folder / "generation_config.json")
        model.tokenizer.save_pretrained(name)
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def capture(
    model: LanguageModel,
    optimizer: OptimizerState,
    model_files: Mapping[str, bytes],
    parts: Mapping[str, dict[str, Tensor]],
) -> PolicySnapshot:
    """Returns a snapshot of the model as it is now."""
    return PolicySnapshot(
        model=model.name,
        architecture=type(model.module).__name__,
        weights={name: to_host(tensor).contiguous() for name, tensor in live_weights(model).items()},
        base=model.base.digest if model.base else "",
        adapter=_config_of(model),
        optimizer=optimizer,
        model_files=model_files,
        parts=parts,
    )


def read(
    directory: str, model: LanguageModel, parts: Sequence[TrainerPart]
) -> tuple[dict[str, Tensor], OptimizerState, dict[str, dict[str, Tensor]]]:
    """Read a checkpoint and check that it is complete and of this very model and its parts; changes nothing.

    Returns:
        Weights by name, the optimizer's memory, and of each part its file's tensors, none where it remembers nothing.

    Raises:
        CheckpointError: missing, torn, of another version, of another model, or a part's file is not there or too many.
    """
    root = Path(directory)
    manifest = _read_manifest(root)
    _expect(root, "format", FORMAT, manifest.format, "Use the version of swarm that wrote it.")
    live, weights_file = live_weights(model), _ADAPTER if model.base else WEIGHTS
    states = {part.file: part.state() for part in parts}
    of_model = [
        ("model", model.name, manifest.model, _OTHER_MODEL),
        ("architecture", type(model.module).__name__, manifest.architecture, _OTHER_MODEL),
        ("what was trained", trained_as(_config_of(model)), trained_as(manifest.adapter), _OTHER_ADAPTER),
        ("SHA-256 of the frozen base", model.base.digest if model.base else "", manifest.base, _OTHER_BASE),
        *((part.file, bool(states[part.file]), part.file in manifest.files, part.remedy) for part in parts),
    ]
    unknown = manifest.files.keys() - {WEIGHTS, _ADAPTER, OPTIMIZER, *states}
    of_model += [(name, False, True, _OFF_HERE) for name in sorted(unknown)]
    for what, expected, got, remedy in of_model:
        _expect(root, what, expected, got, remedy, other_model=True)
    weights = _load(root, weights_file, manifest, _layout(live), live)
    trained = {name: live[name] for name in manifest.steps if name in live}
    _expect(root, "optimized parameters", sorted(manifest.steps), sorted(trained), _TORN)
    moment_layout = {prefix + name: kind for prefix in (_FIRST, _SECOND) for name, kind in _layout(trained).items()}
    moments = _load(root, OPTIMIZER, manifest, moment_layout, live)
    optimizer = OptimizerState(
        updates=manifest.updates,
        steps=manifest.steps,
        first_moments={name: moments[_FIRST + name] for name in manifest.steps},
        second_moments={name: moments[_SECOND + name] for name in manifest.steps},
    )
    kept = {name: _load(root, name, manifest, _layout(state), live) if state else {} for name, state in states.items()}
    return weights, optimizer, kept


@torch.no_grad()
def load_weights(model: LanguageModel, weights: Mapping[str, Tensor]) -> None:
    """Overwrite the live weights in place; names and shapes are known to fit."""
    for name, tensor in live_weights(model).items():
        tensor.copy_(weights[name])


def live_weights(model: LanguageModel) -> dict[str, Tensor]:
    """Returns the weights that training changes, by name: of an adapter its matrices alone."""
    return named_weights(model.module) if model.base is None else dict(model.trained)


def _config_of(model: LanguageModel) -> LoraConfig | None:
    return model.adapter.config if isinstance(model.adapter, Adapter) else None


def adapter_config(model: LanguageModel) -> bytes:
    """Returns the adapter_config.json of the model's adapter, as bytes, as PEFT reads it."""
    base, adapter = model.base, model.adapter
    assert base is not None
    assert isinstance(adapter, Adapter)
    return peft_form.SavedAdapter(
        peft_type="LORA",
        base_model_name_or_path=base.name,
        r=adapter.config.rank,
        lora_alpha=adapter.config.alpha,
        target_modules=peft_form.target_modules(list(base.layers), list(adapted_layers(base.name, model.module, None))),
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in base.layers.values()),
    ).encoded()


_OTHER_MODEL = "The checkpoint is of another model: set MODEL_NAME to the one that wrote it, or choose another NODE_ID."
_OTHER_ADAPTER = "Set these to what the checkpoint has, or choose another NODE_ID."
_OTHER_BASE = (
    "An adapter goes on beside the very weights it was trained with: set MODEL_NAME and SWARM_PRECISION to what wrote "
    "the checkpoint, or choose another NODE_ID."
)
_OFF_HERE = (
    "A feature that is off here wrote it: set its settings to what wrote the checkpoint, or choose another NODE_ID."
)
_TORN = "The checkpoint is incomplete or damaged: resume from an older one."


def _expect(path: Path, what: str, expected: object, got: object, remedy: str, *, other_model: bool = False) -> None:
    if expected != got:
        said = f"checkpoint {path}: {what}: expected {expected}, got {got}. {remedy}"
        raise CheckpointError(said, other_model=other_model)


def _layout(tensors: Mapping[str, Tensor]) -> _Layout:
    return {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}


def _moments(state: OptimizerState) -> dict[str, Tensor]:
    first = {_FIRST + name: moment for name, moment in state.first_moments.items()}
    return first | {_SECOND + name: moment for name, moment in state.second_moments.items()}


def _read_manifest(root: Path) -> CheckpointManifest:
    try:
        with (root / MANIFEST).open("rb") as file:
            return forms.decode(file.read(LARGEST_MANIFEST), CheckpointManifest)
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"checkpoint {root}: {MANIFEST} cannot be read: {error}. {_TORN}") from error


def _digest(file: BinaryIO, size: int) -> str:
    """Returns the digest of a file's first `size` bytes: who may write a file can make it grow without end while it is
    read."""
    digest = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)
        digest.update(piece)
    return digest.hexdigest()


def _load(
    root: Path, name: str, manifest: CheckpointManifest, expected: _Layout, live: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Returns the tensors of a file that is as its stamp says, and holds exactly what is expected.

    It is read, not mapped: whoever cuts a mapped file ends the process that looks into it (SIGBUS).

    Args:
        live: the weights that are trained, beside whose size no file may be far larger.
    """
    path = root / name
    stamp = _stamp(path, _most_bytes(live)) if path.is_file() else None
    _expect(root, f"stamp of {name}", manifest.files.get(name), stamp, _TORN)
    try:
        tensors: dict[str, Tensor] = load_file(path, backend="pread")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {path}: cannot be read: {error}. {_TORN}") from error
    got = _layout(tensors)
    for key in sorted(expected.keys() | got.keys()):
        _expect(path, f"tensor {key!r}", expected.get(key), got.get(key), _OTHER_MODEL, other_model=True)
    return tensors


def _most_bytes(live: Mapping[str, Tensor]) -> int:
    """Returns a size that no file of a checkpoint comes near: two moments of 8 bytes a weight, and its tables."""
    return sum(16 * tensor.numel() for tensor in live.values()) + (1 << 26)


def _stamp(path: Path, most: int = 1 << 62) -> FileStamp:
    """Raises CheckpointError: it cannot be read, or has more than `most` bytes, such as one hole of a terabyte."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size > most:
                raise CheckpointError(f"checkpoint {path}: expected at most {most} bytes, got {size}. {_TORN}")
            return FileStamp(bytes=size, sha256=_digest(file, size))
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: cannot be read: {error}. {_TORN}") from error


def write_merged(adapter: Path, target: Path, base: str | None = None, hub_token: str | None = None) -> int:
    """Write the whole model into an existing folder, in fp32; tied matrices once, as transformers ties them.

    Args:
        base: the model that it is added to; None: what the adapter names.

    Returns:
        How many files that were.

    Raises:
        ModelError: the adapter or its base cannot be had.
        StoreError: the folder cannot be written.
    """
    model = load_model(str(adapter), base=base, device="cpu", precision="fp32", hub_token=hub_token)
    files = read_model_files(model)
    weights = {name: tensor.detach().contiguous() for name, tensor in named_weights(model.module).items()}
    try:
        for name, content in files.items():
            (target / name).write_bytes(content)
        save_file(weights, target / WHOLE, metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot write the model to {target}: {error}") from None
    return len(files) + 1
