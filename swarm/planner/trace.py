"""Trace an update of a model on tensors without data, in a process of its own: what its activations are.

    config.json ─▶ models of few layers, under FakeTensorMode ─┬▶ completion_logprobs' hidden states ─▶ backward
                                                               └▶ hidden states of prompts, without gradients
                   LiveBytes: every storage from its making to its end ──▶ peaks ──fit──▶ Footprint

The code that is traced is the trainer's own, an adapter's where one is trained; nothing about it is modelled. All
layers are taken to be alike, but for the first: before that of a frozen base nothing has a gradient. The head is left
out: its logits pass block by block, in a buffer of known size.
"""

from __future__ import annotations

import copy
import os
import sys
import weakref
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from swarm.config import load_settings
from swarm.planner.footprint import Footprint, Linear, MicroBatch, Peak, Way
from swarm.policy.attention import use_attention
from swarm.policy.batch import BatchRow
from swarm.policy.forward import hidden_states
from swarm.policy.gradient import enable_checkpointing
from swarm.policy.hub import cached_folder
from swarm.policy.lora import AdaptedBase, Adapter, adapted_layers, layer_size
from swarm.policy.model import LanguageModel, disable_dropout
from swarm.policy.model_files import resolve_model
from swarm.policy.peft_form import adapter_of, is_adapter
from swarm.policy.settings import LoraConfig, lora_config
from swarm.policy.stack import stack_rows

_SIZES = ((4, 64, 64, 32), (8, 96, 256, 32), (4, 64, 64, 256), (16, 256, 64, 32), (4, 64, 300, 256))
"""(prompts, rows, prompt tokens, new tokens) of the micro-batches that are traced."""
_LAYERS = 2
"""Layers of the smaller of the two models that are traced: neither of the two that are compared is the first."""
_READ = ((4, 64), (8, 64), (4, 256), (16, 300), (2, 600))
"""(prompts, tokens of each) that are read without gradients."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that operations make, until nothing refers to them."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        """`known` were there before and do not count."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        for tensor in known:
            self._seen[tensor.untyped_storage()] = 0
        self.live = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return result

    def take_peak(self) -> int:
        """Returns the highest point since the last call."""
        peak, self.peak = self.peak, self.live
        return peak

    def _add(self, storage: Any) -> None:
        if storage in self._seen:
            return
        size = self._seen[storage] = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self.live -= size


def trace(
    name: str, *, bf16: bool, eager: bool, hub_token: str | None = None, lora: LoraConfig | None = None
) -> Footprint:
    """Returns the footprint of an embedded model, a local folder or a hub id; its weights are never read.

    Args:
        lora: the adapter that is trained; None: all weights are.

    Raises:
        ModelError: no layer has the name of one of the adapter's targets.
    """
    source = cached_folder(name) or Path(resolve_model(name))
    if is_adapter(source):
        source = Path(resolve_model(adapter_of(source).base_model_name_or_path))
    config = AutoConfig.from_pretrained(str(source), token=hub_token, trust_remote_code=False)
    updates = [MicroBatch(prompts=k, rows=n, prompt_tokens=p, new_tokens=t) for k, n, p, t in _SIZES]
    read = [MicroBatch(prompts=k, rows=0, prompt_tokens=p, new_tokens=0) for k, p in _READ]
    shallow, deep = (Traced(config, layers=_LAYERS + more, bf16=bf16, eager=eager, lora=lora) for more in (0, 1))
    ends_read = [(shallow.reading(batch), deep.reading(batch)) for batch in read]
    kept = [(shallow.peaks(batch), deep.peaks(batch)) for batch in updates]
    shallow.recompute()
    deep.recompute()
    recomputed = [(shallow.peaks(batch), deep.peaks(batch)) for batch in updates]
    return Footprint(
        kept=_way(updates, kept),
        checkpointed=_way(updates, recomputed),
        reading=_peak(read, ends_read),
        adapter=_adapter_numbers(config, lora) if lora else 0,
    )


def _adapter_numbers(config: Any, lora: LoraConfig) -> int:
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)
    adapted = adapted_layers("traced", module, lora.targets)
    return sum(lora.rank * sum(layer_size(layer)) for layer in adapted.values())


