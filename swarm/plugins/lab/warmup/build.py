"""Build the embedded models from a seed: tokenizer, supervised warm-up, measurement, model card.

    corpus.examples ──encode──▶ batches ──cross-entropy on targets──▶ model folder
    fresh questions ──sample at temperature 1──▶ starting reward per task ──▶ README.md

A plan has stages: the first teaches the answers, a short last one on another mixture of formats and answers sets how
often the model answers in the accepted format and how often it is right, and so its starting reward.

The result depends on the seed and on the versions of torch and of the tasks' package: one thread, one stream of
examples per stage, one seeded generator. A model takes about a quarter of an hour of one core.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from swarm.plugins.lab.warmup.corpus import FAMILIES, Example, draw_question, examples, tasks_of
from swarm.plugins.lab.warmup.models import WIDTH, Architecture, build_model, build_tokenizer
from swarm.tasks.answer import extract_answer, has_answer
from swarm.types import Question

CARD = Path(str(files("swarm.plugins.lab"))) / "assets" / "model_card.md"
BATCH = 72
"""Examples per step, eight of each task."""
PART = 24
"""Examples that are read together."""
SAMPLES = 4
"""Completions per question when the model is measured."""


@dataclass(frozen=True)
class WarmupStage:
    """Supervised training on one mixture of examples."""

    steps: int
    """Optimizer steps."""
    p_well_formed: float
    """Share of the examples in the format that the verifier accepts."""
    p_right: float = 1.0
    """Share of the examples with a right answer; the others have that of another question of the task."""
    peak_lr: float = 3e-3
    """Adam's step size at its highest."""


@dataclass(frozen=True)
class WarmupPlan:
    """Says what goes into one model."""

    stages: tuple[WarmupStage, ...]
    """One after the other; each begins with new Adam moments and the seed's examples anew."""
    profile: str = "tiny-2"
    """Difficulty of the questions."""
    architecture: Architecture = "qwen2"
    width: int = WIDTH
    """Hidden size, which sets the number of parameters."""
    tokenizer_texts: int = 9000
    """Question texts that the tokenizer is learned from."""
    questions: int = 64
    """Fresh questions per task for the figures in the model card."""


_QWEN2 = WarmupStage(steps=3000, p_well_formed=0.03)
_GPT2 = WarmupStage(steps=2600, p_well_formed=0.04)
_UNSURE = WarmupStage(steps=300, p_well_formed=0.12, p_right=0.5, peak_lr=5e-4)
_RARE = WarmupStage(steps=150, p_well_formed=0.006, peak_lr=5e-4)
PLANS = {
    "tiny-2-qwen2": WarmupPlan((_QWEN2, _UNSURE)),
    "tiny-2-gpt2": WarmupPlan((_GPT2, _UNSURE), architecture="gpt2"),
    "tiny-2-qwen2-rare": WarmupPlan((_QWEN2, _RARE)),
    "tiny-2-qwen2-content": WarmupPlan((_QWEN2, replace(_UNSURE, p_well_formed=0.95))),
    "tiny-qwen2": WarmupPlan((_QWEN2,), profile="tiny"),
    "tiny-gpt2": WarmupPlan((_GPT2,), profile="tiny", architecture="gpt2"),
    "tiny-qwen2-rare": WarmupPlan((_QWEN2, replace(_RARE, p_well_formed=0.004)), profile="tiny"),
}
"""What made the embedded models. Bytes are more tokens than merges, so those of GPT-2 get fewer steps for the same
time."""


class TaskStart(NamedTuple):
    """Says how an embedded model starts on one task, sampled at temperature 1 on fresh questions."""

    reward: float
    """Mean reward in [0, 1]; 0 without a closed answer."""
    answered: float
    """Share of completions with a closed <answer>...</answer>."""
    knowledge: float
    """Mean reward if the answer is begun for it with <answer>."""


