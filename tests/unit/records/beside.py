"""A store beside which something happens at each of some calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swarm.store.base import Store

WRITES = ("put", "append_records", "put_bundle", "remove", "remove_prefix", "sync")


def nothing() -> None:
    """Happens beside most calls."""


class Beside:
    """Passes everything on; before and after each of these calls something else happens, or is raised."""

    def __init__(
        self,
        inner: Store,
        calls: tuple[str, ...],
        before: Callable[[], None] = nothing,
        after: Callable[[], None] = nothing,
    ) -> None:
        self._inner, self._calls, self._before, self._after = inner, calls, before, after

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in self._calls:
            return verb

        def call(*args: Any, **kwargs: Any) -> Any:
            self._before()
            result = verb(*args, **kwargs)
            self._after()
            return result

        return call
