"""A swarm that converses: three guesses at a number, with a word of the environment's after each.

    python -m benchmarks.guessing --path DIR [--rounds 40] [--nodes 3]

The task is the one that `swarm task new guess --turns` writes; an ordinary `swarm up`, then `swarm validate`. Models
were first taught the form of a guess on numbers at random, a tenth of them tagged, in the first turn alone.

Predicted before the first run: format first (tagged 0.1 to above 0.7), the reward from below 0.1 to above 0.3. Who says
5, then the middle of what is left, earns 0.61 on average; who guesses at random 0.37; who says 5 three times 0.30.

Found: 0.124 and 0.332, tagged 0.62 and 1.00; of guesses after a word 0.58 and 0.57 follow it, so that is not learned.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.own_tasks import HEADER, report, run, teach
from swarm.plugins.lab.warmup.corpus import WELL_FORMED, Example
from swarm.tasks.python.template import CONVERSATION, SETTINGS

NAME, LARGEST = "guess", 9
PROMPT = f"I think of a whole number from 1 to {LARGEST}. Which one is it? You have 3 guesses."


def examples() -> Iterator[Example]:
    """Numbers at random."""
    rng = random.Random(2)
    for _ in itertools.count():
        form = WELL_FORMED if rng.random() < 0.1 else "{}"
        yield Example(NAME, PROMPT, form.format(rng.randint(1, LARGEST)))


def conversations(folder: Path) -> None:
    """Turns, and what a second guess does with the word after the first, in the first and last quarter."""
    files = sorted((folder / "place" / "experiments" / NAME / "rollouts").glob("round_*/stage_0/*.json"))
    said = [(file["round"], entry) for file in (json.loads(f.read_text()) for f in files) for entry in _entries(file)]
    quarter = (1 + max(round_ for round_, _ in said)) // 4
    last = max(round_ for round_, _ in said) - quarter
    parts = {
        "first": [entry for round_, entry in said if round_ < quarter],
        "last": [entry for round_, entry in said if round_ > last],
    }
    for name, entries in parts.items():
        turns = fmean(1 + len(entry.get("turns", [])) for entry in entries)
        moved = [step for entry in entries for step in _steps(entry)]
        print(f"{name} quarter: {turns:.2f} turns; of {len(moved)} guesses after a word {_share(moved)} follow it")


def _entries(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for group in file["rollouts"].values() for entry in group]


def _steps(entry: dict[str, Any]) -> Iterator[bool]:
    turns = entry.get("turns", [])
    texts = [*(turn["response"] for turn in turns), entry["response"]]
    for turn, (before, after) in zip(turns, itertools.pairwise(map(_guess, texts)), strict=True):
        if before is not None and after is not None:
            yield after > before if "higher" in turn["reply"] else after < before


def _guess(text: str) -> int | None:
    found = text.rpartition("<answer>")[2].partition("</answer>")[0].strip()
    return int(found) if "</answer>" in text and found.isascii() and found.isdigit() else None


def _share(found: list[bool]) -> str:
    return f"{fmean(found):.2f}" if found else "none"


def main() -> None:
    """Teach, run, validate, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=3)
    args = parser.parse_args()
    folder = args.path.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.py").write_text(CONVERSATION.format(name=NAME))
    (folder / f"{NAME}.toml").write_text(SETTINGS.format(name=NAME) + "\n")
    taught = teach(folder / "tiny-guess", examples())
    print(HEADER)
    report(folder, NAME, run(folder, NAME, args, str(taught)))
    conversations(folder)


if __name__ == "__main__":
    main()
