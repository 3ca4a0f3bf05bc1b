"""Halves a batch size after a GPU out-of-memory error, and keeps the smaller size; how full a GPU is.

Several nodes may share one GPU, so what fitted yesterday may not fit now; giving up would end the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.types import MemoryUse

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
