"""Which log-prob does the model give to every completion token?

Two ways to the same numbers and gradients:

    shared  prompts ──once──▶ KV cache ──repeat per row──▶ completions attend to it; gradients flow through the cache
    plain   each row is one sequence, prompt + completion; what gradient checkpointing needs

Sizes as in batch.py, and hidden size D.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache

from swarm.policy.batch import MicroBatch
from swarm.policy.loss import chosen_logprobs
from swarm.policy.model import LanguageModel


def completion_logprobs(model: LanguageModel, batch: MicroBatch, *, temperature: float, share_prompts: bool) -> Tensor:
    """fp32 log-probs [M] at the temperature, row after row, of the real completion tokens alone."""
    hidden_N_T_D = _shared_hidden(model, batch) if share_prompts else _plain_hidden(model, batch)
    mask_N_T = batch.completion_mask
    return chosen_logprobs(
        hidden_N_T_D[mask_N_T],
        batch.completion_ids[mask_N_T],
        head=model.logits,
        vocabulary=model.module.get_output_embeddings().out_features,
        temperature=temperature,
    )


def select_rows(cache: DynamicCache, index_N: Tensor) -> None:
    """Make row n of the cache what row index_N[n] was; rows may repeat, and gradients flow back."""
    for layer in cache.layers:
        layer.keys = layer.keys.index_select(0, index_N)
        layer.values = layer.values.index_select(0, index_N)


def _shared_hidden(model: LanguageModel, batch: MicroBatch) -> Tensor:
    """Hidden states [N, T, D] that predict each completion token; every prompt runs once."""
    prompts, row_N = batch.prompts, batch.prompt_of_row
    cache = DynamicCache()
    hidden_K_P_D = model.hidden(prompts.ids, mask=prompts.mask, positions_B_T=prompts.positions, cache=cache)
    first_N_1_D = hidden_K_P_D[:, -1:].index_select(0, row_N)
    inputs_N_t = batch.completion_ids[:, :-1]  # t = T - 1: the last token predicts nothing that is trained
    if inputs_N_t.shape[1] == 0:
        return first_N_1_D
    select_rows(cache, row_N)
    mask, positions_N_t = _completion_frame(batch)
    rest_N_t_D = model.hidden(inputs_N_t, mask=mask, positions_B_T=positions_N_t, cache=cache)
    return torch.cat([first_N_1_D, rest_N_t_D], dim=1)


def _plain_hidden(model: LanguageModel, batch: MicroBatch) -> Tensor:
    """The same hidden states [N, T, D] from one forward pass over prompt + completion of each row."""
    prompts, row_N = batch.prompts, batch.prompt_of_row
    mask, positions_N_t = _completion_frame(batch)
    hidden = model.hidden(
        torch.cat([prompts.ids[row_N], batch.completion_ids[:, :-1]], dim=1),
        mask=mask,
        positions_B_T=torch.cat([prompts.positions[row_N], positions_N_t], dim=1),
    )
    return hidden[:, prompts.ids.shape[1] - 1 :]


def _completion_frame(batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """Mask [N, P + T - 1] over prompt and completion, and positions [N, T - 1] of the completion's inputs.

    The completion's right padding needs no masking: causal attention never looks at it from a real token.
    """
    prompt_mask_N_P = batch.prompts.mask[batch.prompt_of_row]
    ones_N_t = torch.ones_like(batch.completion_mask[:, :-1])
    length_N = batch.prompts.lengths[batch.prompt_of_row]
    positions_N_t = length_N[:, None] + torch.arange(ones_N_t.shape[1], device=length_N.device)
    return torch.cat([prompt_mask_N_P, ones_N_t], dim=1), positions_N_t
