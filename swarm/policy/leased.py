"""A policy that takes turns with other processes on its device: it updates only while it holds the device lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec
import torch

from swarm.types import Completion, Policy, Snapshot, TrainGroup, TrainReport


class LeasedPolicy:
    """Wraps a policy; everything but its updates goes straight through. Implements swarm.types.Policy."""

    def __init__(
        self, policy: Policy, lease: Callable[[], AbstractContextManager[None]], take_waited: Callable[[], float]
    ) -> None:
        """`lease()` is held for the length of its block; `take_waited()` are the seconds waited for it since asked."""
        self._policy = policy
        self._lease = lease
        self._take_waited = take_waited

    @property
    def name(self) -> str:
        """Short name that peers see."""
        return self._policy.name

    @property
    def tokenizer(self) -> str:
        """Digest of its tokenizer."""
        return self._policy.tokenizer

    def generate(self, prompts: Sequence[str], *, group_size: int, seed: int) -> list[tuple[Completion, ...]]:
        """As the policy itself: generating takes little memory, and others may do it meanwhile."""
        return self._policy.generate(prompts, group_size=group_size, seed=seed)

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """As the policy itself, when it is its turn. Between the two halves of an update others may have theirs."""
        with self._turn():
            self._policy.begin_update(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """As the policy itself, when it is its turn."""
        with self._turn():
            report = self._policy.finish_update(groups)
        return msgspec.structs.replace(report, seconds_lease=self._take_waited())

    def snapshot(self) -> Snapshot:
        """As the policy itself."""
        return self._policy.snapshot()

    def restore(self, snapshot_dir: str) -> None:
        """As the policy itself."""
        self._policy.restore(snapshot_dir)

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
    """What every process on this machine calls the device that `load_policy` takes, or None if it needs no lease.

    The number of a GPU is what CUDA_VISIBLE_DEVICES makes of it, another one in another process: its uuid is not.
    """
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        return f"cuda-{torch.cuda.get_device_properties(device).uuid}"
    return None if gpus_only else str(device)
