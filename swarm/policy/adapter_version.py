"""An adapter at one moment, whatever is learned later: its files for a server, and whether completions are of it.

live adapter ──copy──▶ AdapterVersion ─┬▶ folder in PEFT's form ──▶ a server that generates with it
                                       └▶ its own log-probs of what came back: held against the server's
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save

from swarm.policy import peft_form
from swarm.policy.batch import BatchRow, split_rows, stack_rows
from swarm.policy.forward import completion_logprobs
from swarm.policy.generator import ModelGenerator
from swarm.policy.gradient import to_host
from swarm.policy.lora import Adapter
from swarm.policy.settings import GrpoConfig
from swarm.policy.snapshot import adapter_config


class Claimed(NamedTuple):
    """A completion, and what somebody says of its tokens."""

    prompt_ids: Sequence[int]
    token_ids: Sequence[int]
    logprobs: Sequence[float]


class AdapterVersion:
    """A copy, on the device of its base."""

    def __init__(self, generator: ModelGenerator, config: GrpoConfig) -> None:
        """Copies the adapter that the generator has now.

        Raises:
            ModelError: its weights have diverged.
        """
        live = generator.model.adapter
        assert isinstance(live, Adapter)
        if not live.is_finite(generator.model.autocast_dtype):
            raise generator.diverged()
        self._config = config
        self._model = replace(generator.model, adapter=copy.deepcopy(live))
        weights = {name: to_host(matrix).contiguous() for name, matrix in self._model.trained.items()}
        self._weights = save(weights, metadata={"format": "pt"})

    @cached_property
    def digest(self) -> str:
        """Returns SHA-256 of its weights."""
        return hashlib.sha256(self._weights).hexdigest()

    def write(self, folder: Path) -> None:
        """Writes its two files into an empty folder. Raises OSError."""
        (folder / peft_form.CONFIG).write_bytes(adapter_config(self._model))
        (folder / peft_form.WEIGHTS).write_bytes(self._weights)

    def generator(self) -> ModelGenerator:
        """Returns one that samples with it here."""
        return ModelGenerator(self._model, replace(self._config, decoding="dynamic"))

    @torch.no_grad()
    def gap(self, claims: Sequence[Claimed]) -> float:
        """Returns mean |own - claimed| log-prob over all of their tokens, nats; NaN of a policy that has diverged."""
        rows = [
            BatchRow(
                number, tuple(prompt), tuple(ids), range(len(ids)), 0.0, own=True, behaviour_logprobs=tuple(logprobs)
            )
            for number, (prompt, ids, logprobs) in enumerate(claims)
        ]
        found = torch.zeros((), dtype=torch.float64)
        with self._model.adapted():
            for part in split_rows(rows, max_positions=self._config.micro_batch_tokens, share_prompts=True):
                batch = stack_rows(part, self._model)
                own_M = completion_logprobs(
                    self._model, batch, temperature=self._config.temperature, share_prompts=True
                )
                found += (own_M - batch.behaviour_logprobs).abs().sum().cpu()
        return float(found) / max(1, sum(len(row.token_ids) for row in rows))
