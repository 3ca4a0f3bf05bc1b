"""Which steps from line to line did a reading take that no reading took before? The feedback of the search.

sys.settrace, for the Python code of the packages in PACKAGES alone. msgspec is C: of what goes on inside it a search
sees only the outcome, so the reason of a refusal and the place in the document that a message names count as steps too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import swarm

_ROOT = Path(swarm.__file__).parent
PACKAGES = (
    *("wire", "store/folder/fetch.py", "store/folder/growing.py", "records", "judge/judge.py"),
    *("node/sharing/reading.py", "node/sharing/admission.py"),
    *("node/worker/checkpoints.py", "node/worker/round_files.py"),
    *("views/status.py", "views/events.py", "views/text.py"),
)
Step = tuple[object, ...]
_NUMBERS = re.compile(r"\d+")


class Guide:
    """Traces readings and remembers every step that was ever taken."""

    def __init__(self) -> None:
        self.steps: set[Step] = set()
        self._fresh = False
        self._ours: dict[CodeType, bool] = {}
        self._last: dict[FrameType, int] = {}

    def watch(self, reading: Callable[[], str]) -> tuple[str, bool]:
        """The reading's outcome, and whether it went where none has been."""
        self._fresh = False
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            outcome = reading()
        finally:
            sys.settrace(before)
            self._last.clear()
        return outcome, self._fresh

    def see(self, *step: object) -> None:
        """One more step."""
        if step not in self.steps:
            self.steps.add(step)
            self._fresh = True

    def lines(self) -> int:
        """Different lines among the steps."""
        return len({(step[0], step[2]) for step in self.steps if len(step) == 3})

    def _call(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if code not in self._ours:
            file = code.co_filename
            self._ours[code] = any(file.startswith(str(_ROOT / package)) for package in PACKAGES)
        return self._line if self._ours[code] else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line":
            self.see(frame.f_code, self._last.get(frame, 0), frame.f_lineno)
            self._last[frame] = frame.f_lineno
        elif event == "exception":
            self.see("raised", _NUMBERS.sub("N", str(argument[1]).rpartition(" - at ")[2][:80]))
        return self._line
