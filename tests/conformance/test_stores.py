"""Every store keeps every promise of the contract (swarm.store.base)."""

from __future__ import annotations

import re
from contextlib import ExitStack
from inspect import getsource
from pathlib import Path

import pytest

from swarm.store import base
from tests.conformance.checks import CHECKS
from tests.conformance.promises import PROMISES, Check
from tests.conformance.worlds import WORLDS

WITHOUT_BUNDLES = ("folder read by path", "replicated far away")
"""Views and reports open none; checkpoints are not replicated."""

SLOW = ("bucket-whoever_sees_a_write_sees_what_its_writer_put_before",)
"""Endings of the names of cases that look at a bucket very often."""

CASES = [
    pytest.param(world, check, id=f"{world}-{name}", marks=[pytest.mark.engine] * f"{world}-{name}".endswith(SLOW))
    for world in WORLDS
    for name, check in CHECKS.items()
    if world not in WITHOUT_BUNDLES or "bundle" not in getsource(check).lower()
]


@pytest.mark.parametrize(("world", "check"), CASES)
def test_the_store_keeps_its_promise(world: str, check: Check, tmp_path: Path) -> None:
    with ExitStack() as undo:
        check(WORLDS[world](tmp_path, undo), tmp_path)


def test_each_promise_of_the_contract_is_held_by_a_check() -> None:
    stated = re.findall(r"^    ([a-z ]+?)  +[A-Z]", base.__doc__ or "", flags=re.MULTILINE)
    assert {*stated} == {*PROMISES} - {"readers", "errors"}
