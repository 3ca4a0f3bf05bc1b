"""How many completions per second does one whole round make: generate, score, train?

    python -m benchmarks.full_round [--quick] [--threads 1] [--models tiny-qwen2,random-28m]

Three sides take turns on the same questions, weights, sampling settings and length limits, with one thread, the same
scorer, and one optimizer step per round:

    swarm   this package, by the calls that a worker makes
    naive   benchmarks/naive.py: G sequential `model.generate` calls, one padded full-logit forward and backward
    trl     TRL's GRPOTrainer, where it is installed (the extra `bench`)

Before anything is timed, loss and gradient of the three must agree on one recorded batch, or the script ends.
Each side samples for itself, so lengths agree in distribution only and are reported; `train` therefore repeats the
training part alone on identical recorded completions. What swarm saves by skipping uninformative groups is shown by
running it twice, with all groups informative and with half of them; the cost of the other sides is the same in both.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks import trl_side
from benchmarks.common import alternate, arguments_of, keep, ratios, relative_gap, seconds, summary
from benchmarks.models import FULL_ROUND_MODELS, model_folder, parameters
from benchmarks.naive import Naive
from benchmarks.trl_side import TrlSide
from benchmarks.workload import Scoring, Sizes, first_gradient, pattern, scoring, to_train
from swarm.policy.policy import load_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion, Question, TrainGroup

SIZES = {"tiny-qwen2": Sizes(8, 8, 24), "random-28m": Sizes(4, 8, 32)}
QUICK_SIZES = Sizes(2, 4, 8)
REALISTIC_SHARE = 0.5
"""Informative groups among a node's own: what a success rate of 8 % gives at G = 8, since 1 - 0.92 ** 8 = 0.49."""
TOLERANCE = 1e-4
LEARNING_RATE = 1e-6
"""So small that no side's completions grow longer or shorter than another's by learning."""


class Swarm:
    """This package's side."""

    def __init__(self, folder: Path, sizes: Sizes, config: GrpoConfig, threads: int) -> None:
        self._sizes = sizes
        self.policy = load_policy(str(folder), config, threads=threads, device="cpu")

    def generate(self, questions: Sequence[Question], seed: int) -> list[tuple[Completion, ...]]:
        """As a worker does."""
        prompts = [question.prompt for question in questions]
        return self.policy.generate(prompts, group_size=self._sizes.group_size, seed=seed)

    def train(self, groups: Sequence[TrainGroup]) -> float:
        """One update on all groups; the loss."""
        self.policy.begin_update(groups)
        return self.policy.finish_update([]).loss


@dataclass
class Bench:
    """One model's measurement."""

    folder: Path
    sizes: Sizes
    rounds: list[list[Question]]
    scorer: Scoring
    scratch: Path
    threads: int
    lengths: dict[str, list[int]] = field(default_factory=dict)

    @property
    def config(self) -> GrpoConfig:
        """What all sides are set to."""
        return GrpoConfig(learning_rate=LEARNING_RATE, max_new_tokens=self.sizes.max_new_tokens)

    def full_rounds(self, side: Swarm | Naive, name: str, share: float) -> float:
        """Seconds per round."""
        return seconds(partial(self._rounds, side, name, share)) / len(self.rounds)

    def _rounds(self, side: Swarm | Naive, name: str, share: float) -> None:
        for number, questions in enumerate(self.rounds):
            answers = side.generate(questions, seed=number)
            self.scorer.score(questions, [[completion.text for completion in group] for group in answers])
            side.train(to_train(questions, answers, share))
            self.lengths.setdefault(name, []).extend(token_counts(answers))

    def rewards(self, questions: Sequence[Question], texts: Sequence[Sequence[str]]) -> list[float]:
        """The reward function of TRL's side."""
        self.scorer.score(questions, texts)
        return [reward for index in range(len(questions)) for reward in pattern(index, self.sizes.group_size, 1.0)]


def token_counts(answers: Sequence[Sequence[Completion]]) -> list[int]:
    """Tokens of every completion."""
    return [len(completion.token_ids or ()) for group in answers for completion in group]


