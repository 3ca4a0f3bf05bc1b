"""The loss of one update and its gradient, written once more: in float64, one unpadded sequence at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from swarm.instruction import OURS
from swarm.policy.model import LanguageModel
from swarm.types import Completion, TrainGroup, Turn


@dataclass
class Naive:
    """One completion, token by token; of a conversation all of its turns."""

    group: TrainGroup
    ids: list[int]
    trained: list[bool]
    behaviour: list[float | None]
    advantage: float

    @property
    def places(self) -> list[int]:
        """Of the tokens that the model wrote."""
        return [place for place, trained in enumerate(self.trained) if trained]

    def logprobs(self, module: Any, temperature: float) -> list[torch.Tensor]:
        """Of these tokens."""
        logits = module(input_ids=torch.tensor([self.ids]), use_cache=False).logits[0] / temperature
        return [logits.log_softmax(-1)[place - 1, self.ids[place]] for place in self.places]


def written_out(model: LanguageModel, groups: Sequence[TrainGroup]) -> list[Naive]:
    return [
        _written_out(model, group, completion, advantage)
        for group in groups
        for completion, advantage in zip(group.completions, group.advantages, strict=True)
    ]


def _written_out(model: LanguageModel, group: TrainGroup, completion: Completion, advantage: float) -> Naive:
    tokenizer = model.tokenizer
    prompt = tokenizer(OURS.as_plain_text(group.prompt))["input_ids"]
    one = Naive(group, list(prompt), [False] * len(prompt), [None] * len(prompt), advantage)
    for turn in completion.every_turn:
        if turn.token_ids is not None and turn.logprobs is not None:
            ids, behaviour = list(turn.token_ids), list(turn.logprobs)
        else:
            ids = tokenizer(turn.text)["input_ids"] + [tokenizer.eos_token_id] * turn.finished
            behaviour = [None] * len(ids)
        one.ids += ids
        one.trained += [True] * len(ids)
        one.behaviour += behaviour
        if isinstance(turn, Turn):
            words = tokenizer(f"\n\n{turn.reply}\nAnswer:")["input_ids"]
            one.ids += words
            one.trained += [False] * len(words)
            one.behaviour += [None] * len(words)
    return one


Learned = Callable[[Naive, float, int], bool]
"""Whether a token of an external completion is learned from, by its log-prob and its number."""


def reference(
    model: LanguageModel,
    groups: Sequence[TrainGroup],
    loss: str = "grpo",
    *,
    before: Any = None,
    kl: float = 0.0,
    cap: float = 0.0,
    temperature: float = 1.0,
    learned: Learned = lambda *_: True,
) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradient.

    Args:
        before: the module that a KL term pulls towards.
        cap: of importance weights; 0: nothing is weighed.
    """
    module, initial = (copy.deepcopy(one).double() for one in (model.module, before or model.module))
    completions = written_out(model, groups)
    tokens = sum(len(one.places) for one in completions)
    total = torch.zeros((), dtype=torch.float64)
    for one in completions:
        if not one.places:
            continue
        logprobs, theirs = one.logprobs(module, temperature), one.logprobs(initial, temperature)
        shift = sum(logprob - logprob.detach() for logprob in logprobs) / len(logprobs)
        mean = sum(logprob.item() for logprob in logprobs) / len(logprobs)
        losses = [torch.zeros((), dtype=torch.float64)]
        for number, (place, logprob) in enumerate(zip(one.places, logprobs, strict=True)):
            if one.group.external and not learned(one, logprob.item(), number):
                continue
            ratio = (shift if loss == "gspo" else logprob - logprob.detach()).exp()
            gain = one.advantage * (logprob if loss == "cispo" else ratio)
            behaviour = one.behaviour[place]
            if cap and behaviour is not None:
                gain = gain * min(cap, (logprob.detach() - behaviour).exp().item())
            if loss == "grpo_masked" and one.group.external and one.advantage < 0 and mean < -2:
                gain = 0.0 * gain
            gap = theirs[number].detach() - logprob
            losses.append(-gain + kl * (gap.exp() - gap - 1))
        share = {
            "grpo": 1 / tokens,
            "cispo": 1 / tokens,
            "grpo_masked": 1 / tokens,
            "grpo_sequence": 1 / len(logprobs) / len(completions),
            "gspo": 1 / len(logprobs) / len(completions),
            "dr_grpo": 1 / len(completions) / model.max_new_tokens,
        }[loss]
        total = total + share * sum(losses)
    total.backward()
    return total.item(), {name: parameter.grad.float() for name, parameter in module.named_parameters()}
