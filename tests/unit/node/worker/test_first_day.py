"""The date in a node's prompts is that of its first start, over restarts and lost files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from msgspec import UNSET

from swarm.node.base.context import NodeContext
from swarm.node.base.experiment import record_start
from swarm.node.process.system import SYSTEM_CLOCK
from swarm.node.worker.checkpoints import first_day
from swarm.policy.policy import load_generator, load_policy
from swarm.policy.settings import GrpoConfig
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, newest_checkpoint
from tests.unit.node.nodes import make_context, make_worker, run_all
from tests.unit.policy.chat_templates import GPT_OSS
from tests.unit.policy.factories import make_module, make_tokenizer

pytestmark = pytest.mark.anyio


def on_day(layout: Layout, day: str) -> NodeContext:
    wall = datetime.fromisoformat(f"{day}T22:00:00+00:00").timestamp()
    return make_context(layout, times=replace(SYSTEM_CLOCK, wall=lambda: wall))


async def test_it_is_today_at_the_first_start_and_that_day_ever_after(layout: Layout) -> None:
    first = on_day(layout, "2026-01-31")
    assert first_day(first) == "2026-01-31"
    await record_start(first)
    assert first_day(on_day(layout, "2026-02-01")) == "2026-01-31"


async def test_a_workers_checkpoint_has_the_date_of_its_prompts_and_none_where_they_have_none(layout: Layout) -> None:
    dated, plain = FakePolicy(), FakePolicy()
    dated.prompt_date = "2026-01-31"  # type: ignore[attr-defined]
    settings = {"max_rounds": 1, "checkpoint_interval": 1, "clock": "own", "external_groups": 0}
    found = []
    for name, policy in (("alice", dated), ("bob", plain)):
        await run_all(make_worker(layout, name, policy, **settings))
        found.append(newest_checkpoint(layout, name))
    (first, _), (second, _) = (one for one in found if one)
    assert (first.prompt_date, second.prompt_date) == ("2026-01-31", UNSET)


def test_generator_and_trainer_are_told_the_first_day_where_the_template_writes_one(tmp_path: Path) -> None:
    make_module().save_pretrained(tmp_path)
    make_tokenizer(chat_template=GPT_OSS).save_pretrained(tmp_path)
    load = partial(load_policy, str(tmp_path), GrpoConfig(max_new_tokens=3), threads=1, device="cpu")
    policy = load(first_day=lambda: "2026-01-31")
    assert policy.prompt_date == "2026-01-31"
    assert "Current date: 2026-01-31" in policy.generator.shown_prompt("1?")[0]  # type: ignore[attr-defined]
    assert load().prompt_date is None


def test_nobody_looks_for_the_day_where_no_template_writes_one() -> None:
    def never() -> str:
        raise AssertionError

    assert load_generator("tiny-2-qwen2", GrpoConfig(), threads=1, device="cpu", first_day=never).prompt_date is None
