"""TRL's GRPOTrainer on the same prompts, weights, limits and scorer, through its public configuration.

Everything it can leave out is left out (logging, saving, evaluation, reference model, gradient checkpointing), and all
rows of a round are one batch and one optimizer step. Its loss type `dapo` divides by the number of completion tokens of
the batch, as ours does. A step of the trainer is timed from `on_step_begin` to `on_step_end`: generating, scoring,
loss, backward, clipping, optimizer; not the setting up of `train()`.

TRL is an extra: pip install -e ".[bench]"
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from transformers.utils.logging import set_verbosity_error

from benchmarks.common import is_installed
from benchmarks.workload import Sizes
from swarm.policy.prompt import encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Question, TrainGroup

MISSING = 'TRL is not installed: pip install -e ".[bench]"'
Rewards = Callable[[Sequence[Question], Sequence[Sequence[str]]], list[float]]


def missing() -> str | None:
    """Why TRL cannot be measured here, or None."""
    return None if is_installed("trl") else MISSING


class _StepTimer(TrainerCallback):  # type: ignore[misc]
    """Seconds of every step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._begun = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self._begun)


class TrlSide:
    """A GRPOTrainer whose rounds are trainer steps."""

    def __init__(
        self,
        folder: Path,
        sizes: Sizes,
        config: GrpoConfig,
        rounds: list[list[Question]],
        scratch: Path,
        *,
        on_gpu: bool = False,
    ) -> None:
        """`on_gpu`: on the card, in bf16 from fp32 weights."""
        self._sizes, self._on_gpu = sizes, on_gpu
        self._questions = {question.prompt: question for questions in rounds for question in questions}
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._recorded: list[TrainGroup] = []
        self.lengths: list[int] = []
        self._timer = _StepTimer()
        self._folder, self._config, self._scratch = folder, config, scratch
        self._rounds = rounds

    def steps(self, rewards: Rewards) -> Callable[[], list[float]]:
        """A function that runs one full round per list of questions and gives their seconds."""
        return self._runner(self._trainer(self._reward_function(rewards)))

    def training_alone(self, groups: Sequence[TrainGroup]) -> Callable[[], list[float]]:
        """The same, but every round's completions are the recorded ones, and so are the rewards' signs."""

        def recorded(prompts: list[str], trainer: Any) -> dict[str, Any]:
            rows = [(group, completion) for group in groups for completion in group.completions]
            assert len(rows) == len(prompts)
            return {
                "prompt_ids": [encode_prompt(self.tokenizer, group.prompt) for group, _ in rows],
                "completion_ids": [list(completion.token_ids or ()) for _, completion in rows],
                "logprobs": None,
            }

        def rewards(completions: list[str], **_: Any) -> list[float]:
            return [float(advantage > 0) for group in groups for advantage in group.advantages]

        return self._runner(self._trainer(rewards, rollout_func=recorded, rounds=self._rounds[:1]))

    def gradient(
        self, groups: Sequence[TrainGroup], adapter: Mapping[str, torch.Tensor] | None = None
    ) -> tuple[float, dict[str, torch.Tensor]]:
        """Loss and gradient of `compute_loss` on a batch written by hand.

        Args:
            adapter: its matrices by the names of PEFT's files, where one is trained.
        """
        trainer = self._trainer(lambda completions, **_: [0.0] * len(completions))
        trained = {n.replace(".default", ""): p for n, p in trainer.model.named_parameters() if p.requires_grad}
        for name, matrix in (adapter or {}).items():
            trained[name].data.copy_(matrix)
        trainer.current_gradient_accumulation_steps = 1  # which train() would set
        trainer.model.train()
        loss = trainer.compute_loss(trainer.model, self._inputs(groups))
        loss.backward()
        return loss.item(), {name: parameter.grad for name, parameter in trained.items()}

    def _inputs(self, groups: Sequence[TrainGroup]) -> dict[str, Any]:
        prompts = [encode_prompt(self.tokenizer, group.prompt) for group in groups for _ in group.completions]
        answers = [list(completion.token_ids or ()) for group in groups for completion in group.completions]
        prompt_ids, prompt_mask = _padded(prompts, left=True, pad_id=self.tokenizer.pad_token_id)
        completion_ids, completion_mask = _padded(answers, left=False, pad_id=self.tokenizer.pad_token_id)
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": prompt_mask,
            "completion_ids": completion_ids,
            "completion_mask": completion_mask,
            "advantages": torch.tensor([advantage for group in groups for advantage in group.advantages]),
            "num_items_in_batch": completion_mask.sum(),
        }

    def _trainer(self, reward: Any, *, rollout_func: Any = None, rounds: list[list[Question]] | None = None) -> Any:
        warnings.simplefilter("ignore")
        set_verbosity_error()
        from datasets import Dataset
        from trl import GRPOTrainer

        threads = torch.get_num_threads()
        prompts = [self._prompt_text(question) for questions in rounds or self._rounds for question in questions]
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(self._folder, dtype=torch.float32),
            reward_funcs=reward,
            args=self._arguments(len(prompts) // self._sizes.questions),
            train_dataset=Dataset.from_dict(
                {
                    "prompt": prompts,
                    "question": [question.prompt for questions in rounds or self._rounds for question in questions],
                }
            ),
            processing_class=self.tokenizer,
            callbacks=[self._timer],
            peft_config=self._peft(),
            rollout_func=rollout_func,
        )
        trainer.remove_callback(PrinterCallback)
        torch.set_num_threads(threads)
        return trainer

    def _peft(self) -> Any:
        """An adapter of the same rank, scale and layers as ours; None: all weights are trained."""
        if self._config.adapter is None:
            return None
        from peft import LoraConfig

        rank, alpha = self._config.adapter.rank, self._config.adapter.alpha
        assert alpha.is_integer()  # as peft's is
        return LoraConfig(r=rank, lora_alpha=int(alpha), target_modules="all-linear", task_type="CAUSAL_LM")

    def _arguments(self, steps: int) -> Any:
        from trl import GRPOConfig

        return GRPOConfig(
            output_dir=str(self._scratch / "trl"),
            max_steps=steps,
            per_device_train_batch_size=self._sizes.completions,
            gradient_accumulation_steps=1,
            steps_per_generation=1,
            num_iterations=1,
            num_generations=self._sizes.group_size,
            max_completion_length=self._sizes.max_new_tokens,
            temperature=self._config.temperature,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            epsilon=self._config.clip_low,
            epsilon_high=self._config.clip_high,
            loss_type="dapo",
            learning_rate=self._config.learning_rate,
            lr_scheduler_type="constant",
            weight_decay=self._config.weight_decay,
            max_grad_norm=self._config.max_grad_norm,
            gradient_checkpointing=False,
            shuffle_dataset=False,
            use_cpu=not self._on_gpu,
            bf16=self._on_gpu,
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            eval_strategy="no",
            disable_tqdm=True,
        )

    def _prompt_text(self, question: Question) -> str:
        """The prompt as text; TRL tokenizes it to the ids that the other sides use."""
        ids = encode_prompt(self.tokenizer, question.prompt)
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
        if self.tokenizer(text)["input_ids"] != ids:
            raise RuntimeError(f"TRL would read another prompt than the other sides: {text!r}")
        return text

    def _reward_function(self, rewards: Rewards) -> Any:
        size = self._sizes.group_size

        def reward(
            completions: list[str], question: list[str], completion_ids: list[list[int]], **_: Any
        ) -> list[float]:
            self.lengths += map(len, completion_ids)
            asked = [self._questions[prompt] for prompt in question[::size]]
            return rewards(asked, [completions[start : start + size] for start in range(0, len(completions), size)])

        return reward

    def _runner(self, trainer: Any) -> Callable[[], list[float]]:
        def run() -> list[float]:
            self._timer.seconds.clear()
            trainer.train()
            return list(self._timer.seconds)

        return run


def _padded(rows: list[list[int]], *, left: bool, pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    gaps = [[pad_id] * (longest - len(row)) for row in rows]
    ids = torch.tensor([gap + row if left else row + gap for row, gap in zip(rows, gaps, strict=True)])
    absent = torch.tensor([len(gap) for gap in gaps])[:, None]
    position = torch.arange(longest)
    real = position >= absent if left else position < longest - absent
    return ids, real.long()