class BuildReport(NamedTuple):
    """One embedded model as built."""

    name: str
    path: Path
    parameters: int
    starts: dict[str, TaskStart]

    @property
    def reward(self) -> float:
        """Starting reward, averaged over the tasks."""
        return sum(start.reward for start in self.starts.values()) / len(self.starts)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes with a single thread in the block, and so the same each time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def build_embedded_model(output_dir: Path, name: str, *, seed: int, plan: WarmupPlan | None = None) -> BuildReport:
    """Build a model from a seed into output_dir/{name}, on one CPU thread; of another width into {name}-w{width}.

    Args:
        output_dir: where the model's folder goes; existing files are overwritten.
        name: one of EMBEDDED.
        seed: of the examples, the initial weights and the sampling.
        plan: what goes into it, if not what its name says.
    """
    plan = plan or PLANS[name]
    path = output_dir / (name if plan.width == PLANS[name].width else f"{name}-w{plan.width}")
    torch.manual_seed(seed)
    stream = _examples(seed, plan, plan.stages[0])
    tokenizer = build_tokenizer(
        plan.architecture, [example.prompt for example in itertools.islice(stream, plan.tokenizer_texts)]
    )
    model = build_model(plan.architecture, tokenizer, plan.width)
    streams = [stream, *(_examples(seed, plan, stage) for stage in plan.stages[1:])]
    for stage, stream in zip(plan.stages, streams, strict=True):
        train_supervised(model, tokenizer, stream, stage, name)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    starts = measure(model, tokenizer, seed=seed + 1, questions=plan.questions, profile=plan.profile)
    report = BuildReport(name, path, model.num_parameters(), starts)
    (path / "README.md").write_text(_model_card(report, seed, plan), encoding="utf-8")
    return report


def _examples(seed: int, plan: WarmupPlan, stage: WarmupStage) -> Iterator[Example]:
    return examples(seed, profile=plan.profile, p_well_formed=stage.p_well_formed, p_right=stage.p_right)


def train_supervised(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    stream: Iterator[Example],
    stage: WarmupStage,
    name: str,
) -> None:
    """Adam with a linear warm-up and a cosine decay to zero over the stage's steps; says now and then how far it is."""
    steps = stage.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=stage.peak_lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, stage.peak_lr, total_steps=steps, pct_start=0.05)
    model.train()
    for step in range(1, steps + 1):
        batch = [encode(tokenizer, example) for example in itertools.islice(stream, BATCH)]
        loss = backward(model, batch)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 100 == 0 or step == steps:
            sys.stderr.write(f"{name}: step {step} of {steps}, loss {loss:.3f}\n")
    model.eval()


class _Encoded(NamedTuple):
    prompt: list[int]
    target: list[int]


def encode(tokenizer: PreTrainedTokenizerFast, example: Example) -> _Encoded:
    target = tokenizer.encode(example.target, add_special_tokens=False)
    return _Encoded(_prompt_ids(tokenizer, example.prompt), [*target, tokenizer.eos_token_id])


