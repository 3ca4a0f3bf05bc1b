"""The suite notices a store that breaks a promise: each check fails on at least one that breaks just that."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance import reading, writing  # noqa: F401 - they name the checks
from tests.conformance.broken import Broken, BrokenWorld, WritesInSteps
from tests.conformance.checks import CHECKS
from tests.conformance.worlds import WORLDS

KINDS = [*Broken.__subclasses__(), *WritesInSteps.__subclasses__()]
CASES = [(kind, check) for kind in KINDS for check in kind.noticed_by]


@pytest.mark.parametrize(("kind", "check"), CASES, ids=[f"{kind.__name__}-{check}" for kind, check in CASES])
def test_a_broken_promise_is_noticed(kind: type[Broken], check: str, tmp_path: Path) -> None:
    with ExitStack() as undo, pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[check](BrokenWorld(WORLDS[kind.world](tmp_path, undo), kind), tmp_path)


def test_every_check_has_a_store_that_fails_it() -> None:
    assert {check for _, check in CASES} == {*CHECKS}
