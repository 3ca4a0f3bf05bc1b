"""The gradient of rows of training data: summed over tokens, not yet divided, so that more rows can be added later.

    rows ──micro-batches──▶ log-probs ──▶ loss ──backward──▶ added to every parameter's `.grad`

Out of memory, the micro-batch is halved. What the broken pass has left in `.grad` is then part of a sum that nobody
knows, so all rows since `clear` are done again: none is lost and none counted twice. So they are where the gradient
overflows in fp16, with a loss of half the scale (arXiv:1710.03740, section 3.2).

Sizes: M completion tokens of one micro-batch, all of them written by models.

MeasuredHalves takes the gradient of an update in parts: own groups in two halves, external ones in two
halves and one by one.

    own A ──add──▶ sum 1 ──▶ own B ──add──▶ sum 2, own ──▶ external E ──add──▶ sum 3 ──▶ external F ──add──▶ sum 4

What is in the parameters' `.grad` is always the sum of all that was added, as in an update that is not measured; a part
is the difference of two such sums. Two copies of it are held at the most (sum 2 and sum 3), in fp32 on the device: 8
bytes for each trained weight. What they are for: swarm.algo.gradient_bias.

Optimizer turns a summed gradient into an update of the weights: scale ──▶ clip ──▶ AdamW at a scheduled learning rate.
"""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

import torch
from torch import Tensor

from swarm.algo.bounds import learned_tokens, without_gradient
from swarm.algo.gradient_bias import GradientProducts, estimated, halves
from swarm.algo.losses import LossInputs, LossSettings, importance_weight, kl_estimate, minimised
from swarm.algo.registry import loss
from swarm.errors import ModelError, SwarmError
from swarm.logs import get_logger
from swarm.policy.batch import BatchRow
from swarm.policy.device import Halvings, MemoryBudget
from swarm.policy.forward import completion_logprobs
from swarm.policy.model import LanguageModel
from swarm.policy.settings import GrpoConfig
from swarm.policy.stack import TensorBatch, positions_of, split_rows, stack_rows
from swarm.types import GradientEstimate

logger = get_logger(__name__)

_LOSS_SCALE = 2.0**12
"""In fp16 at first; the sum over tokens that it multiplies is not divided yet."""
_M_MMAP_THRESHOLD = -3
"""Option of glibc's malloc.h."""


@dataclass
class TokenSums:
    """Sums over tokens (and one maximum), on the device: reading them would wait for the GPU."""

    loss: Tensor
    """Loss of tokens that are learned from: what is minimised."""
    kl: Tensor
    clipped: Tensor
    clippable: Tensor
    """Tokens with an advantage that are learned from."""
    importance: Tensor
    """Sum of the weights of tokens whose behaviour log-probs are known."""
    drift: Tensor
    """Largest |trainer - generator| log-prob over own tokens."""
    left_out: Tensor
    """Count of tokens that are not learned from."""

    @classmethod
    def zero(cls, device: torch.device) -> TokenSums:
        """Makes the sums over no tokens."""
        return cls(*torch.zeros(7, device=device).unbind())