def _prompt_ids(tokenizer: PreTrainedTokenizerFast, question: str) -> list[int]:
    chat = [{"role": "user", "content": question}]
    text: str = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def backward(model: PreTrainedModel, batch: list[_Encoded]) -> float:
    """Accumulate the gradient of the batch's mean cross-entropy per target token; returns that mean.

    Every batch mixes all tasks. It is read in parts of about one length, so that little of it is padding.
    """
    by_length = sorted(batch, key=lambda encoded: len(encoded.prompt) + len(encoded.target))
    tokens = sum(len(encoded.target) for encoded in batch)
    total = 0.0
    for start in range(0, len(batch), PART):
        loss = _summed_loss(model, by_length[start : start + PART]) / tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def _summed_loss(model: PreTrainedModel, part: list[_Encoded]) -> Tensor:
    """Cross-entropy summed over the target tokens; logits are computed at those positions alone."""
    length = max(len(prompt) + len(target) for prompt, target in part)
    ids_B_T = torch.zeros((len(part), length), dtype=torch.long)
    is_target_B_T = torch.zeros((len(part), length), dtype=torch.bool)
    for row, (prompt, target) in enumerate(part):
        end = len(prompt) + len(target)
        ids_B_T[row, :end] = torch.tensor(prompt + target)
        is_target_B_T[row, len(prompt) : end] = True
    # the filler is on the right, where causal attention never looks: no mask is needed, and any id will do
    hidden_B_T_D = model.base_model(input_ids=ids_B_T[:, :-1], use_cache=False).last_hidden_state
    logits_N_V = model.lm_head(hidden_B_T_D[is_target_B_T[:, 1:]])
    return cross_entropy(logits_N_V, ids_B_T[:, 1:][is_target_B_T[:, 1:]], reduction="sum")


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, *, seed: int, questions: int, profile: str
) -> dict[str, TaskStart]:
    """Sample answers to fresh questions at temperature 1 and score them, per task."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    asked = {task: [draw_question(rng, task, profile) for _ in range(questions)] for task in tasks_of(profile)}
    return {task: _measure_task(model, tokenizer, drawn) for task, drawn in asked.items()}


def _measure_task(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, asked: Sequence[Question]) -> TaskStart:
    free = sample(model, tokenizer, [question.prompt for question in asked], "")
    begun = sample(model, tokenizer, [question.prompt for question in asked], "<answer>")

    def mean_reward(texts: list[list[str]], close: str) -> float:
        rewards = [
            FAMILIES.score(question, found) if (found := extract_answer(text + close)) is not None else 0.0
            for question, row in zip(asked, texts, strict=True)
            for text in row
        ]
        return sum(rewards) / len(rewards)

    answered = sum(has_answer(text) for row in free for text in row) / (len(asked) * SAMPLES)
    return TaskStart(mean_reward(free, ""), answered, mean_reward(begun, "</answer>"))


@torch.no_grad()
def sample(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str], begin: str
) -> list[list[str]]:
    """SAMPLES answers per prompt at temperature 1; `begin` starts every answer."""
    begin_ids = tokenizer.encode(begin, add_special_tokens=False) if begin else []
    rows = [_prompt_ids(tokenizer, prompt) + begin_ids for prompt in prompts]
    batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt")
    out = model.generate(**batch, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, num_return_sequences=SAMPLES)
    texts = tokenizer.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return [[begin + text for text in texts[i : i + SAMPLES]] for i in range(0, len(texts), SAMPLES)]


def _model_card(report: BuildReport, seed: int, plan: WarmupPlan) -> str:
    rows = "\n".join(
        f"| `{task}` | {start.reward:.4f} | {start.answered:.3f} | {start.knowledge:.2f} |"
        for task, start in report.starts.items()
    )
    return CARD.read_text(encoding="utf-8").format(
        name=report.name,
        parameters=report.parameters,
        profile=plan.profile,
        batch=BATCH,
        stages="\n".join(map(_stage_row, plan.stages)),
        seed=seed,
        command=_command(report.name, seed, plan),
        package=" ".join(FAMILIES.packages),
        version=" ".join(FAMILIES.versions.values()),
        count=plan.questions * SAMPLES,
        reward=report.reward,
        rows=rows,
        floors=_FLOORS if plan.profile == "tiny" else "",
    )


def _stage_row(stage: WarmupStage) -> str:
    return f"| {stage.steps} | {stage.p_well_formed:.1%} | {stage.p_right:.0%} | {stage.peak_lr:g} |"


def _command(name: str, seed: int, plan: WarmupPlan) -> str:
    """Returns the command that makes the model again."""
    command = f"swarm model build --names {name}"
    last, usual = plan.stages[-1], PLANS[name].stages[-1]
    if last.p_well_formed != usual.p_well_formed:
        command += f" --well-formed {last.p_well_formed:g}"
    if last.p_right != usual.p_right:
        command += f" --right {last.p_right:g}"
    if plan.width != PLANS[name].width:
        command += f" --width {plan.width}"
    return f"{command} --seed {seed}" if seed else command


_FLOORS = """
`fraction_simplification`, `propositional_logic` and `calendar_arithmetic` pay a little for some wrong answers.
"""
