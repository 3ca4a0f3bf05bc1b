"""The learning rate where nobody chooses one."""

import pytest

from swarm.config import load_settings
from swarm.policy.embedded import EMBEDDED, FULL, LORA, OTHERS, TABLE, suited_learning_rate
from swarm.policy.settings import grpo_config


def test_every_embedded_model_has_a_rate_of_its_own_and_a_source():
    assert set(TABLE) == {*EMBEDDED, OTHERS}
    assert all(suited.source for rows in TABLE.values() for suited in rows.values())


@pytest.mark.parametrize(("model", "rate"), [("tiny-2-qwen2-rare", 2e-4), ("openai-community/gpt2", 1e-6)])
def test_a_run_without_a_rate_gets_what_suits_its_model(model, rate):
    assert grpo_config(load_settings({"model": (model,)}, {})).learning_rate == rate


def test_a_rate_that_is_given_counts():
    assert grpo_config(load_settings({"model": ("gpt2",), "learning_rate": 3e-5}, {})).learning_rate == 3e-5


def test_adapters_of_a_model_that_nobody_measured_get_ten_times_the_rate_and_say_so():
    full, adapted = suited_learning_rate("gpt2", FULL), suited_learning_rate("gpt2", LORA)
    assert adapted.rate == pytest.approx(1e-5) == pytest.approx(10 * full.rate)
    assert full.source in adapted.source