class GradientSum:
    """The gradient of all rows added since `clear`, in the parameters' `.grad`.

    Attributes:
        sums: over the tokens of these rows.
        logprobs: of each of these rows, before the update; only where later iterations will measure against them.
        praised: of the external rows with a positive advantage, the sum of their log-probs before the update.
        budget: how large a micro-batch may be.
        loss_scale: what the sum that is in `.grad` was multiplied by.
    """

    def __init__(self, model: LanguageModel, config: GrpoConfig, halvings: Halvings) -> None:
        self._model = model
        self._config = config
        self._loss = loss(config.loss)
        self._settings = LossSettings(config.clip_low, config.clip_high, config.kl_weight)
        self._floors = config.options.floors
        self._reference = _reference(model) if config.kl_weight > 0 else None
        self.loss_scale = _LOSS_SCALE if model.autocast_dtype is torch.float16 else 1.0
        self.budget = MemoryBudget("training", config.micro_batch_tokens, halvings)
        if config.gradient_checkpointing:
            enable_checkpointing(model)
        self._parameters = list(model.trained.values())
        self._rows: list[BatchRow] = []
        self._torn = False
        self.sums = TokenSums.zero(model.device)
        self.logprobs: dict[BatchRow, Tensor] = {}
        self.praised: dict[BatchRow, Tensor] = {}

    def clear(self) -> None:
        """Forget all rows."""
        self._rows = []
        self._restart()

    def copied(self) -> list[Tensor]:
        """Returns a copy of the sum that is there, by parameter, in fp32 and without the loss's scale."""
        return [
            torch.zeros_like(one) if one.grad is None else one.grad.float() / self.loss_scale
            for one in self._parameters
        ]

    def inner(self, copy: Sequence[Tensor]) -> Tensor:
        """Returns the inner product of the sum that is there with a copy of an earlier one; it stays on the device."""
        pairs = [
            (one.grad.float(), held) for one, held in zip(self._parameters, copy, strict=True) if one.grad is not None
        ]
        return inner_product(pairs) / self.loss_scale

    def add(self, rows: Sequence[BatchRow], *, old_logprobs: Mapping[BatchRow, Tensor] | None = None) -> None:
        """Add the gradient of further rows.

        Args:
            old_logprobs: what the probability ratio is measured against; None: this very pass, so that it is 1.

        Raises:
            ModelError: a single completion does not fit into the GPU's memory.
        """
        if not rows:
            return
        self._rows += rows

        def attempt(max_positions: int) -> None:
            pending = rows
            if self._torn:
                self._restart()
                pending = self._rows
            self._torn = True
            for part in split_rows(pending, max_positions=max_positions, packs=self._model.packs):
                self._backward(part, old_logprobs)
            self._torn = False

        try:
            self._sum_up(attempt)
        except SwarmError:
            raise
        except Exception as error:
            if self._model.compiled is None:
                raise
            # a compiler may give up at a size that it has not seen before
            logger.warning(
                "model.not_compiled", model=self._model.name, reason=f"{type(error).__name__}: {error}"[:300]
            )
            self._model = replace(self._model, compiled=None)
            self._reference = self._reference and replace(self._reference, compiled=None)
            self._torn = True
            self._sum_up(attempt)

    def _sum_up(self, attempt: Callable[[int], None]) -> None:
        """Carry it out with micro-batches that fit, and a loss that is not too large. Raises ModelError."""
        longest = max(len(row.prompt_ids) + len(row.token_ids) for row in self._rows)
        whole = positions_of(self._rows, packs=self._model.packs)
        with self._recomputing(), self._model.adapted(), self._model.as_compiled():
            self.budget.run(attempt, floor=longest, whole=whole)
            while self.loss_scale > 1 and not self._is_finite():
                self.loss_scale /= 2
                self._torn = True
                logger.info("train.loss_scale_halved", scale=self.loss_scale)
                self.budget.run(attempt, floor=longest, whole=whole)

    def _is_finite(self) -> bool:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        return bool(torch.nn.utils.get_total_norm(gradients).isfinite()) or not bool(self.sums.loss.isfinite())

    def _restart(self) -> None:
        self._torn = False
        self.sums = TokenSums.zero(self._model.device)
        self.logprobs, self.praised = {}, {}
        for parameter in self._parameters:
            parameter.grad = None

    def _backward(self, rows: Sequence[BatchRow], old_logprobs: Mapping[BatchRow, Tensor] | None) -> None:
        batch = stack_rows(rows, self._model)
        logprob_M = self._logprobs(self._model, batch)
        seen_M = logprob_M.detach()
        old_M = seen_M if old_logprobs is None else torch.cat([old_logprobs[row] for row in rows])
        if (learned_M := self._learned(batch, old_M)) is not None:
            logprob_M = without_gradient(logprob_M, learned_M)
            self.sums.left_out += (~learned_M).sum()
        inputs = self._inputs(batch, logprob_M, old_M)
        losses = self._loss(inputs, self._settings)
        total = losses.loss.sum()
        torch.autograd.backward(total * self.loss_scale)
        self.sums.loss += total.detach() if learned_M is None else self._minimised(losses.loss, inputs, learned_M)
        carries_M = batch.advantages != 0 if learned_M is None else (batch.advantages != 0) & learned_M
        self.sums.clippable += carries_M.sum()
        if losses.clipped is not None:
            self.sums.clipped += (losses.clipped * carries_M).sum()
        self._observe(batch, inputs)
        if old_logprobs is None:
            self._observe_external(rows, batch, seen_M)
        if self._config.iterations > 1:
            lengths = [len(row.written) for row in rows]
            self.logprobs.update(zip(rows, torch.split(seen_M, lengths), strict=True))

    def _learned(self, batch: TensorBatch, old_M: Tensor) -> Tensor | None:
        """bool [M]; None: every token is learned from."""
        if not self._floors.wanted:
            return batch.learned
        above_M = learned_tokens(old_M, batch.advantages, batch.own, self._floors)
        return above_M if batch.learned is None else above_M & batch.learned

    @torch.no_grad()
    def _minimised(self, loss_M: Tensor, inputs: LossInputs, learned_M: Tensor) -> Tensor:
        return (loss_M * minimised(self._loss, inputs, learned_M)).sum()

    def _inputs(self, batch: TensorBatch, logprob_M: Tensor, old_M: Tensor) -> LossInputs:
        weights_M = reference_M = None
        if self._config.importance_cap > 0:
            weights_M = importance_weight(old_M, batch.behaviour_logprobs, self._config.importance_cap)
        if self._reference is not None:
            with torch.no_grad():
                reference_M = self._logprobs(self._reference, batch)
        return LossInputs(
            logprobs=logprob_M,
            old_logprobs=old_M,
            reference_logprobs=reference_M,
            advantages=batch.advantages,
            own=batch.own,
            weights=weights_M,
            completion=batch.completion_of_token,
            lengths=batch.lengths,
        )

    @torch.no_grad()
    def _observe(self, batch: TensorBatch, inputs: LossInputs) -> None:
        if inputs.weights is not None:
            self.sums.importance += (inputs.weights * ~batch.behaviour_logprobs.isnan()).sum()
        if inputs.reference_logprobs is not None:
            self.sums.kl += kl_estimate(inputs.logprobs, inputs.reference_logprobs).sum()
        drift_M = (inputs.logprobs - batch.behaviour_logprobs).abs().nan_to_num(0.0) * batch.own
        self.sums.drift = torch.maximum(self.sums.drift, drift_M.max())

    def _observe_external(self, rows: Sequence[BatchRow], batch: TensorBatch, seen_M: Tensor) -> None:
        """Observes how likely the policy is to write what its peers' right answers say, left-out tokens included."""
        if not any(_praised(row) for row in rows):
            return
        sum_N = seen_M.new_zeros(len(rows)).index_add(0, batch.completion_of_token, seen_M)
        self.praised.update((row, total) for row, total in zip(rows, sum_N.unbind(), strict=True) if _praised(row))

    def _logprobs(self, model: LanguageModel, batch: TensorBatch) -> Tensor:
        return completion_logprobs(model, batch, temperature=self._config.temperature)

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Training mode where activations are checkpointed: transformers recomputes in that alone."""
        if not self._config.gradient_checkpointing:
            yield
            return
        self._model.module.train()
        try:
            yield
        finally:
            self._model.module.eval()


def inner_product(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Returns the inner product over all parameters, added up in fp64."""
    return torch.stack([torch.dot(left.flatten(), right.flatten()) for left, right in pairs]).double().sum()


