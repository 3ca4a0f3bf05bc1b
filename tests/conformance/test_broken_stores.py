"""The suite notices a store that breaks a promise: each check fails on at least one that breaks just that."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.broken import BREAKS, BrokenWorld
from tests.conformance.checks import CHECKS
from tests.conformance.worlds import WORLDS

CASES = [(name, check) for name, wrong in BREAKS.items() for check in wrong.noticed_by]


@pytest.mark.parametrize(("name", "check"), CASES, ids=[f"{name}-{check}" for name, check in CASES])
def test_a_broken_promise_is_noticed(name: str, check: str, tmp_path: Path) -> None:
    wrong = BREAKS[name]
    with ExitStack() as undo, pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[check](BrokenWorld(WORLDS[wrong.world](tmp_path, undo), wrong), tmp_path)


def test_every_check_has_a_store_that_fails_it() -> None:
    assert {check for _, check in CASES} == {*CHECKS}
