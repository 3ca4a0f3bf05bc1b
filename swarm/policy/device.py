"""Decides where a model computes, and in what.

name ──pick_device──▶ torch.device ──refuse_unsuited──▶ ──autocast_dtype_of──▶ bfloat16, float16 or None
"""

from __future__ import annotations

import torch

from swarm.errors import ModelError
from swarm.policy.settings import unsuited


def pick_device(device: str | None) -> torch.device:
    """Returns the device of that name; None: a GPU that torch reaches by CUDA or ROCm, else the CPU.

    Apple's GPUs (MPS) are left out: no run has been measured on one, and no memory can be planned there.
    """
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
        if chosen.type not in ("cpu", "cuda"):
            raise RuntimeError(f"swarm computes on CUDA (or ROCm) and on CPUs, not on {chosen.type}")
        torch.empty(0, device=name)
        return chosen
    except (RuntimeError, AssertionError) as error:  # AssertionError: a torch without CUDA
        raise ModelError(f"device {name!r} cannot be used: {error}. Expected 'cpu', 'cuda' or 'cuda:<n>'.") from error


def refuse_unsuited(name: str, device: torch.device, precision: str, attention: str) -> None:
    """Refuse what a device cannot compute. Raises ModelError."""
    if problem := unsuited(precision, attention, is_gpu=device.type == "cuda", is_ampere=is_ampere(device)):
        raise ModelError(f"model {name!r} on {device}: {problem}.")


def autocast_dtype_of(device: torch.device, precision: str, *, frozen: bool) -> torch.dtype | None:
    """Returns the type that matrix products are computed in; None: fp32. `frozen`: no update changes the weights."""
    if precision == "auto":
        older = "fp16" if frozen and device.type == "cuda" else "fp32"
        precision = "bf16" if is_ampere(device) else older
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": None}[precision]


def is_ampere(device: torch.device) -> bool:
    """Tells whether it is a GPU of that generation or a newer one."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
