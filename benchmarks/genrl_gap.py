"""Does the trainer compute what genrl's computes, and where not, why?

    python -m benchmarks.genrl_gap [--genrl FOLDER [--package NAME]] [--threads 1]

One round as 4/4 has it: four groups as they come and four whose rewards differ, completions sampled by tiny-qwen2 and
scored by the product's own scorer. Both trainers get the same texts, rewards and weights, and neither clips gradients.

    gradient      relative gap |genrl's - ours| / |ours|: of genrl as it is, then with one difference after the other
                  undone: padding between prompt and completion, end-of-text left out, the sample's standard deviation
    advantages    ours over genrl's
    empty rounds  after this round five in which no group has an advantage: how far the weights go on, in lengths of the
                  last step, by genrl, by ours with `empty_update` step and skip, and by Adam's formula alone. All
                  rewards are 1 in one run of genrl, and 0 in another: release 0.3 leaves the latter rounds out.

It ends with exit code 1, and keeps nothing, where a claim about these figures does not hold. On one machine it gives
the same bits again. genrl is no extra of this package: benchmarks/genrl_side.py says how to install it.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from transformers.utils.logging import disable_progress_bar

from benchmarks.common import arguments_of, keep, relative_gap
from benchmarks.genrl_side import Changes, GenrlSide, Group, identity, load_genrl
from benchmarks.workload import Sizes, first_gradient, scoring, snapshot_of
from swarm.algo.advantages import group_advantages, is_informative
from swarm.policy.embedded import embedded_path
from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion, TrainGroup

MODEL = "tiny-qwen2"
ASKED = Sizes(questions=32, group_size=8, max_new_tokens=24)
OWN, EXTERNAL = 4, 4
RATE = 1e-3
"""So large that a step stands far above the rounding of the weights."""
EMPTY_ROUNDS = 5
CHANGES = {
    "as_it_is": Changes(),
    "right_padded": Changes(right_padded=True),
    "end_of_text": Changes(right_padded=True, end_of_text=True),
    "population_std": Changes(right_padded=True, end_of_text=True, population_std=True),
}
"""Each undoes one difference more."""
ROUNDING = 1e-5
"""Largest relative gap that is put down to the order of additions in fp32."""
NEAR = 0.01
"""Of displacements: Adam's epsilon holds back weights whose gradient is tiny."""
Weights = dict[str, Tensor]
Make = Callable[[Changes], GenrlSide]


def make_round(policy: JoinedPolicy) -> list[Group]:
    """Sample, score and pick: groups as they come, then informative ones, as a node's own and external ones are.

    Raises:
        SystemExit: too few groups are informative.
    """
    with scoring() as scorer:
        (questions,) = scorer.ask(1, ASKED)
        answers = policy.generate([question.prompt for question in questions], group_size=ASKED.group_size, seed=0)
        scores = scorer.score(questions, [[completion.text for completion in group] for group in answers])
    groups = [
        Group(question.prompt, tuple(Completion(c.text, c.finished) for c in group), score.rewards)
        for question, group, score in zip(questions, answers, scores, strict=True)
    ]
    own, others = groups[:OWN], [group for group in groups[OWN:] if is_informative(group.rewards)][:EXTERNAL]
    if len(others) < EXTERNAL:
        sys.exit(f"expected {EXTERNAL} informative groups among {len(groups) - OWN}, got {len(others)}")
    return own + others


def all_equal(groups: Sequence[Group], reward: float) -> list[Group]:
    """The same groups where every completion earned this."""
    return [replace(group, rewards=(reward,) * len(group.rewards)) for group in groups]


