"""Commands as they are typed."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest
from _pytest.capture import CaptureResult

from swarm.cli.main import run

Typed = Callable[..., CaptureResult[str]]
"""The words of a command, and the exit `code` that it must have (0), or one of `codes` -> what it prints."""


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    def type_(*words: object, code: int = 0, codes: Collection[int] = ()) -> CaptureResult[str]:
        capsys.readouterr()
        assert run([*map(str, words)]) in (codes or {code}), capsys.readouterr()
        return capsys.readouterr()

    return type_