def _way(batches: Sequence[MicroBatch], ends: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> Way:
    """Fits the (forward, backward) peaks of models of _LAYERS and of one more."""
    forward = [(one[0], two[0]) for one, two in ends]
    backward = [(one[1], two[1]) for one, two in ends]
    return Way(_peak(batches, forward), _peak(batches, backward))


def _peak(batches: Sequence[MicroBatch], ends: Sequence[tuple[int, int]]) -> Peak:
    """Fits the highest points of models of _LAYERS and of one more."""
    layer = [two - one for one, two in ends]
    edges = [one - _LAYERS * each for (one, _), each in zip(ends, layer, strict=True)]
    return Peak(_fit(batches, edges), _fit(batches, layer))


def _fit(batches: Sequence[MicroBatch], values: Sequence[int]) -> Linear:
    """Least squares; of equal solutions that of least norm."""
    terms = torch.tensor([[1, b.positions, b.keys, b.pairs] for b in batches], dtype=torch.float64)
    scale = terms.amax(dim=0)
    target = torch.tensor(values, dtype=torch.float64)
    solution = torch.linalg.lstsq(terms / scale, target, driver="gelsd").solution / scale
    return Linear(*(round(value, 3) for value in solution.tolist()))


class Traced:
    """A model of so many layers whose updates are watched, on tensors without data."""

    def __init__(self, config: Any, *, layers: int, bf16: bool, eager: bool, lora: LoraConfig | None = None) -> None:
        config = copy.deepcopy(config)
        text = config.get_text_config()
        text.num_hidden_layers = layers
        if types := getattr(text, "layer_types", None):
            text.layer_types = (types * layers)[:layers]
        implementation = "eager" if eager else None
        kind = AutoModelForCausalLM.from_config  # its module is imported by the first of these, outside of the mode
        with torch.device("meta"):
            kind(config, attn_implementation=implementation)
        self._mode = FakeTensorMode()
        with self._mode:
            dtype = torch.bfloat16 if bf16 and lora else torch.float32  # as load_model has it
            module = kind(config, dtype=dtype, attn_implementation=implementation).eval()
            disable_dropout(module)
            packs = use_attention(module)
            base = AdaptedBase("traced", module, lora.targets) if lora else None
            adapter = Adapter(base, lora, device=torch.device("cpu"), seed=0) if base and lora else None
            trained = adapter.parameters().values() if adapter else module.parameters()
            for parameter in trained:
                parameter.register_post_accumulate_grad_hook(_drop_gradient)  # gradients are the plan's own line
        if not lora:
            module.get_input_embeddings().requires_grad_(False)  # its gradient would hide all else
            module.enable_input_require_grads()
        self._weights: list[nn.Parameter] = [*module.parameters(), *(trained if lora else ())]
        self._model = LanguageModel(
            name="traced",
            module=module,
            tokenizer=None,
            device=torch.device("cpu"),
            autocast_dtype=torch.bfloat16 if bf16 else None,
            eos_ids=frozenset(),
            eos_id=0,
            pad_id=0,
            context=2**31,
            max_new_tokens=1,
            tokenizer_digest="",
            packs=packs,
            base=base,
            adapter=adapter,
        )

    def reading(self, batch: MicroBatch) -> int:
        """Returns the highest point of reading prompts into a cache, which is part of it, bytes."""
        prompts, tokens = batch.prompts, batch.prompt_tokens
        with self._mode, torch.no_grad():
            gauge = LiveBytes([*self._weights, *self._model.module.buffers()])
            ids, mask = torch.zeros(prompts, tokens, dtype=torch.long), torch.ones(prompts, tokens, dtype=torch.bool)
            positions = torch.arange(tokens).expand(prompts, -1)
            with gauge:
                self._model.hidden(ids, mask=mask, positions_B_T=positions, cache=DynamicCache())
                return gauge.take_peak()

    def recompute(self) -> None:
        """Recompute activations from now on."""
        enable_checkpointing(self._model)
        self._model.module.train()

    def peaks(self, batch: MicroBatch) -> tuple[int, int]:
        """Returns the highest points of forward and backward pass, bytes."""
        model, tensors = self._model, stack_rows(_rows(batch), self._model).forward
        with self._mode:
            gauge = LiveBytes([*self._weights, *model.module.buffers()])
            tensors = _without_data(tensors, self._mode)
            with gauge, model.autocast(), model.adapted():
                hidden_M_D = hidden_states(model, tensors)
                forward = gauge.take_peak()
                torch.autograd.backward(hidden_M_D, torch.ones_like(hidden_M_D))
                return forward, gauge.take_peak()


def _drop_gradient(parameter: Tensor) -> None:
    parameter.grad = None


def _rows(batch: MicroBatch) -> list[BatchRow]:
    """Returns all of full length, but for every other prompt, so that there is padding to be masked."""
    return [
        BatchRow(
            group=n % batch.prompts,
            prompt_ids=(0,) * (batch.prompt_tokens - n % batch.prompts % 2),
            token_ids=(0,) * batch.new_tokens,
            written=range(batch.new_tokens),
            advantage=1.0,
            own=True,
            behaviour_logprobs=None,
        )
        for n in range(batch.rows)
    ]


def _without_data(part: Any, mode: FakeTensorMode) -> Any:
    """Returns the same with tensors without data, at any depth of dataclasses and lists."""
    if isinstance(part, Tensor):
        return mode.from_tensor(part)
    if isinstance(part, list):
        return [_without_data(one, mode) for one in part]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{name: _without_data(value, mode) for name, value in vars(part).items()})
    return part


if __name__ == "__main__":
    asked = load_settings({}, os.environ)
    found = trace(
        asked.model[0],
        bf16="bf16" in sys.argv,
        eager=asked.attention == "eager",
        hub_token=asked.hub_token,
        lora=lora_config(asked),
    )
    sys.stdout.buffer.write(msgspec.json.encode(found))
