"""GRPO as one would first write it on transformers: the side that the product is measured against.

Every answer by a `model.generate` call of its own, one after the other; then one padded batch of all rows, prompt and
completion, zero advantage or not, whose full logits go through log-softmax; one backward pass, clip, AdamW.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from benchmarks.workload import Sizes
from swarm.policy.prompt import decode_completion, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion, Question, TrainGroup


class Naive:
    """A model, its tokenizer and AdamW."""

    def __init__(self, folder: Path, sizes: Sizes, config: GrpoConfig) -> None:
        self._config = config
        self._sizes = sizes
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.module: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        declared = self.module.generation_config.eos_token_id
        self._eos = sorted({*(declared if isinstance(declared, list) else [declared]), self.tokenizer.eos_token_id})
        self._optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )

    @torch.no_grad()
    def generate(self, questions: Sequence[Question], seed: int) -> list[tuple[Completion, ...]]:
        """G answers to each question, one call each."""
        torch.manual_seed(seed)
        how = GenerationConfig(
            do_sample=True,
            temperature=self._config.temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=self._sizes.max_new_tokens,
            eos_token_id=self._eos,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        answers = []
        for question in questions:
            ids_1_P = torch.tensor([encode_prompt(self.tokenizer, question.prompt)])
            mask_1_P = torch.ones_like(ids_1_P)
            rows = [
                self.module.generate(ids_1_P, attention_mask=mask_1_P, generation_config=how)[0]
                for _ in range(self._sizes.group_size)
            ]
            answers.append(tuple(self._completion(row[ids_1_P.shape[1] :].tolist()) for row in rows))
        return answers

    def train(self, groups: Sequence[TrainGroup]) -> float:
        """One update on all groups; the loss."""
        loss = self.backward(groups)
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self._config.max_grad_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return loss

    def backward(self, groups: Sequence[TrainGroup]) -> float:
        """Gradients of all rows in the parameters; the loss."""
        prompts = [encode_prompt(self.tokenizer, group.prompt) for group in groups for _ in group.completions]
        answers = [list(completion.token_ids or ()) for group in groups for completion in group.completions]
        ids_N_S, mask_N_S, answer_N_S = _rows(prompts, answers, self.tokenizer.pad_token_id)
        advantage_N = torch.tensor([advantage for group in groups for advantage in group.advantages])
        logits_N_S_V = self.module(input_ids=ids_N_S, attention_mask=mask_N_S, use_cache=False).logits
        logprob_N_s = (logits_N_S_V[:, :-1] / self._config.temperature).log_softmax(dim=-1)
        logprob_N_s = logprob_N_s.gather(2, ids_N_S[:, 1:, None]).squeeze(2)
        ratio_N_s = (logprob_N_s - logprob_N_s.detach()).exp()
        clipped_N_s = ratio_N_s.clamp(1 - self._config.clip_low, 1 + self._config.clip_high)
        gain_N_s = torch.minimum(ratio_N_s * advantage_N[:, None], clipped_N_s * advantage_N[:, None])
        real_N_s = answer_N_S[:, 1:]
        loss = -(gain_N_s * real_N_s).sum() / real_N_s.sum()
        torch.autograd.backward(loss)
        return loss.item()

    def _completion(self, ids: list[int]) -> Completion:
        finished = ids[-1] in self._eos
        text = decode_completion(self.tokenizer, ids[:-1] if finished else ids)
        return Completion(text, finished, tuple(ids))


def _rows(prompts: list[list[int]], answers: list[list[int]], pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask of the real ones, and mask of the answers, all [N, S], padded on the right."""
    length = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
    rows = [torch.tensor(prompt + answer) for prompt, answer in zip(prompts, answers, strict=True)]
    ids_N_S = torch.stack([pad(row, (0, length - len(row)), value=pad_id) for row in rows])
    position_S = torch.arange(length)
    begin_N, end_N = torch.tensor([len(prompt) for prompt in prompts]), torch.tensor([len(row) for row in rows])
    mask_N_S = position_S < end_N[:, None]
    return ids_N_S, mask_N_S, mask_N_S & (position_S >= begin_N[:, None])
