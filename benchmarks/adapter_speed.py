"""How fast are adapters beside all weights, several nodes beside one, and beside TRL with adapters of peft's?

    python -m benchmarks.adapter_speed [--quick] [--threads 1] [--models tiny-2-qwen2,...] [--trl tiny-qwen2,...]

Nodes of one process, each of I questions with G completions a round, all groups informative, sides in turn:

    together    the groups of all nodes, generated as one batch
    in_turn     the same calls, one after the other
    lora        a full round of all nodes: generated together, scored, trained on one after the other
    full        the same with all weights, one after the other; of fewer nodes where their moments would take too much

and, with one thread and on the same questions, `lora` of one node alone and of all, a node's share of it, beside `trl`:
a step of GRPOTrainer with an adapter of peft's of that rank on the same layers. Before that, loss and gradients of both
must agree on one recorded batch. Adapters begin as any node's do.

Models that are not asked for stay in the result file as they are.

Each side tells two times: `wall`, and `processor`, that of this process, in which others that use the machine do not
count but by what they do to its caches. Ratios are taken repetition by repetition.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks import trl_side
from benchmarks.common import alternate, arguments_of, earlier, keep, ratios, relative_gap, summary
from benchmarks.models import model_folder
from benchmarks.trl_side import TrlSide
from benchmarks.workload import Scoring, Sizes, first_gradient, scoring, to_train
from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.policy.shared_base import SharedBases
from swarm.types import Completion, GenerationCall, Question

NODES = 8
LEARNING_RATE = 1e-6
TOLERANCE = 1e-4


class Case(NamedTuple):
    """Sizes of a node's round, and how many nodes train all weights."""

    sizes: Sizes
    full_nodes: int = NODES


CASES: Mapping[str, Case] = {
    "tiny-2-qwen2": Case(Sizes(4, 8, 24)),
    "random-5m": Case(Sizes(4, 8, 24)),
    "random-67m": Case(Sizes(2, 4, 16), full_nodes=2),
}
TRL_SIZES: Mapping[str, Sizes] = {"tiny-qwen2": Sizes(8, 8, 24), "random-67m": Sizes(4, 8, 24)}


class Took(NamedTuple):
    """Seconds of a node's share."""

    wall: float
    processor: float


def took(work: Callable[[], object], nodes: int) -> Took:
    """What a call takes, divided by so many nodes."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Took((time.perf_counter() - wall) / nodes, (time.process_time() - processor) / nodes)


@dataclass
class Nodes:
    """Policies of one process, and the questions of each."""

    policies: Sequence[JoinedPolicy]
    questions: Sequence[Sequence[Question]]
    sizes: Sizes
    scorer: Scoring

    def calls(self) -> list[tuple[JoinedPolicy, GenerationCall]]:
        """One for each node."""
        return [
            (policy, GenerationCall([q.prompt for q in asked], self.sizes.group_size, seed, None))
            for seed, (policy, asked) in enumerate(zip(self.policies, self.questions, strict=False))
        ]

    def together(self) -> list[Any]:
        """The completions of all, of one batch."""
        calls: list[Any] = self.calls()
        return list(self.policies[0].generate_together(calls))

    def in_turn(self) -> list[Any]:
        """The same, of a batch for each."""
        return [
            policy.generate(call.prompts, group_size=call.group_size, seed=call.seed) for policy, call in self.calls()
        ]

    def round(self, generate: Callable[[], list[Any]]) -> None:
        """Generate, score and train, every group informative."""
        for policy, asked, answers in zip(self.policies, self.questions, generate(), strict=False):
            self.scorer.score(asked, [[completion.text for completion in group] for group in answers])
            policy.begin_update(to_train(asked, answers, 1.0))
            policy.finish_update([])


def nodes_of(folder: Path, count: int, config: GrpoConfig, case: Sizes, scorer: Scoring, threads: int) -> Nodes:
    """So many, each with questions of its own."""
    bases = SharedBases()
    policies = [load_policy(str(folder), config, threads=threads, device="cpu", bases=bases) for _ in range(count)]
    return Nodes(policies, scorer.ask(count, case), case, scorer)


def turns(sides: Mapping[str, Callable[[], Took]], repetitions: int) -> dict[str, list[Took]]:
    """Each side's times, warmed up; every repetition begins with another side."""
    for side in sides.values():
        side()
    return alternate(sides, repetitions, str)


