"""Halving until it fits."""

from __future__ import annotations

import pytest
import torch
from structlog.testing import capture_logs

from swarm.errors import ModelError
from swarm.policy.device import Halvings, MemoryBudget, is_out_of_memory


def tried_sizes(budget: MemoryBudget, *, fits: int, floor: int = 1, whole: int = 100) -> list[int]:
    """The sizes at which work is tried that fits at `fits`."""
    sizes: list[int] = []

    def work(size: int) -> int:
        sizes.append(size)
        if size > fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return size

    assert budget.run(work, floor=floor, whole=whole) == sizes[-1]
    return sizes


def test_work_smaller_than_the_budget_is_halved_at_once() -> None:
    with capture_logs():
        assert tried_sizes(MemoryBudget("training", 2**20, Halvings()), fits=60) == [2**20, 50]


def test_work_that_cannot_be_parted_further_ends_with_advice() -> None:
    with capture_logs(), pytest.raises(ModelError, match="training: out of GPU memory even at a batch of 8"):
        tried_sizes(MemoryBudget("training", 64, Halvings()), fits=0, floor=8)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("no room"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("shapes do not match"), False),
    ],
)
def test_what_counts_as_out_of_memory(error: RuntimeError, expected: bool) -> None:
    assert is_out_of_memory(error) == expected
