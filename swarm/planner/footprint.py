"""The activations of an update, for a micro-batch of any size: what one traced step of the model says.

    config.json, adapter ──swarm.planner.trace, in a child──▶ Footprint ──micro-batch, layers──▶ bytes

Activations are linear in three sums over a micro-batch: token positions, keys that rows attend to, and pairs of query
and key. So a few traces on tensors without data tell the factors for good. Those of the embedded models are part of
the package; others are traced once, which takes seconds, and remembered in the user's cache. No torch is imported here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.config import Settings, without_settings
from swarm.errors import ModelError
from swarm.planner.shape import ModelShape

TABLE = "assets/footprints.json"
_FORM = 4
"""Form of what is remembered."""
_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """The largest micro-batch of an update."""

    prompts: int
    """Prompts, each of which runs once for all its rows."""
    rows: int
    prompt_tokens: int
    new_tokens: int

    @property
    def positions(self) -> int:
        """Returns token positions in the forward pass."""
        return self.prompts * self.prompt_tokens + self.rows * self.new_tokens

    @property
    def keys(self) -> int:
        """Returns keys in memory: of prompts, and of each row its prompt's again."""
        return self.prompts * self.prompt_tokens + self.rows * (self.prompt_tokens + self.new_tokens)

    @property
    def pairs(self) -> int:
        """Returns pairs of query and key."""
        length = self.prompt_tokens + self.new_tokens
        return self.prompts * self.prompt_tokens**2 + self.rows * self.new_tokens * length


class Linear(msgspec.Struct, frozen=True, array_like=True):
    """Bytes as a linear function of a micro-batch."""

    fixed: float
    position: float
    key: float
    pair: float

    def of(self, batch: MicroBatch) -> float:
        """Bytes."""
        return self.fixed + self.position * batch.positions + self.key * batch.keys + self.pair * batch.pairs


NO_BYTES = Linear(0, 0, 0, 0)


class Peak(msgspec.Struct, frozen=True, array_like=True):
    """The highest point of one pass through a model of any depth."""

    edges: Linear
    """Beside the layers."""
    layer: Linear

    def of(self, batch: MicroBatch, layers: int) -> float:
        """Bytes."""
        return self.edges.of(batch) + layers * self.layer.of(batch)


class Way(msgspec.Struct, frozen=True, array_like=True):
    """One way of training: activations are kept, or recomputed."""

    forward: Peak
    backward: Peak

    def bytes(self, batch: MicroBatch, layers: int) -> int:
        """Returns the bytes of one micro-batch, without weights, gradients and logits."""
        return round(max(self.forward.of(batch, layers), self.backward.of(batch, layers), 0))


class Footprint(msgspec.Struct, frozen=True):
    """Holds the activations of a model, and how many numbers its adapter has."""

    kept: Way
    checkpointed: Way
    reading: Peak = Peak(NO_BYTES, NO_BYTES)
    """Activations of reading prompts before the first token is written, with the cache that comes of it."""
    adapter: int = 0
    """Numbers that an adapter trains; 0: there is none, and all of the model's are trained."""


def footprint(shape: ModelShape, settings: Settings, *, bf16: bool) -> Footprint:
    """Returns a model's footprint: out of the package, the user's cache, or a trace in a child process.

    Raises:
        ModelError: this architecture cannot be traced.
    """
    key = f"{shape.digest} {'bf16' if bf16 else 'fp32'} {'eager' if settings.attention == 'eager' else 'sdpa'}"
    if settings.adapter.kind != "none":
        key += f" {settings.adapter.kind} {settings.adapter.rank} {','.join(settings.adapter.targets or ('all',))}"
    table = forms.decode((Path(str(files("swarm"))) / TABLE).read_bytes(), dict[str, Footprint])
    return table.get(key) or _remembered(key, shape, settings, bf16=bf16)


def checkpoint_bytes(shape: ModelShape, settings: Settings) -> int:
    """Returns the bytes of one checkpoint on disk: the trained weights and Adam's two moments, in float32.

    Raises:
        ModelError: as footprint, of an adapter.
    """
    whole = settings.adapter.kind == "none"
    return 12 * (shape.parameters if whole else footprint(shape, settings, bf16=False).adapter)


def _remembered(key: str, shape: ModelShape, settings: Settings, *, bf16: bool) -> Footprint:
    asked = f"{_FORM} {key} torch {version('torch')} transformers {version('transformers')}"
    name = hashlib.sha256(asked.encode()).hexdigest()[:32] + ".json"
    file = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "swarm" / "footprints" / name
    with suppress(OSError, msgspec.MsgspecError):
        return forms.decode(file.read_bytes(), Footprint)
    traced = trace_in_child(replace(settings, model=(shape.name,)), bf16=bf16)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(f".{os.getpid()}")
        half.write_bytes(msgspec.json.encode(traced))
        half.rename(file)
    return traced


def trace_in_child(settings: Settings, *, bf16: bool) -> Footprint:
    """Trace the model of these settings in a process that may import torch. Raises ModelError if it cannot be done."""
    told = child_environment({**without_settings(os.environ), **settings.as_environment()})
    command = module_command("swarm.planner.trace", "bf16" if bf16 else "fp32")
    try:
        done = subprocess.run(command, check=False, capture_output=True, env=told, timeout=_TIMEOUT_S)
        return forms.decode(done.stdout, Footprint)
    except subprocess.TimeoutExpired as error:
        why = str(error)
    except msgspec.MsgspecError:
        why = ["it said nothing", *done.stderr.decode("utf-8", "replace").strip().splitlines()][-1]
    raise ModelError(f"model {settings.model[0]!r}: its activations cannot be traced: {why}")