class OurSide:
    """This package's trainer."""

    def __init__(self, empty_update: str, threads: int) -> None:
        config = GrpoConfig(learning_rate=RATE, max_grad_norm=1e9, empty_update=empty_update)
        self.policy = load_policy(MODEL, config, threads=threads, device="cpu")
        self.tokens = 0

    def train(self, groups: Sequence[Group]) -> None:
        """One update, in two parts as a node makes it."""
        rows = [TrainGroup(group.prompt, group.completions, group_advantages(group.rewards)) for group in groups]
        self.policy.begin_update(rows[:OWN])
        self.tokens = self.policy.finish_update(rows[OWN:]).tokens

    def first_gradient(self) -> Weights:
        """Of the first update."""
        return first_gradient(self.policy)

    def weights(self) -> Weights:
        """A copy, by parameter name."""
        return snapshot_of(self.policy).weights


def gradients(make: Make, groups: Sequence[Group], threads: int) -> dict[str, Any]:
    """Ours, and the gap of genrl's with ever more changes; the advantages of genrl as it is."""
    ours = OurSide("skip", threads)
    ours.train(groups)
    expected = ours.first_gradient()
    found: dict[str, Any] = {}
    advantages: list[float] = []
    for name, changes in CHANGES.items():
        side = make(changes)
        side.train(groups)
        gap = relative_gap(side.gradient, expected)
        found[name] = {"gap": gap, "tokens": int(side.inputs["completion_mask"].sum())}
        advantages = advantages or sorted(side.inputs["advantages"].tolist())
        print(f"gradient, {name}: gap {gap:.2g}", file=sys.stderr)
    return {"tokens": ours.tokens, "gradient": found, "advantages": advantage_ratios(groups, advantages)}


def advantage_ratios(groups: Sequence[Group], genrls: Sequence[float]) -> dict[str, float]:
    """Smallest and largest of ours / genrl's, rank by rank: rows of a minibatch come in any order."""
    ours = sorted(advantage for group in groups for advantage in group_advantages(group.rewards))
    ratios = [a / b for a, b in zip(ours, genrls, strict=True) if a or b]
    return {"ratio_min": min(ratios), "ratio_max": max(ratios)}


def empty_rounds(make: Make, groups: Sequence[Group], threads: int) -> dict[str, Any]:
    """Displacements by every side; the gap of the weights after all rounds, where nothing but rounding differs."""
    step, as_ours, all_right = OurSide("step", threads), make(CHANGES["population_std"]), make(Changes())
    start = step.weights()
    found = {
        "formula": momentum_displacements(EMPTY_ROUNDS),
        "genrl_all_right": displacements(all_right, groups, 1.0),
        "genrl_all_wrong": displacements(make(Changes()), groups, 0.0),
        "step": displacements(step, groups, 1.0),
        "skip": displacements(OurSide("skip", threads), groups, 1.0),
    }
    displacements(as_ours, groups, 1.0)
    for name, lengths in found.items():
        print(f"empty rounds, {name}: {[round(length, 2) for length in lengths]}", file=sys.stderr)
    return {
        **found,
        "genrl_steps": all_right.steps,
        "genrl_gradient": max(float(gradient.abs().max()) for gradient in all_right.gradient.values()),
        "weights_gap": length_of(step.weights(), as_ours.weights()) / length_of(start, step.weights()),
    }


def displacements(side: GenrlSide | OurSide, groups: Sequence[Group], reward: float) -> list[float]:
    """|w(after 1, 2, ... empty rounds) - w(before)| / |step before|, where all rewards of an empty round are equal."""
    start = side.weights()
    side.train(groups)
    before = side.weights()
    found = []
    for _ in range(EMPTY_ROUNDS):
        side.train(all_equal(groups, reward))
        found.append(length_of(before, side.weights()) / length_of(start, before))
    return found


def momentum_displacements(rounds: int, beta1: float = 0.9, beta2: float = 0.999) -> list[float]:
    """What Adam does after one step on a gradient and then steps on zero, in lengths of the first step.

    Adam, arXiv:1412.6980, algorithm 1, with epsilon 0: step t is m / (1 - beta1^t) / sqrt(v / (1 - beta2^t)), and the
    moments decay from (1 - beta) times the gradient, or its square.
    """
    found, total = [], 0.0
    for t in range(2, rounds + 2):
        mean = beta1 ** (t - 1) * (1 - beta1) / (1 - beta1**t)
        square = beta2 ** (t - 1) * (1 - beta2) / (1 - beta2**t)
        total += mean / math.sqrt(square)
        found.append(total)
    return found