def _praised(row: BatchRow) -> bool:
    return not row.own and row.advantage > 0


def _reference(model: LanguageModel) -> LanguageModel:
    """Returns the policy as it began: the base without its adapter, or a frozen copy."""
    if model.base is not None:
        return replace(model, adapter=None)
    return replace(model, module=copy.deepcopy(model.module).requires_grad_(requires_grad=False))


def _give_back_freed_memory() -> None:
    """Ask glibc to map blocks of a megabyte and more by themselves, so that freeing them frees memory at once.

    It would keep them for later, and a process that recomputes activations would be no smaller for it: 30 M parameters
    of GPT-2 peaked at 1,657 MB without this, and at 1,010 MB with it.
    """
    with suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**20)


def enable_checkpointing(model: LanguageModel) -> None:
    """Recompute activations from now on. Raises ModelError if the architecture cannot."""
    if model.device.type == "cpu":
        _give_back_freed_memory()
    module = model.module
    enable = getattr(module, "activation_checkpointing_enable", None)  # its name in newer transformers
    try:
        (enable or module.gradient_checkpointing_enable)({"use_reentrant": False})
    except ValueError as error:
        raise ModelError(f"model {model.name!r}: {error} Turn gradient checkpointing off.") from error


class MeasuredHalves:
    """Adds rows to a gradient in parts, and takes the inner products of these."""

    def __init__(self, gradient: GradientSum) -> None:
        self._gradient = gradient
        self.clear()

    def clear(self) -> None:
        """Forget all parts."""
        self._own: tuple[int, int] = (0, 0)
        self._external: tuple[int, int] = (0, 0)
        self._held: list[Tensor] = []
        """The sum over own groups; empty: there are none."""
        self._products: dict[str, Tensor] = {}
        self._alongside: dict[int, Tensor] = {}
        """External group -> inner product of its gradient with the sum over own groups."""

    def add_own(self, rows: Sequence[BatchRow]) -> None:
        """Add the own groups of an update, all of them. Raises as GradientSum.add."""
        groups = _by_group(rows)
        self._own = first, second = halves(len(groups))
        if not first:
            return
        self._gradient.add(_joined(groups[:first]))
        begun = self._held = self._gradient.copied()
        if second:
            self._gradient.add(_joined(groups[first:]))
            self._held = self._gradient.copied()
        one, both, whole = _inner(begun, begun), _inner(begun, self._held), _inner(self._held, self._held)
        self._products |= {"first": one, "between": both - one, "second": whole - 2 * both + one}

    def add_external(self, rows: Sequence[BatchRow]) -> None:
        """Add the external groups, after the own ones. Raises as GradientSum.add."""
        if not self._held:
            self._gradient.add(rows)
            return
        groups = _by_group(rows)
        self._external = first, second = halves(len(groups))
        begun = self._gradient.inner(self._held)
        self._add_each(groups[:first])
        middle = self._gradient.copied() if second else []
        self._add_each(groups[first:])
        self._products["across"] = self._gradient.inner(self._held) - begun
        if second:
            self._products["outside"] = self._outside(middle)

    def _add_each(self, groups: Sequence[Sequence[BatchRow]]) -> None:
        for group in groups:
            before = self._gradient.inner(self._held)
            self._gradient.add(group)
            self._alongside[group[0].group] = self._gradient.inner(self._held) - before

    def _outside(self, middle: list[Tensor]) -> Tensor:
        """E.F, of the sums before, between and after them."""
        after_middle = self._gradient.inner(middle) - _inner(middle, middle)
        return after_middle - self._gradient.inner(self._held) + _inner(self._held, middle)

    def estimate(self, first: int, external: int) -> tuple[GradientEstimate, tuple[float, ...]]:
        """Returns what the parts say, and the alignment of each external group, as in TrainReport.

        Args:
            first: number of the first external group.
            external: how many there are, those without a gradient included.
        """
        values = dict(zip(self._products, _read([*self._products.values()]), strict=True))
        alongside = dict(zip(self._alongside, _read([*self._alongside.values()]), strict=True))
        products = GradientProducts(own=self._own, external=self._external, **values)
        own = sum(self._own)
        aligned = tuple(alongside[n] / own if n in alongside else math.nan for n in range(first, first + external))
        return estimated(products), aligned