def compared(found: Mapping[str, Sequence[Took]], pairs: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Seconds of each side, and how many times as fast one is as another."""
    return {
        clock: {
            "seconds": {name: summary(getattr(one, clock) for one in times) for name, times in found.items()},
            "times_as_fast": {
                name: ratios([getattr(one, clock) for one in found[slow]], [getattr(one, clock) for one in found[fast]])
                for name, (fast, slow) in pairs.items()
            },
        }
        for clock in Took._fields
    }


def beside_full(name: str, case: Case, scorer: Scoring, scratch: Path, threads: int, repetitions: int) -> Any:
    """One model's rounds."""
    folder = model_folder(name, scratch, mean_length=case.sizes.max_new_tokens)
    full_config = GrpoConfig(learning_rate=LEARNING_RATE, max_new_tokens=case.sizes.max_new_tokens)
    lora_config = GrpoConfig(
        learning_rate=LEARNING_RATE, max_new_tokens=case.sizes.max_new_tokens, adapter=LoraConfig()
    )
    lora = nodes_of(folder, NODES, lora_config, case.sizes, scorer, threads)
    full = nodes_of(folder, case.full_nodes, full_config, case.sizes, scorer, threads)
    sides = {
        "together": partial(took, lora.together, NODES),
        "in_turn": partial(took, lora.in_turn, NODES),
        "lora": partial(took, partial(lora.round, lora.together), NODES),
        "full": partial(took, partial(full.round, full.in_turn), case.full_nodes),
    }
    pairs = {"together_over_in_turn": ("together", "in_turn"), "lora_over_full": ("lora", "full")}
    return {
        "questions": case.sizes.questions,
        "group_size": case.sizes.group_size,
        "max_new_tokens": case.sizes.max_new_tokens,
        "full_nodes": case.full_nodes,
        **compared(turns(sides, repetitions), pairs),
    }


def beside_trl(name: str, sizes: Sizes, scorer: Scoring, scratch: Path, threads: int, repetitions: int) -> Any:
    """A round of one node, and of all, beside a step of TRL's trainer with peft."""
    folder = model_folder(name, scratch, mean_length=sizes.max_new_tokens)
    config = GrpoConfig(learning_rate=LEARNING_RATE, max_new_tokens=sizes.max_new_tokens, adapter=LoraConfig())
    one = nodes_of(folder, 1, config, sizes, scorer, threads)
    all_nodes = nodes_of(folder, NODES, config, sizes, scorer, threads)
    agreement = agreed(folder, sizes, one, scratch, threads)
    trl = TrlSide(folder, sizes, config, [list(one.questions[0])], scratch)
    steps = trl.steps(lambda asked, texts: rewarded(scorer, asked, texts))
    sides = {
        "one": partial(took, partial(one.round, one.in_turn), 1),
        "all": partial(took, partial(all_nodes.round, all_nodes.together), NODES),
        "trl": partial(trl_took, steps),
    }
    pairs = {"one_over_trl": ("one", "trl"), "all_over_trl": ("all", "trl")}
    return {"agreement": agreement, **compared(turns(sides, repetitions), pairs)}


def trl_took(steps: Callable[[], list[float]]) -> Took:
    """Its step alone by the clock; by processor time with what `train()` sets up, less than a tenth of a second."""
    processor = time.process_time()
    (wall,) = steps()
    return Took(wall, time.process_time() - processor)


def rewarded(scorer: Scoring, asked: Sequence[Question], texts: Sequence[Sequence[str]]) -> list[float]:
    """TRL's reward function: the scorer's time, and half of each group right."""
    scorer.score(asked, texts)
    return [float(n % 2 == 0) for group in texts for n in range(len(group))]


def agreed(folder: Path, sizes: Sizes, nodes: Nodes, scratch: Path, threads: int) -> dict[str, float]:
    """Gaps of loss and gradients on one batch, with an adapter that changes something.

    Raises:
        SystemExit: they differ; nothing that follows would compare like with like.
    """
    config = GrpoConfig(
        learning_rate=LEARNING_RATE, max_new_tokens=sizes.max_new_tokens, max_grad_norm=1e9, adapter=LoraConfig()
    )
    policy: Any = load_policy(str(folder), config, threads=threads, device="cpu")
    random = torch.Generator().manual_seed(0)
    weights: dict[str, torch.Tensor] = policy.trainer._model.trained
    for matrix in weights.values():
        matrix.data.copy_(torch.randn(matrix.shape, generator=random) * 0.02)
    (asked,) = nodes.questions
    answers: list[tuple[Completion, ...]] = nodes.in_turn()[0]
    groups = to_train(asked, answers, 1.0)
    theirs, gradient = TrlSide(folder, sizes, config, [list(asked)], scratch).gradient(groups, weights)
    policy.begin_update(groups)
    loss = policy.finish_update([]).loss
    gaps = {"loss_gap": abs(theirs - loss), "gradient_gap": relative_gap(first_gradient(policy), gradient)}
    if any(not gap < TOLERANCE for gap in gaps.values()):
        sys.exit(f"swarm and TRL do not compute the same: {gaps}; expected gaps below {TOLERANCE:g}")
    return gaps


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--trl", default=",".join(TRL_SIZES), help="models of the comparison with TRL")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    small = Sizes(1, 2, 4)
    models, beside = ([name for name in asked.split(",") if name] for asked in (arguments.models, arguments.trl))
    cases = {name: Case(small, 2) if arguments.quick else CASES[name] for name in models}
    repetitions = 1 if arguments.quick else arguments.repetitions
    before = earlier("adapter_speed", arguments)
    found: dict[str, Any] = {"nodes": NODES, "models": before.get("models", {}), "trl": before.get("trl", {})}
    with tempfile.TemporaryDirectory() as scratch, scoring() as scorer:
        for name, case in cases.items():
            print(name, file=sys.stderr)
            found["models"][name] = beside_full(name, case, scorer, Path(scratch), arguments.threads, repetitions)
            keep("adapter_speed", found, arguments)
        if why := trl_side.missing():
            print(why, file=sys.stderr)
            return
        for name in beside:
            sizes = Sizes(2, 4, 4) if arguments.quick else TRL_SIZES[name]
            found["trl"][name] = beside_trl(name, sizes, scorer, Path(scratch), arguments.threads, repetitions)
            keep("adapter_speed", found, arguments)


if __name__ == "__main__":
    main()
