"""`make gpu`: all that is measured on a card, in parts of some minutes.

    for each part: done with this code already? ─▶ a process of its own ─in time?─▶ its result file, a line here

    python -m benchmarks.card                            all parts, the most important first
    python -m benchmarks.card --parts correct decode     these, also where they are done
    python -m benchmarks.card --device cpu --tiny        the same on a CPU, to see that it runs

What is done, and with which code, stands in results/card_{card}.json after every part, so a broken run goes on. A part
that did not run says why. Beside torch and this package with its extra `dev`, nothing is needed; TRL is measured where
it is installed (extra `bench`). Random models earn nothing: gradients come from the rewards that
benchmarks.adapter_memory makes up.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import RESULTS, arguments_of, card_name, earlier, is_installed, write
from benchmarks.gpu import NOT_MEASURED

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


def _of_card(what: str, part: str, minutes: float = MINUTES) -> Part:
    words = ("benchmarks.gpu", "--parts", part)
    return Part(what, words, (*words, "--tiny"), minutes)


def _memory(what: str, case: str, minutes: float = 3.0) -> Part:
    return Part(what, ("benchmarks.gpu_memory", "--cases", case), (), minutes)


_TESTS = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "-m", "gpu", "tests/unit/policy")
_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""A machine may have plugins of its own, at which pytest stops."""
PARTS: Mapping[str, Part] = {
    "correct": Part("tests of the policy on this device", _TESTS, _TESTS),
    "decode": _of_card("tokens a second against the bound", "decode", 3.0),
    "compiled": _of_card("the same with a compiled step", "compiled", 5.0),
    "train": _of_card("tokens a second, utilisation", "train"),
    "train-compiled": _of_card("the same with a compiled training pass", "train-compiled", 4.0),
    "profile": _of_card("the longest kernels", "profile"),
    "rival": _of_card("transformers' generate_batch", "rival"),
    "trl": _of_card("rounds of TRL's GRPOTrainer", "trl", 3.0),
    "eight": _memory("eight nodes with adapters", "lora-0.5b-8"),
    "eight-compiled": _memory("the same with compiled steps and a compiled training pass", "lora-0.5b-8-compiled", 6.0),
    "eight-16GB": _memory("eight nodes with adapters, held to 16 GB", "lora-0.5b-8-of-16GB"),
    "gpt2": _memory("4 x GPT-2", "full-gpt2-4"),
    "smollm": _memory("4 x SmolLM-360M, adapters", "lora-smollm-360m-4"),
    "demonstration": Part(
        "the demonstration on the card",
        ("benchmarks.demonstration", "--repetitions", "1", "--up", "--rounds 10"),
        (),
        3.0,
    ),
}


def outcome(part: Part, words: Sequence[str], device: str, output: Path | None, patience: float) -> dict[str, Any]:
    """Runs a part in a process of its own; returns how it ended."""
    if not words:
        return {"not_run": "it has no small form"}
    own = words[0].startswith("benchmarks.")
    where = ["--device", device, *(["--output", str(output)] if output else [])] if own else []
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            [sys.executable, "-m", *words, *where],
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=os.environ | _ALONE,
        )
        try:
            in_time = _ended(running, 60 * part.minutes * patience)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
        said.seek(0)
        lines = said.read().strip().splitlines()
    seconds = round(time.monotonic() - began, 1)
    if not in_time:
        return {
            "not_run": f"it takes more than {part.minutes * patience:g} minutes: see --patience",
            "seconds": seconds,
        }
    if running.returncode:
        return {"failed": "\n".join(lines)[-1500:], "seconds": seconds}
    if refused := [line for line in lines if line.startswith(NOT_MEASURED)]:
        return {"not_run": refused[0], "seconds": seconds}
    return {"seconds": seconds, "said": "measured" if own or not lines else lines[-1][:200]}


def _ended(running: subprocess.Popen[bytes], seconds: float) -> bool:
    """Tells whether it ends by itself; what does not is ended with all that it started, which lets the card go."""
    for patience, end in (seconds, signal.SIGINT), (30.0, signal.SIGKILL), (30.0, None):
        try:
            running.wait(patience)
            return end is signal.SIGINT
        except subprocess.TimeoutExpired:
            if end:
                os.killpg(running.pid, end)
    return False


def probed() -> dict[str, Any]:
    """Returns what fast paths would need here: Triton wants a C compiler."""
    return {
        "c_compiler": next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None),
        "triton": is_installed("triton"),
        "trl": is_installed("trl"),
        "torch": torch.__version__,
    }


def _code() -> str:
    """Returns what is measured: the commit, and a digest of how the code differs from it; empty: this is no clone."""
    said = []
    for words in (["rev-parse", "--short", "HEAD"], ["diff", "HEAD", "--", "../../swarm", "../../tests", "../*.py"]):
        try:
            ended = subprocess.run(["git", *words], cwd=RESULTS, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return ""
        said.append(ended.stdout.strip())
    commit, changes = said
    return commit.decode() + (f"+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else "")


def main() -> None:
    """Runs what is missing, and prints a line for each part."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to see that the script runs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="these, also where they are done")
    parser.add_argument("--patience", type=float, default=1.0, help="times the minutes that a part has")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(
            "torch finds no card here. Where there is one, this torch may be built without CUDA: "
            "rm -r .venv && make gpu TORCH=torch"
        )
    arguments.quick |= arguments.tiny
    facts = {"gpu": torch.cuda.get_device_name()} if arguments.device.startswith("cuda") else {}
    kind = card_name(facts["gpu"]) if facts else "cpu"
    code = _code()
    done: dict[str, Any] = earlier("card", arguments, device=kind).get("parts", {})
    for name in arguments.parts or PARTS:
        before = done.get(name, {})
        if not arguments.parts and "said" in before and code and before.get("code") == code:
            print(f"{name}: done with this code")
            continue
        part = PARTS[name]
        found = outcome(
            part, part.tiny if arguments.tiny else part.words, arguments.device, arguments.output, arguments.patience
        )
        done[name] = {"what": part.what, "code": code, **found}
        told = next(found[how] for how in ("not_run", "failed", "said") if how in found)
        print(f"{name}: {told} ({found.get('seconds', 0)} s)", flush=True)
        write("card", {"probed": probed(), "parts": done}, arguments, device=kind, **facts)
    if failed := [name for name in arguments.parts or PARTS if "failed" in done[name]]:
        sys.exit(f"failed: {', '.join(failed)}; benchmarks/results/card_{kind}.json has what they said")


if __name__ == "__main__":
    main()
