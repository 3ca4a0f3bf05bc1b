"""The clock goes on whatever a stranger writes once: every attack of tests.adversaries.coordination."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversaries import coordination
from tests.layout import Layout
from tests.unit.node.coordinator.test_coordinator import STAYS, round_now, submit_rounds
from tests.unit.node.factories import make_ghost
from tests.unit.node.nodes import make_coordinator, running, until

pytestmark = pytest.mark.anyio

COUNTS_FOR_SOMETHING = {"forged-rounds"}
"""Who publishes what every worker publishes has a say."""


@pytest.mark.parametrize("kind", sorted(coordination.ATTACKS.keys() - COUNTS_FOR_SOMETHING))
async def test_the_clock_goes_on_after_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(coordination, "FLOOD", 100)
    layout = Layout(tmp_path, "exp")
    make_ghost(layout, "bob")
    async with running(make_coordinator(layout, max_rounds=90, round_interval=0.5, **STAYS)) as codes:
        await submit_rounds(layout, range(2))
        before = {file: file.read_bytes() for file in layout.root.rglob("*.json")}
        coordination.ATTACKS[kind](tmp_path, "exp")
        assert {file: file.read_bytes() for file in layout.root.rglob("*.json")} != before
        await until(lambda: round_now(layout) in (2, 3))
        await submit_rounds(layout, range(round_now(layout), 7))
        assert not codes