def check_agreement(bench: Bench, groups: Sequence[TrainGroup], *, with_trl: bool) -> dict[str, Any]:
    """Loss and gradient of every side on the same batch.

    Raises:
        SystemExit: they differ; nothing that follows would compare like with like.
    """
    half = len(groups) // 2
    unclipped = GrpoConfig(learning_rate=LEARNING_RATE, max_new_tokens=bench.sizes.max_new_tokens, max_grad_norm=1e9)
    policy = load_policy(str(bench.folder), unclipped, threads=bench.threads, device="cpu")
    policy.begin_update(groups[:half])
    loss = policy.finish_update(groups[half:]).loss
    ours = first_gradient(policy)
    naive = Naive(bench.folder, bench.sizes, unclipped)
    found = {"naive": (naive.backward(groups), {n: p.grad for n, p in naive.module.named_parameters()})}
    if with_trl:
        side = TrlSide(bench.folder, bench.sizes, unclipped, bench.rounds[:1], bench.scratch)
        found["trl"] = side.gradient(groups)
    agreement = {
        name: {"loss_gap": abs(their_loss - loss), "gradient_gap": relative_gap(ours, gradient)}
        for name, (their_loss, gradient) in found.items()
    }
    print(f"agreement: {agreement}", file=sys.stderr)
    if any(not gap < TOLERANCE for gaps in agreement.values() for gap in gaps.values()):
        sys.exit(f"the sides do not compute the same: {agreement}; expected gaps below {TOLERANCE:g}")
    return {"loss": loss, "tolerance": TOLERANCE, **agreement}


def measure(bench: Bench, repetitions: int) -> dict[str, Any]:
    """Agreement first, then full rounds, then training alone."""
    with_trl = trl_side.missing() is None
    swarm = Swarm(bench.folder, bench.sizes, bench.config, bench.threads)
    recorded = to_train(bench.rounds[0], swarm.generate(bench.rounds[0], seed=0), share=1.0)
    agreement = check_agreement(bench, recorded, with_trl=with_trl)
    naive = Naive(bench.folder, bench.sizes, bench.config)
    full: dict[str, Callable[[], float]] = {
        "swarm": lambda: bench.full_rounds(swarm, "swarm", 1.0),
        "naive": lambda: bench.full_rounds(naive, "naive", 1.0),
        "swarm_realistic": lambda: bench.full_rounds(swarm, "swarm", REALISTIC_SHARE),
    }
    train: dict[str, Callable[[], float]] = {
        "swarm": lambda: seconds(lambda: swarm.train(recorded)),
        "naive": lambda: seconds(lambda: naive.train(recorded)),
    }
    if with_trl:
        trl = TrlSide(bench.folder, bench.sizes, bench.config, bench.rounds, bench.scratch)
        steps, training = trl.steps(bench.rewards), trl.training_alone(recorded)
        full["trl"] = lambda: mean(steps())
        train["trl"] = lambda: mean(training())
    for side in (*full.values(), *train.values()):
        side()  # warm-up: allocator, lazy imports, Adam's moments
    bench.lengths.clear()
    if with_trl:
        trl.lengths.clear()
    found_full, found_train = alternate(full, repetitions), alternate(train, repetitions)
    if with_trl:
        bench.lengths["trl"] = trl.lengths
    return {
        "parameters": parameters(naive.module),
        "questions": bench.sizes.questions,
        "group_size": bench.sizes.group_size,
        "max_new_tokens": bench.sizes.max_new_tokens,
        "rounds_per_repetition": len(bench.rounds),
        "agreement": agreement,
        "completion_tokens": {name: summary(lengths) for name, lengths in bench.lengths.items()}
        | {f"{name}_mean": mean(lengths) for name, lengths in bench.lengths.items()},
        "full_round": compared(found_full, bench.sizes.completions),
        "train": compared(found_train, bench.sizes.completions),
        "trl_not_measured": trl_side.missing(),
    }


def compared(found: dict[str, list[float]], completions: int) -> dict[str, Any]:
    """Completions per second of each side, and how many times as fast swarm is as the others."""
    rates = {name: summary(completions / value for value in values) for name, values in found.items()}
    others = [name for name in ("naive", "trl") if name in found]
    speedup = {
        f"{ours}_over_{name}": ratios(found[name], found[ours])
        for ours in ("swarm", "swarm_realistic")
        if ours in found
        for name in others
    }
    return {"completions_per_second": rates, "speedup": speedup}


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--models", default=",".join(FULL_ROUND_MODELS))
    arguments = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch, scoring() as scorer:
        for name in arguments.models.split(","):
            print(name, file=sys.stderr)
            sizes = QUICK_SIZES if arguments.quick else SIZES[name]
            folder = model_folder(name, Path(scratch), mean_length=sizes.max_new_tokens)
            rounds = scorer.ask(1 if arguments.quick or name != "tiny-qwen2" else 4, sizes)
            bench = Bench(folder, sizes, rounds, scorer, Path(scratch), arguments.threads)
            found[name] = measure(bench, repetitions=2 if arguments.quick else 5 if name == "tiny-qwen2" else 3)
    keep("full_round", {"realistic_share": REALISTIC_SHARE, "models": found}, arguments)


if __name__ == "__main__":
    main()
