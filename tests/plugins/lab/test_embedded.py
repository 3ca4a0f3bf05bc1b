"""The models of the package start as their plans say."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.plugins.lab.warmup.build import PLANS, measure
from swarm.policy.embedded import EMBEDDED, embedded_path


@pytest.mark.parametrize(
    "name", [name if name == EMBEDDED[0] else pytest.param(name, marks=pytest.mark.slow) for name in EMBEDDED]
)
def test_a_model_starts_in_format_and_content_as_its_plan_says(name: str) -> None:
    torch.set_num_threads(1)  # the tensors are so small that a second thread only waits
    model = AutoModelForCausalLM.from_pretrained(embedded_path(name)).eval()
    plan, tokenizer = PLANS[name], AutoTokenizer.from_pretrained(embedded_path(name))
    starts = measure(model, tokenizer, seed=99, questions=12, profile=plan.profile).values()
    answered, knowledge = (fmean(start[column] for start in starts) for column in (1, 2))
    last = plan.stages[-1]
    assert last.p_well_formed / 3 - 0.005 < answered < 2 * last.p_well_formed + 0.01
    assert 0.25 < knowledge < 0.6 if last.p_right == 1 else 0.04 < knowledge < 0.2
