"""`make gpu`: all that is measured on a card, in parts of some minutes.

    for each part: done at this commit already? ─▶ a process of its own ─in time?─▶ its result file, a line here

    python -m benchmarks.card                            all parts, the most important first
    python -m benchmarks.card --parts correct decode     these, also where they are done
    python -m benchmarks.card --device cpu --tiny        the same on a CPU, to see that it runs

What is done, and at which commit, stands in results/card_{card}.json after every part, so a broken run goes on. A part
that did not run says why. Beside torch and this package with its extra `dev`, nothing is needed; TRL is measured where
it is installed. Random models earn nothing: gradients come from the rewards that benchmarks.adapter_memory makes up.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import RESULTS, arguments_of, card_name, earlier, is_installed, write

MINUTES = 2.0


@dataclass(frozen=True)
class Part:
    """One thing that is measured."""

    what: str
    words: tuple[str, ...]
    """Of `python -m`."""
    tiny: tuple[str, ...]
    """The same, small."""
    minutes: float = MINUTES


def _of_card(what: str, part: str) -> Part:
    words = ("benchmarks.gpu", "--parts", part)
    return Part(what, words, (*words, "--tiny"))


_TESTS = ("pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "gpu", "tests/unit/policy")
_MEMORY = "benchmarks.gpu_memory"
PARTS: Mapping[str, Part] = {
    "correct": Part("tests of the policy on this device", _TESTS, _TESTS),
    "decode": _of_card("tokens a second against the bound", "decode"),
    "train": _of_card("tokens a second, utilisation", "train"),
    "profile": _of_card("the longest kernels", "profile"),
    "rival": _of_card("transformers' generate_batch", "rival"),
    "eight": Part(
        "eight nodes with adapters, on the card and held to 16 GB",
        (_MEMORY, "--cases", "lora-0.5b-8,lora-0.5b-8-of-16GB"),
        (_MEMORY, "--quick"),
        3.0,
    ),
    "owner": Part("4 x GPT-2 and 4 x SmolLM-360M", (_MEMORY, "--cases", "full-gpt2-4,lora-smollm-360m-4"), (), 3.0),
    "demonstration": Part(
        "the demonstration on the card",
        ("benchmarks.demonstration", "--repetitions", "1", "--up", "--rounds 10"),
        (),
        3.0,
    ),
}


def outcome(part: Part, words: Sequence[str], device: str, output: Path | None) -> dict[str, Any]:
    """Runs a part in a process of its own; returns how it ended."""
    if not words:
        return {"not_run": "it has no small form"}
    own = words[0].startswith("benchmarks.")
    where = ["--device", device, *(["--output", str(output)] if output else [])] if own else []
    command = [sys.executable, "-m", *words, *where]
    began = time.monotonic()
    try:
        ended = subprocess.run(command, timeout=60 * part.minutes, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return {"not_run": f"it takes more than {part.minutes:g} minutes"}
    took = round(time.monotonic() - began, 1)
    if ended.returncode:
        return {"not_run": (ended.stderr or ended.stdout).strip()[-600:], "seconds": took}
    return {"seconds": took, "said": ended.stdout.strip().splitlines()[-1][:200] if ended.stdout.strip() else ""}


def probed() -> dict[str, Any]:
    """Returns what fast paths would need here: Triton wants a C compiler."""
    return {
        "c_compiler": next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None),
        "triton": is_installed("triton"),
        "trl": is_installed("trl"),
        "torch": torch.__version__,
    }


def _commit() -> str:
    """Returns what is checked out, with a mark where files differ from it; empty: this is no clone."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=RESULTS, capture_output=True, text=True)
    return found.stdout.strip()


def main() -> None:
    """Runs what is missing, and prints a line for each part."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to see that the script runs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="these, also where they are done")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("make gpu needs a card that torch can use; torch.cuda.is_available() is False here")
    arguments.quick |= arguments.tiny
    facts = {"gpu": torch.cuda.get_device_name()} if arguments.device.startswith("cuda") else {}
    kind = card_name(facts["gpu"]) if facts else "cpu"
    commit = _commit()
    done: dict[str, Any] = earlier("card", arguments, device=kind).get("parts", {})
    for name in arguments.parts or PARTS:
        before = done.get(name, {})
        if not arguments.parts and "not_run" not in before and commit and before.get("commit") == commit:
            print(f"{name}: done at this commit")
            continue
        part = PARTS[name]
        found = outcome(part, part.tiny if arguments.tiny else part.words, arguments.device, arguments.output)
        done[name] = {"what": part.what, "commit": commit, **found}
        print(f"{name}: {found.get('not_run') or found['said']} ({found.get('seconds', 0)} s)", flush=True)
        write("card", {"probed": probed(), "parts": done}, arguments, device=kind, **facts)


if __name__ == "__main__":
    main()
