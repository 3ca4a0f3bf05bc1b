"""Measures whether a file that is renamed into a watched folder wakes its watcher, and how soon."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from swarm.store.health import Delivery

TRIALS = 5
PATIENCE = 1.5
"""Seconds that an event is waited for."""
_RENAME = "import os, sys; os.rename(sys.argv[1], sys.argv[2])"


def measure(probe: Path) -> Delivery:
    """Rename files into a watched folder, from this process and from another one."""
    watched, delivery = probe / "watched", Delivery()
    watched.mkdir()
    with Listener(watched, PATIENCE) as listener:
        delivery.problem = listener.problem
        if not listener.problem:
            for number in range(TRIALS):
                _try(delivery, delivery.own, _rename_here, watched / f"{number}.json", listener)
            _try(delivery, delivery.others, _rename_elsewhere, watched / "other.json", listener)
    return delivery


def _try(
    delivery: Delivery, took: list[float], rename: Callable[[Path, Path], None], target: Path, listener: Listener
) -> None:
    half = target.parent.with_name(f"{target.name}.tmp")
    half.write_bytes(b"{}")
    started = time.monotonic()
    rename(half, target)
    if listener.hears_of(target.name):
        took.append(time.monotonic() - started)
    else:
        delivery.lost += 1


def _rename_here(half: Path, target: Path) -> None:
    half.rename(target)


def _rename_elsewhere(half: Path, target: Path) -> None:
    call = [sys.executable, "-I", "-S", "-c", _RENAME, os.fspath(half), os.fspath(target)]
    with contextlib.suppress(subprocess.TimeoutExpired):  # whether it was renamed or not: nobody was woken in time
        subprocess.run(call, check=False, stderr=subprocess.DEVNULL, timeout=PATIENCE)


class Listener:
    """A thread that watches one folder as nodes do: hears of files from when it is entered until it is left."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.problem = ""
        """Why nothing can be heard, once entered."""
        self._folder = folder
        self._patience = patience
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        if not self._ready.wait(2 * self._patience):
            self.problem = "the watcher did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(self._patience)

    def hears_of(self, name: str) -> bool:
        """Wait until an event names this file; False if none does in time."""
        deadline = time.monotonic() + self._patience
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                if Path(self._heard.get(timeout=left)).name == name:
                    return True
        return False

    def _listen(self) -> None:
        try:
            self._pass_on()
        except Exception as error:  # noqa: BLE001 - the boundary of a library that fails in many ways
            self.problem = str(error) or type(error).__name__
        self._ready.set()

    def _pass_on(self) -> None:
        import watchfiles  # here, and not at the start: it is most of what this command would import

        from swarm.store.folder.watch import DEBOUNCE_MS, RETURN_MS, STEP_MS

        for changes in watchfiles.watch(
            self._folder,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            stop_event=self._over,
            rust_timeout=RETURN_MS,
            yield_on_timeout=True,
        ):
            self._ready.set()
            for _, path in changes:
                self._heard.put(path)
