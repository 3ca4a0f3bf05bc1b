"""A trainer that takes turns with other processes on its device: it updates only while it holds the device lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec
import torch

from swarm.types import Trainer, TrainGroup, TrainReport


class LeasedTrainer:
    """Wraps a trainer; generating takes little memory, and is no part of this. Implements swarm.types.Trainer."""

    def __init__(
        self, trainer: Trainer, lease: Callable[[], AbstractContextManager[None]], take_waited: Callable[[], float]
    ) -> None:
        """`lease()` is held for the length of its block; `take_waited()` are the seconds waited for it since asked."""
        self._trainer = trainer
        self._lease = lease
        self._take_waited = take_waited
        self.part = trainer.part
        self.snapshot = trainer.snapshot
        self.restore = trainer.restore

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """Begins the update when it is its turn. Between the two halves of an update others may have theirs."""
        with self._turn():
            self._trainer.begin_update(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """Finishes the update when it is its turn."""
        with self._turn():
            report = self._trainer.finish_update(groups)
        return msgspec.structs.replace(report, seconds_lease=self._take_waited())

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The memory that torch keeps for later is given back first: the next process needs it."""
        with self._lease():
            try:
                yield
            finally:
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()


def device_to_lease(name: str | None, *, gpus_only: bool) -> str | None:
    """Returns what every process on this machine calls the device that `load_policy` takes; None if it needs no lease.

    The number of a GPU is what CUDA_VISIBLE_DEVICES makes of it, another one in another process: its uuid is not.
    """
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        return f"cuda-{torch.cuda.get_device_properties(device).uuid}"
    return None if gpus_only else str(device)
