"""A thread that watches one folder as nodes do, and passes on what it hears."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from pathlib import Path
from types import TracebackType


class Listener:
    """Hears of files from when it is entered until it is left."""

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
