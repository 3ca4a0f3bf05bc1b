"""Decides where a model computes, and in what; and goes on with less where a GPU is full.

name ──pick_device──▶ torch.device ──refuse_unsuited──▶ ──autocast_dtype_of──▶ bfloat16, float16 or None

MemoryBudget halves a batch size after a GPU out-of-memory error, and keeps the smaller size.

Several nodes may share one GPU, so what fitted yesterday may not fit now; giving up would end the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.policy.settings import unsuited
from swarm.types import MemoryUse


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


def refuse_unsuited(name: str, device: torch.device, precision: str) -> None:
    """Refuse what a device cannot compute. Raises ModelError."""
    if problem := unsuited(precision, is_gpu=device.type == "cuda", is_ampere=is_ampere(device)):
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


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a CPU's tensor on the device, without waiting for the work that a GPU has in hand."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


_Result = TypeVar("_Result")
logger = get_logger(__name__)


class Halvings:
    """Counts how often work on one model was repeated with half the size."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """One more."""
        self._count += 1

    def take(self) -> int:
        """Returns how many there were since the last call."""
        count, self._count = self._count, 0
        return count


class MemoryBudget:
    """A size of work that halves whenever the GPU runs out of memory; it never grows again."""

    def __init__(self, work_name: str, size: int, halvings: Halvings) -> None:
        self._work_name = work_name
        self._halvings = halvings
        self.size = size

    def run(self, work: Callable[[int], _Result], *, floor: int, whole: int) -> _Result:
        """Returns the result of work(size), called again with half the size until it fits. `work` must be repeatable.

        Args:
            floor: the smallest size that makes a difference.
            whole: the largest one, at which all work is one piece.

        Raises:
            ModelError: it does not fit at or below `floor`.
        """
        while True:
            try:
                return work(self.size)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if self.size <= floor:
                    raise ModelError(
                        f"{self._work_name}: out of GPU memory even at a batch of {self.size}. Run fewer nodes on this "
                        f"GPU, shorten max_new_tokens, or turn on gradient checkpointing. {error}"
                    ) from error
                self.size = max(1, min(self.size, whole) // 2)
                self._halvings.add()
                logger.warning("memory.halved", work=self._work_name, size=self.size)
            torch.cuda.empty_cache()  # outside the handler, whose traceback keeps the failed pass's tensors alive


def gpu_memory(device: torch.device) -> MemoryUse | None:
    """Measures the memory of a GPU; None on a CPU."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return MemoryUse(
        allocated=torch.cuda.memory_allocated(device),
        peak=torch.cuda.max_memory_allocated(device),
        total=total,
        free=free,
        reserved=torch.cuda.memory_reserved(device),
    )


def is_out_of_memory(error: RuntimeError) -> bool:
    """Torch's own allocator has a class for it; where the driver or cuBLAS finds none left, only the message tells."""
    text = str(error)
    said = "CUBLAS_STATUS_ALLOC_FAILED" in text or "CUDA error: out of memory" in text
    return isinstance(error, torch.OutOfMemoryError) or said
