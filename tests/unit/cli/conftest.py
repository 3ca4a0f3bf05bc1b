"""Commands as they are typed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import pytest

from swarm.cli.main import run


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str


Typed = Callable[..., Printed]
"""The words of a command, and the exit `code` that it must have (0), or one of `codes` -> what it printed."""


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    def type_(*words: object, code: int = 0, codes: Collection[int] = ()) -> Printed:
        capsys.readouterr()
        ended = run([*map(str, words)])
        printed = Printed(*capsys.readouterr())
        assert ended in (codes or {code}), printed
        return printed

    return type_