def length_of(start: Weights, end: Weights) -> float:
    """L2 norm of the way from one to the other."""
    return math.sqrt(sum(float((end[name] - start[name]).double().square().sum()) for name in start))


def failures(found: dict[str, Any]) -> list[str]:
    """Which of the claims do not hold."""
    return [claim for claim, holds in {**_gradient_claims(found), **_empty_claims(found)}.items() if not holds]


def _gradient_claims(found: dict[str, Any]) -> dict[str, bool]:
    gradient, size, finished = found["gradient"], found["group_size"], found["finished"]
    gaps = [gradient[name]["gap"] for name in CHANGES]
    larger, ratios = math.sqrt(size / (size - 1)), found["advantages"].values()
    lacking = found["tokens"] - finished
    return {
        f"with all differences undone the gap is at most {ROUNDING:g}": gaps[-1] <= ROUNDING,
        "every difference undone narrows the gap": all(a > b for a, b in pairwise(gaps)),
        "without end-of-text genrl trains on one token less per finished completion": finished > 0
        and all(gradient[name]["tokens"] == lacking for name in ("as_it_is", "right_padded")),
        "with it on as many as ours": gradient["end_of_text"]["tokens"] == found["tokens"],
        "the gap by the standard deviation is 1 - sqrt((G - 1) / G)": math.isclose(
            gaps[2], 1 - 1 / larger, rel_tol=1e-3
        ),
        "our advantages are sqrt(G / (G - 1)) times genrl's": all(abs(ratio - larger) < 1e-4 for ratio in ratios),
    }


def _empty_claims(found: dict[str, Any]) -> dict[str, bool]:
    empty = found["empty_rounds"]
    formula = empty["formula"]

    def near(name: str) -> bool:
        return all(abs(a - b) <= NEAR for a, b in zip(empty[name], formula, strict=True))

    nothing = [0.0] * len(formula)
    return {
        "genrl steps where all rewards are 1": empty["genrl_steps"] == 1 + len(formula),
        "genrl's gradient is 0 there": empty["genrl_gradient"] == 0,
        "genrl moves by momentum there": near("genrl_all_right"),
        "where all rewards are 0 genrl does so, or nothing": near("genrl_all_wrong")
        or empty["genrl_all_wrong"] == nothing,
        "empty_update = step moves so": near("step"),
        "empty_update = skip moves nothing": empty["skip"] == nothing,
        "genrl's weights and those of step stay together": empty["weights_gap"] <= NEAR,
    }


def measure(genrl: ModuleType, threads: int, scratch: Path) -> dict[str, Any]:
    """All figures."""
    groups = make_round(OurSide("skip", threads).policy)
    make = partial(GenrlSide, genrl, embedded_path(MODEL), ASKED.group_size, RATE, scratch)
    return {
        "genrl": identity(genrl),
        "model": MODEL,
        "groups": len(groups),
        "informative_groups": sum(is_informative(group.rewards) for group in groups),
        "group_size": ASKED.group_size,
        "finished": sum(completion.finished for group in groups for completion in group.completions),
        **gradients(make, groups, threads),
        "empty_rounds": empty_rounds(make, groups, threads),
    }


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--genrl", type=Path, metavar="FOLDER", help="holds genrl's package (default: it is installed)")
    parser.add_argument("--package", default="genrl", help="its name there, such as rgym_exp.vendor.genrl")
    arguments = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # genrl's trainer takes a GPU where it sees one
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    genrl = load_genrl(arguments.genrl, arguments.package)
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(genrl, arguments.threads, Path(scratch))
    if wrong := failures(found):
        sys.exit("\n".join([f"{found}", "does not hold:", *(f"  {claim}" for claim in wrong)]))
    keep("genrl_gap", found, arguments)


if __name__ == "__main__":
    main()
