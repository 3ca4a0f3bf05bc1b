"""Frozen bases: each is loaded once in a process, and all nodes that train an adapter beside it use the same weights.

SharedBases ──name, layers, way of loading──▶ SharedBase ──join──▶ LanguageModel of one node: base and its adapter
                                                  │
                                                  └─▶ all adapters stacked, at fixed addresses, for recorded steps
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from swarm.policy.decode import Decoding, choose_decoding
from swarm.policy.forward import DynamicDecoding
from swarm.policy.load_probe import tried_out
from swarm.policy.lora import AdaptedBase, Adapter, StackedAdapters
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.model_files import lasting_name
from swarm.policy.settings import LoraConfig
from swarm.policy.static_decode import StaticDecoding


class SharedBase:
    """One frozen model and the adapters beside it. The compute thread alone touches it."""

    def __init__(self, model: LanguageModel, base: AdaptedBase) -> None:
        self._model = replace(model, base=base)
        self._base = base
        self._adapters: list[Adapter] = []
        self._decodings: dict[str, Decoding] = {}

    def join(self, config: LoraConfig) -> LanguageModel:
        """Returns the model with a new adapter, which changes nothing yet."""
        adapter = Adapter(self._base, config, device=self._model.device, seed=config.seed)
        self._adapters.append(adapter)
        self._decodings.clear()  # they know the adapters that were there
        return replace(self._model, adapter=adapter)

    def _decoding(self, kind: str) -> Decoding:
        """Returns the decoding of all adapters; where nothing is recorded, it stands for one that knows those of a call
        alone."""
        if kind not in self._decodings:
            model = replace(self._model, adapter=StackedAdapters(self._adapters, self._model.autocast_dtype))
            self._decodings[kind] = choose_decoding(model, kind)
        return self._decodings[kind]

    @property
    def size(self) -> int:
        """Adapters beside it."""
        return len(self._adapters)

    def together(self, adapters: list[Adapter], kind: str) -> tuple[Decoding, list[int] | None]:
        """Returns the decoding with which some adapters generate, and the number of each of them there; None: there is
        one."""
        decoding = self._decoding(kind)
        if isinstance(decoding, StaticDecoding):
            return decoding, [self._adapters.index(adapter) for adapter in adapters]
        if len(adapters) == 1:
            return DynamicDecoding(replace(self._model, adapter=adapters[0])), None
        stacked = StackedAdapters(adapters, self._model.autocast_dtype)
        return DynamicDecoding(replace(self._model, adapter=stacked)), list(range(len(adapters)))


class SharedBases:
    """Keeps the shared bases of one process."""

    def __init__(self) -> None:
        self._loaded: dict[Hashable, SharedBase] = {}

    def join(self, name: str, config: LoraConfig, **loading: Any) -> tuple[SharedBase, LanguageModel]:
        """Returns a base, loaded if it is the first time, and the model of one more node beside it.

        Args:
            loading: as load_model.

        Raises:
            ModelError: the model cannot be loaded or used, or no layer has the name of a target.
        """
        key = (lasting_name(name), config.targets, *sorted(loading.items()))
        if key not in self._loaded:
            model = tried_out(load_model(name, frozen=True, **loading))
            self._loaded[key] = SharedBase(model, AdaptedBase(lasting_name(name), model.module, config.targets))
        return self._loaded[key], self._loaded[key].join(config)