def _inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    return inner_product([*zip(left, right, strict=True)])


def _read(values: Sequence[Tensor]) -> list[float]:
    return torch.stack([*values]).tolist() if values else []


def _by_group(rows: Sequence[BatchRow]) -> list[list[BatchRow]]:
    """Returns the rows of each group, in the groups' order."""
    return [list(found) for _, found in groupby(rows, key=attrgetter("group"))]


def _joined(groups: Sequence[Sequence[BatchRow]]) -> list[BatchRow]:
    return [row for group in groups for row in group]


@dataclass(frozen=True)
class OptimizerState:
    """AdamW's memory, by parameter name, in host memory."""

    updates: int
    """Optimizer steps so far: the position in the learning-rate schedule."""
    steps: dict[str, int]
    """Steps per parameter, for Adam's bias correction."""
    first_moments: dict[str, Tensor]
    second_moments: dict[str, Tensor]


class Optimizer:
    """AdamW over named parameters, whose `.grad` holds a sum over tokens."""

    def __init__(self, parameters: Mapping[str, Tensor], config: GrpoConfig) -> None:
        self._parameters = dict(parameters)
        self._config = config
        self._adam = torch.optim.AdamW(
            self._parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self.updates = 0

    def scale_and_clip(self, divisor: float) -> Tensor:
        """Divide the gradient by what the loss is divided by, and clip it. Returns its global L2 norm before clipping.

        The norm stays on the device. One pass reads and one writes every gradient, and nothing waits for the device.
        """
        gradients = [parameter.grad for parameter in self._parameters.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) / divisor
        factor = ((self._config.max_grad_norm or math.inf) / (norm + 1e-6)).clamp(max=1.0) / divisor
        torch._foreach_mul_(gradients, factor)
        return norm

    def step(self) -> None:
        """Move the weights.

        Raises:
            ModelError: Adam's moments, allocated in the first step, do not fit into the GPU's memory.
        """
        for group in self._adam.param_groups:
            group["lr"] = self._config.learning_rate * rate_factor(self.updates, self._config)
        try:
            self._adam.step()
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"training: no GPU memory left for Adam's moments. Run fewer nodes on it. {error}"
            ) from error
        self.updates += 1

    def step_on_zero(self) -> None:
        """Move the weights as by a gradient of zero: what momentum holds of earlier ones. Raises as `step`."""
        for parameter in self._parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        self.step()

    def state(self) -> OptimizerState:
        """Returns a copy of the optimizer's memory."""
        slots = {name: self._adam.state[p] for name, p in self._parameters.items() if p in self._adam.state}
        return OptimizerState(
            updates=self.updates,
            steps={name: int(slot["step"].item()) for name, slot in slots.items()},
            first_moments={name: to_host(slot["exp_avg"]) for name, slot in slots.items()},
            second_moments={name: to_host(slot["exp_avg_sq"]) for name, slot in slots.items()},
        )

    def load_state(self, state: OptimizerState) -> None:
        """Go on from a state whose names and shapes are known to fit."""
        self.updates = state.updates
        self._adam.state.clear()
        for name, steps in state.steps.items():
            parameter = self._parameters[name]
            self._adam.state[parameter] = {
                "step": torch.tensor(float(steps), device=parameter.device),
                "exp_avg": state.first_moments[name].to(parameter.device, copy=True),
                "exp_avg_sq": state.second_moments[name].to(parameter.device, copy=True),
            }


def rate_factor(updates: int, config: GrpoConfig) -> float:
    """Returns what the learning rate is multiplied by in the update that follows so many: warm-up times decay."""
    warmup = min(1.0, (updates + 1) / max(1, config.warmup_steps))
    if config.rate_decay == "none" or not config.decay_steps:
        return warmup
    left = max(0.0, 1 - updates / config.decay_steps)
    return warmup * (left if config.rate_decay == "linear" else (1 - math.cos(math.pi * left)) / 2)


def to_host(tensor: Tensor) -> Tensor:
    """Returns a copy in host memory that later updates do not change."""
    return tensor.detach().to("cpu", copy=True)
