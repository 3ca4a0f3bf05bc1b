"""The child that opens a model out of a shared place: confines itself, opens, says why not (policy.opening asks).

A process of its own: `python -m swarm.policy.opening_child FOLDER`. It writes one `OpenedModel` to its output.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import msgspec
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from swarm.errors import ModelError
from swarm.harmless import printable
from swarm.policy.asked_well import suited
from swarm.policy.model_files import CONFIG, WEIGHTS, parameters, tensor_shapes
from swarm.policy.opening import OpenedModel
from swarm.policy.prompt import decode_completion, encode_prompt, text_behind_a_turn

CPU_S, CPU_S_PER_MB = 13.0, 0.5
"""Seconds of processor time behind the imports, 3.4 for an embedded model; and for each MB of a
tokenizer."""
MEMORY, MEMORY_PER_BYTE = 256 << 20, 16
"""Bytes behind the imports, 139 MB for an embedded model; and for each byte of a tokenizer."""
_UNSAVED = 1 << 24
"""Numbers that a model may make for itself: angles of positions, a causal mask."""
_REFUSED = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.spawn", "pty.")
"""Audit events that end in PermissionError."""
_LONGEST = 300
_QUESTION = "How much is 1 + 1?"


def _child(folder: Path) -> str:
    """Returns why it cannot be opened; empty if it can."""
    torch.set_num_threads(1)
    _confine(_small_bytes(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):  # where nothing is allocated
        module = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    built = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    saved = parameters(shape for _, shape in tensor_shapes(folder / WEIGHTS))
    if built > saved + _UNSAVED:
        return f"its {CONFIG} makes a model of {built} numbers, and its weights have {saved}"
    try:
        asking = suited(folder.name, tokenizer)
    except ModelError as error:
        return str(error)
    ids = encode_prompt(tokenizer, _QUESTION, asking)
    text_behind_a_turn(tokenizer, _QUESTION, asking)
    decode_completion(tokenizer, ids)
    if (folder / "generation_config.json").exists():
        eos = GenerationConfig.from_pretrained(folder).eos_token_id
        if not all(type(token) is int for token in (eos if isinstance(eos, list) else [eos]) if token is not None):
            return "its generation_config.json names an end of text that is no token"
    return ""


def _small_bytes(folder: Path) -> int:
    """Returns the bytes of all its files but the weights together."""
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name != WEIGHTS)


def _confine(size: int) -> None:
    """Limit this process for good.

    Args:
        size: bytes of the files that are to be opened, but for the weights.
    """
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = math.ceil(used.ru_utime + used.ru_stime + CPU_S + CPU_S_PER_MB * size / 1e6)
    most = {resource.RLIMIT_CPU: cpu, resource.RLIMIT_FSIZE: 1 << 20, resource.RLIMIT_CORE: 0}
    if sys.platform == "linux":
        most[resource.RLIMIT_DATA] = _data_bytes() + MEMORY + MEMORY_PER_BYTE * size
    for which, value in most.items():
        hard = resource.getrlimit(which)[1]  # a stricter one of the machine's stays
        resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    sys.addaudithook(_refuse)


def _data_bytes() -> int:
    """Returns the bytes of this process that RLIMIT_DATA counts."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _refuse(event: str, _arguments: object) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event} is not for a model of a shared place")


def _said(folder: Path) -> str:
    try:
        return _child(folder)
    except MemoryError:
        return "to open it takes more memory than its size explains"
    except Exception as error:  # noqa: BLE001 - the boundary: whatever a stranger's file makes of a library
        return printable(f"{type(error).__name__}: {error!s:.{_LONGEST}}")


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(OpenedModel(_said(Path(sys.argv[1])))))
