"""A trainer that takes turns with other processes on its device: it updates only while it holds the device lease.

DeviceLease is a file lock that lets one process at a time update on a shared device.

A lock on a file in this machine's temporary folder, one file per user and device. The kernel frees it when its holder
dies, however it dies. It is nothing that the shared folder knows of: a lease there would be no mutual exclusion.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import msgspec
import torch

from swarm.logs import get_logger
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


if sys.platform != "win32":  # which runs no nodes
    import fcntl

logger = get_logger(__name__)

POLL_SECONDS = 0.005
"""Between two attempts: small beside a backward pass, and an attempt costs a microsecond."""
REPORT_SECONDS = 60.0


def lease_folder() -> Path:
    """This user's folder of lease files."""
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}"


class DeviceLease:
    """One node's claim on the device that it computes on; used from its compute thread alone."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder or lease_folder()
        self._now = now
        self._sleep = sleep
        self._waited = 0.0
        self._complained = False

    @contextmanager
    def held(self, device: str) -> Iterator[None]:
        """Wait until no other process holds the device, however long that takes, and hold it for the block.

        A lease folder that cannot be used costs the exclusion, never the round: that is logged once.

        Args:
            device: what tells the devices of this machine apart, such as a GPU's uuid.
        """
        with ExitStack() as lock:
            try:
                self._take(lock, device)
            except OSError as error:
                self._complain(device, error)
            yield

    def take_waited(self) -> float:
        """Returns seconds spent waiting since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited

    def _take(self, lock: ExitStack, device: str) -> None:
        _make_private(self._folder)
        name = re.sub(r"[^A-Za-z0-9.-]", "-", device)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._folder / f"device-{name}.lock", flags, 0o600)
        lock.callback(os.close, file)
        self._wait_for(file, device)
        lock.callback(fcntl.flock, file, fcntl.LOCK_UN)  # closing is not enough while a child is just being forked

    def _wait_for(self, file: int, device: str) -> None:
        begun = reported = self._now()
        while not _try_to_lock(file):
            if self._now() - reported >= REPORT_SECONDS:
                reported = self._now()
                logger.warning("lease.waiting", device=device, seconds=round(reported - begun))
            self._sleep(POLL_SECONDS)
        self._waited += self._now() - begun

    def _complain(self, device: str, error: OSError) -> None:
        if not self._complained:
            logger.warning("lease.unusable", device=device, folder=str(self._folder), error=str(error))
        self._complained = True


def _make_private(folder: Path) -> None:
    """Make the folder, or see that it is ours alone: anybody may write where it lies. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EPERM, f"{folder} must be a folder of mode 0700 that belongs to this user")


def _try_to_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
