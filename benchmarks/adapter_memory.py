"""What does a swarm in one process take of memory, with adapters and without, and does `swarm plan` know it?

    python -m benchmarks.adapter_memory [--quick] [--cases full-100m-1,lora-100m-8,...]

Each case is a real `swarm up --in-process` of a random model of an exact shape, in its own folder: questions as long as
the plan assumes, completions that nothing ends, a tokenizer whose words are numbers as answers, half of which earn 1:
about all groups are informative, and every update is as large as it gets.

    pss         proportional set size of the whole process tree, sampled: its peak
    anonymous   the same without pages of files, which the kernel may drop
    worker      the high-water mark of anonymous memory of the process that computes, by the kernel
    planned     `swarm plan` of the same settings, without the checkpoint's copy, as none is written

The plan is held against `anonymous`, since it counts neither the pages of libraries nor those of the model's file.
Cases that are not asked for stay in the result file as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from benchmarks.common import arguments_of, earlier, keep
from benchmarks.models import model_folder
from benchmarks.swarms import run_swarm
from swarm.config import without_settings
from swarm.planner.node_memory import longest_prompt
from swarm.policy.prompt import encode_prompt

PROFILE = "tiny-2"
COPY = "checkpoint copy"
"""What the plan calls it; with a GPU it lies in the host's memory, which is not counted."""
TASK = '''"""A question of a given length; half of the numbers earn 1."""


def draw(rng, digits):
    return " ".join(str(rng.randint(0, 9)) for _ in range(digits)), "1"


def score(question, answer):
    return 1.0 if int(answer) // 2 % 2 == 0 else 0.0
'''


@dataclass(frozen=True)
class Case:
    """One swarm."""

    model: str
    adapter: str
    nodes: int
    local: int
    external: int
    generations: int
    new_tokens: int
    rounds: int = 2
    micro_batch_tokens: int = 16_384

    @property
    def flags(self) -> list[str]:
        """Of `swarm up` and `swarm plan` alike."""
        sizes = {"local": self.local, "external": self.external, "generations": self.generations}
        sizes["max-new-tokens"] = self.new_tokens
        return ["--adapter", self.adapter, *(word for name, size in sizes.items() for word in (f"--{name}", str(size)))]


TWO_GROUPS = 650
"""Tokens of a micro-batch. A node trains on its own groups before peers' have come, or on both at once: the plan counts
the latter, and where a micro-batch takes no more than either, how groups arrive makes no difference."""
CASES: Mapping[str, Case] = {
    "full-100m-1": Case("random-100m", "none", 1, 4, 0, 4, 32),
    "lora-100m-8": Case("random-100m", "lora", 8, 2, 2, 4, 32, micro_batch_tokens=TWO_GROUPS),
    "lora-0.5b-8": Case("random-0.5b", "lora", 8, 2, 2, 4, 32, rounds=1, micro_batch_tokens=TWO_GROUPS),
    "lora-100m-8-whole": Case("random-100m", "lora", 8, 2, 2, 4, 32),
    "full-gpt2-1": Case("random-gpt2", "none", 1, 4, 0, 4, 32),
    "full-smollm-360m-1": Case("random-smollm-360m", "none", 1, 4, 0, 4, 32),
}
QUICK = {"lora-2m-2": Case("random-2m", "lora", 2, 2, 2, 4, 8)}


def settings_file(folder: Path, model: Path, micro_batch_tokens: int, profile: str = PROFILE) -> Path:
    """One whose task asks questions of the length that the plan assumes."""
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    wanted = longest_prompt(str(model), profile, None)
    digits = max(n for n in range(1, wanted) if len(encode_prompt(tokenizer, " ".join("7" * n))) <= wanted)
    (folder / "parity.py").write_text(TASK)
    file = folder / "swarm.toml"
    task = f'[tasks.parity]\npython = "parity.py"\ndigits = {digits}\n'
    file.write_text(f"micro_batch_tokens = {micro_batch_tokens}\n\n{task}")
    return file


def planned(case: Case, words: list[str]) -> dict[str, Any]:
    """What `swarm plan` says of it."""
    command = [sys.executable, "-m", "swarm", "plan", "--json", "--nodes", str(case.nodes), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=without_settings(os.environ), check=False)
    plan = json.loads(done.stdout)
    copy = sum(part["all"] for part in plan["parts"] if part["name"] == COPY and not part["on_host"])
    parts = {part["name"]: part["all"] for part in plan["parts"] if part["name"] != COPY}
    chosen = {name: plan[name] for name in ("prompt_tokens", "new_tokens", "micro_batch_tokens")}
    return {"bytes": plan["needed"] - copy, "parts": parts, **chosen}


def measure(case: Case, threads: int) -> dict[str, Any]:
    """One case's plan and peaks.

    Raises:
        RuntimeError: the swarm failed, or no update had a gradient.
    """
    with tempfile.TemporaryDirectory() as scratch:
        model = model_folder(case.model, Path(scratch), answering=True)
        config = settings_file(Path(scratch), model, case.micro_batch_tokens)
        words = ["--in-process", "--config", str(config), "--profile", PROFILE]
        words += ["--model", str(model), "--round-interval", "3000", "--threads", str(threads), *case.flags]
        plan = planned(case, words)
        print(f"  planned {plan}", file=sys.stderr)
        run = run_swarm(case.nodes, case.rounds, *words, warm_up=0)
    if not all(row.grad_norm > 0 for row in run.rows):
        raise RuntimeError(f"expected a gradient in every update, got norms {[row.grad_norm for row in run.rows]}")
    return {
        "model": case.model,
        "adapter": case.adapter,
        "nodes": case.nodes,
        "local": case.local,
        "external": case.external,
        "generations": case.generations,
        "planned": plan,
        "pss": max(taken for _, taken in run.memory),
        "anonymous": run.anonymous,
        "worker": run.largest_process,
        "planned_over_anonymous": plan["bytes"] / run.anonymous,
        "seconds_generate": run.median("seconds_generate"),
        "seconds_train": run.median("seconds_train"),
    }


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    arguments = parser.parse_args()
    cases = QUICK if arguments.quick else {name: CASES[name] for name in arguments.cases.split(",")}
    found: dict[str, Any] = earlier("adapter_memory", arguments).get("cases", {})
    for name, case in cases.items():
        print(name, file=sys.stderr)
        found[name] = measure(case, arguments.threads)
        print(f"  {found[name]}", file=sys.stderr)
        keep("adapter_memory", {"profile": PROFILE, "cases": found}, arguments)


if __name__ == "__main__":
    main()
