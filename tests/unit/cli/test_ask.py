"""`swarm ask`: what is shown of a question and its answers."""

import pytest

from swarm.cli.ask import render
from swarm.judge.asked import AskedQuestion, Prompted


@pytest.mark.parametrize("off", [True, False])
def test_it_says_above_the_prompt_where_thinking_was_switched_off_and_how_to_leave_it_on(off: bool):
    shown = render(AskedQuestion("qwen3", "bf", "paper", 1, Prompted("<|im_start|>system", 5, off), "7", ()))
    assert ('SWARM_CHAT_TEMPLATE_ARGS={"enable_thinking": true}' in shown.partition("── prompt")[0]) is off
