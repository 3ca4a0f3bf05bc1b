"""The models of the package start as their plans say."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import swarm
from swarm.planner.footprint import TABLE
from swarm.planner.shape import model_shape
from swarm.plugins.lab.warmup.build import PLANS, measure
from swarm.policy.embedded import EMBEDDED, embedded_path
from tests.unit.policy.embedded_models import (
    OF_THE_CORE,
    ignores_system_messages,
    is_a_complete_small_folder,
    names_its_end_of_text_its_padding_and_a_short_longest_answer,
)


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


@pytest.mark.parametrize("name", [name for name in EMBEDDED if name not in OF_THE_CORE])
def test_a_model_of_the_lab_is_found_by_its_name_and_is_what_one_of_the_core_is(name: str) -> None:
    is_a_complete_small_folder(name)
    names_its_end_of_text_its_padding_and_a_short_longest_answer(name)
    ignores_system_messages(name)
    assert f"{model_shape(name).digest} fp32 sdpa" in footprints(), "no plan has to trace it"


def footprints() -> dict[str, object]:
    table: dict[str, object] = msgspec.json.decode(Path(swarm.__file__).parent.joinpath(TABLE).read_bytes())
    return table
