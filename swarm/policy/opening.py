"""Opens a model out of a shared place once, in a bounded child, before this process does: anybody may have made it.

    folder ──strangers_problem: kinds of files, names of code──▶ child: no sockets, token, hub; bounded memory and time
           ──(opening_child) tokenizer, the model without numbers, a rendered question──▶ "", or why it is not opened

What is opened here once behaves: sizes, tokenizer and chat template. The weights are numbers, whose names and sizes are
held against the model by whoever loads them. macOS has no RLIMIT_DATA that holds: there time alone is bounded.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.harmless import printable
from swarm.policy.hub import base_of
from swarm.policy.model_files import CONFIG, INDEX, WEIGHTS, lies_in_a_place, read_json, tensor_shapes
from swarm.policy.peft_form import CONFIG as ADAPTER_CONFIG
from swarm.policy.peft_form import adapter_of, is_adapter

TIMEOUT_S = 600.0
"""On the wall, imports included: the machine may be busy."""
SMALL, SMALL_PER_TOKEN = 1 << 20, 256
"""Bytes of all files but the weights together; and for each row of the largest matrix, that of the tokens."""
_MOST_FILES = 100
"""A checkpoint has some ten."""
_CODE = frozenset(
    {"auto_map", "quantization_config", "compression_config", "transformers_weights"}
    | {
        f"{under}{part}_implementation{end}"
        for under in ("", "_")
        for part in ("attn", "experts")
        for end in ("", "_internal")
    }
)
"""Keys by which a configuration has code, files or packages loaded; a checkpoint of swarm has none of them."""
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_ALONE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}


class OpenedModel(msgspec.Struct, frozen=True):
    """Holds what the child says."""

    problem: str


def strangers_problem(folder: Path) -> str:
    """Returns why a model out of a shared place is not to be opened, as far as its files tell; empty for one from
    elsewhere.

    Raises:
        ModelError: it is an adapter beside a model that is none of the user's.
    """
    if not lies_in_a_place(folder):
        return ""
    if is_adapter(folder):
        base_of(folder, adapter_of(folder))
        return ""
    return _odd_folder(folder)


def opening_problem(folder: Path) -> str:
    """Returns why a whole model out of a shared place, which passed folder_problem, is not to be opened; empty if it
    may be, or is from elsewhere.

    Takes seconds: a child opens it.

    Raises:
        ModelError: as strangers_problem.
    """
    if (problem := strangers_problem(folder)) or not lies_in_a_place(folder) or is_adapter(folder):
        return problem
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    told, command = child_environment(kept) | _ALONE, module_command("swarm.policy.opening_child", str(folder))
    try:
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=told, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"it was not open after {TIMEOUT_S:g} s"
    if done.returncode == 0 and done.stdout:
        return forms.decode(done.stdout, OpenedModel).problem
    if done.returncode == -signal.SIGXCPU:
        return "to open it takes more processor time than its size explains"
    return f"to open it takes more memory than its size explains, or breaks the process (exit code {done.returncode})"


def _odd_folder(folder: Path) -> str:
    """Returns what is in the folder of a model that no checkpoint of swarm has; empty if there is nothing."""
    try:
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in islice(os.scandir(folder), _MOST_FILES + 1)}
        if len(found) > _MOST_FILES:
            return f"more than {_MOST_FILES} files"
        if odd := sorted(name for name, one in found.items() if not stat.S_ISREG(one.st_mode)):
            return f"{printable(odd[0])} is no file of its own"
        if both := {ADAPTER_CONFIG, INDEX} & found.keys():
            return f"{both.pop()} beside {CONFIG} and {WEIGHTS}"
        weights = found[WEIGHTS]
        if 0 < (written := 512 * getattr(weights, "st_blocks", 0)) < weights.st_size // 10:
            return f"{WEIGHTS} is a hole: {written} of {weights.st_size} bytes were written"
        rows = max((side for _, shape in tensor_shapes(folder / WEIGHTS) if all(shape) for side in shape), default=0)
        size = sum(one.st_size for name, one in found.items() if name != WEIGHTS)
        if size > (most := SMALL + SMALL_PER_TOKEN * rows):
            return f"{size} bytes beside its weights: expected at most {most} for {rows} tokens"
        for name in (CONFIG, "tokenizer_config.json", "generation_config.json"):
            if name in found and (code := sorted(_CODE & set(_keys(read_json(folder / name, most))))):
                return f"{name} names {code[0]}, which has code or files loaded"
    except (OSError, ValueError, KeyError) as error:
        return f"its files cannot be read: {type(error).__name__}: {error}"
    return ""


def _keys(value: Any) -> Iterator[str]:
    """Yields the keys of all objects in a value."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, list):
            left += one
