"""Swarms on questions of one's own: a dataset of 500, chain_sum with own parameters, a Python file, and specialists.

    python -m benchmarks.own_tasks --path DIR [--rounds 40] [--nodes 4] [--swarms dataset,python]

Each is an ordinary `swarm up` of its own experiment; then `swarm validate`. What it prints is the mean reward and the
share of tagged completions in each quarter of the rounds, by task. The embedded models know the
questions of the nine tasks word for word; one that is to answer chain_sum's is first taught its form on questions that
no run asks, as the embedded ones were on theirs (swarm.plugins.lab.warmup), and is right in a few of a hundred.

Predicted before the first run: the dataset, the Python file and the specialists learn as the demonstration does, format
first (tagged 0.1 to above 0.7), reward at least threefold; chain_sum likewise once the form is taught.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio

import swarm
from swarm.plugins.lab.warmup.corpus import Example
from swarm.tasks.definitions import profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import Scorer
from swarm.types import Question

CHAIN_SUM = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "scoring": 2}
SETTINGS = {
    "dataset": '[tasks.sums]\ndataset = "sums.jsonl"\nscorer = "number"\n',
    "chain_sum": "[tasks.chain_sum]\n" + "".join(f"{name} = {value}\n" for name, value in CHAIN_SUM.items()),
    "python": '[tasks.additions]\npython = "additions.py"\n',
    "specialists": (
        '[tasks.sums]\ndataset = "sums.jsonl"\nscorer = "number"\n[tasks.additions]\npython = "additions.py"\n'
        '[tasks.bits]\ngym = "binary_matrix"\nmin_n = 2\nmax_n = 3\np_zero = 0.5\nweight = 2\n'
    ),
}
"""Experiment -> its settings file."""
MIXTURES = {"specialists": "sums,additions,bits+sums=0.5,additions+bits"}
"""One for each of four nodes."""
PYTHON = '''"""Additions of two digits."""


def draw(rng, most=9):
    a, b = rng.randint(1, most), rng.randint(1, most)
    return f"Calculate {a} + {b}.", str(a + b)


def score(question, answer):
    return 1.0 if answer.strip() == question.answer else 0.0
'''
HEADER = """\
| swarm | task | reward, by quarter | tagged, by quarter | external groups | refused | validates |
|---|---|---|---|---|---|---|"""
"""Of what `report` prints."""
TAUGHT = 150
"""Steps of the warm-up on a task's form."""


def write_inputs(folder: Path) -> None:
    """The dataset, the Python file and the settings files."""
    rng, sums = random.Random(5), dict[str, int]()
    while len(sums) < 500:
        terms = [str(rng.randint(1, 9)) for _ in range(rng.choice((2, 3)))]
        text = " ".join([terms[0], *(f"{rng.choice('+-')} {term}" for term in terms[1:])])
        sums[text] = sum(int(part) for part in text.replace("+ ", "+").replace("- ", "-").split())
    lines = [json.dumps({"question": f"Calculate {text}.", "answer": str(value)}) for text, value in sums.items()]
    (folder / "sums.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "additions.py").write_text(PYTHON)
    for name, text in SETTINGS.items():
        (folder / f"{name}.toml").write_text(text)


def teach_form(folder: Path) -> Path:
    """A copy of tiny-2-qwen2 that has seen chain_sum's questions, a tenth of them with tagged answers."""
    from swarm.plugins.lab.warmup.corpus import WARMUP_SEEDS, WELL_FORMED

    async def ask() -> list[Question]:
        rng, profile = random.Random(1), profile_of("chain_sum", CHAIN_SUM)
        requests = [QuestionRequest("chain_sum", profile, rng.randrange(*WARMUP_SEEDS)) for _ in range(2_000)]
        async with Scorer(tasks={"chain_sum": CHAIN_SUM}) as scorer:
            return await scorer.make(requests)

    def examples(questions: list[Question]) -> Iterator[Example]:
        rng = random.Random(2)
        for question in itertools.cycle(questions):
            answer = question.answer if rng.random() < 0.5 else str(rng.randint(-9, 18))
            yield Example("chain_sum", question.prompt, (WELL_FORMED if rng.random() < 0.1 else "{}").format(answer))

    return teach(folder / "tiny-chain-sum", examples(anyio.run(ask)))


def teach(target: Path, examples: Iterator[Example]) -> Path:
    """A copy of tiny-2-qwen2 that has seen some examples, a tenth of them tagged."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from swarm.plugins.lab.warmup.build import WarmupStage, train_supervised

    source = Path(swarm.__file__).parent / "assets" / "models" / "tiny-2-qwen2"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(source), AutoTokenizer.from_pretrained(source)
    stage = WarmupStage(steps=TAUGHT, p_well_formed=0.1, peak_lr=1e-3)
    train_supervised(model, tokenizer, examples, stage, target.name)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target


def run(folder: Path, name: str, args: argparse.Namespace, model: str) -> int:
    """One swarm to its end, and whether it validates."""
    where = ["--path", str(folder / "place"), "--experiment", name]
    asked = ["--config", str(folder / f"{name}.toml"), "--model", model, "--learning-rate", "3e-4"]
    asked += ["--nodes", str(args.nodes), "--rounds", str(args.rounds)]
    asked += ["--mixture", MIXTURES[name]] if name in MIXTURES else []
    subprocess.run([sys.executable, "-m", "swarm", "up", *where, *asked], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([sys.executable, "-m", "swarm", "validate", *where], stdout=subprocess.DEVNULL).returncode


def report(folder: Path, name: str, validated: int) -> None:
    """The table's rows of one swarm."""
    logs = (folder / "place" / "experiments" / name / "logs").glob("*/metrics.jsonl")
    rows = [json.loads(line) for file in logs for line in file.read_text().splitlines()]
    rounds = 1 + max(row["round"] for row in rows)
    refused = sum(sum(row["refused_files"].values()) for row in rows)
    for task in sorted({task for row in rows for task in row["task_rewards"]}):
        curves = [
            " ".join(f"{_mean(rows, column, task, quarter, rounds):.{digits}f}" for quarter in range(4))
            for column, digits in (("task_rewards", 3), ("task_tag_rates", 2))
        ]
        print(
            f"| {name} | {task} | {curves[0]} | {curves[1]} "
            f"| {sum(row['external_groups'] for row in rows)} | {refused} | {'yes' if validated == 0 else 'NO'} |",
            flush=True,
        )


def _mean(rows: Sequence[Any], column: str, task: str, quarter: int, rounds: int) -> float:
    of_task = [row for row in rows if task in row[column]]
    return fmean(row[column][task] for row in of_task if 4 * row["round"] // rounds == quarter)


def main() -> None:
    """The swarms, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--swarms", default=",".join(SETTINGS))
    args = parser.parse_args()
    folder = args.path.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(folder)
    print(HEADER)
    for name in args.swarms.split(","):
        model = str(teach_form(folder)) if name == "chain_sum" else "tiny-2-qwen2"
        report(folder, name, run(folder, name, args, model))


if __name__ == "__main__":
    main()
