"""The embedded models can be built again from a seed, and their corpus teaches what it claims."""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import swarm
from swarm.errors import ConfigError
from swarm.planner.footprint import TABLE
from swarm.planner.shape import model_shape
from swarm.plugins.lab.model_build import build as build_command
from swarm.plugins.lab.warmup.build import PLANS, BuildReport, WarmupPlan, build_embedded_model, measure
from swarm.plugins.lab.warmup.corpus import WARMUP_SEEDS, draw_question, examples
from swarm.plugins.lab.warmup.models import MAX_NEW_TOKENS, Architecture, build_tokenizer
from swarm.policy.embedded import EMBEDDED, embedded_path
from swarm.tasks.answer import has_answer
from swarm.tasks.gym.profiles import SAPO_TASKS
from tests.unit.policy.embedded_models import (
    OF_THE_CORE,
    ignores_system_messages,
    is_a_complete_small_folder,
    names_its_end_of_text_its_padding_and_a_short_longest_answer,
)


def hasty(plan: WarmupPlan) -> WarmupPlan:
    stages = tuple(replace(stage, steps=2) for stage in plan.stages[:-1])
    last = replace(plan.stages[-1], steps=2, p_well_formed=0.02)
    return replace(plan, stages=(*stages, last), tokenizer_texts=450, questions=1)


HASTY = {name: hasty(PLANS[name]) for name in EMBEDDED}
USUAL = ("tiny-2-qwen2",)
"""Built in every test run; the others take seconds too."""
P_WELL_FORMED = 0.03


SEED = 3
pytestmark = pytest.mark.xdist_group("warmup")  # a build takes seconds of a processor


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], BuildReport]:
    """Each model, built once by SEED."""
    return functools.cache(lambda name: build(tmp_path_factory.mktemp("built"), name, SEED))


def build(folder: Path, name: str, seed: int) -> BuildReport:
    return build_embedded_model(folder, name, seed=seed, plan=HASTY[name])


def weights(report: BuildReport) -> bytes:
    return (report.path / "model.safetensors").read_bytes()


@pytest.mark.engine
def test_a_narrow_model_has_fewer_parameters_and_its_card_says_how_to_make_it_again(tmp_path: Path) -> None:
    plan = replace(HASTY["tiny-2-qwen2"], width=16)
    report = build_embedded_model(tmp_path, "tiny-2-qwen2", seed=SEED, plan=plan)
    config = json.loads((report.path / "config.json").read_text())
    assert (config["hidden_size"], config["intermediate_size"]) == (16, 48)
    assert report.parameters < 100_000
    assert "--width 16 --seed 3`" in (report.path / "README.md").read_text()
    assert report.path.name == "tiny-2-qwen2-w16"


@pytest.mark.parametrize("width", [8, 20, 2048])
def test_a_width_that_no_head_can_have_is_refused(width: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--width must be a multiple of 8 from 16 to 1024, got {width}"):
        build_command(tmp_path, width=width)


@pytest.mark.slow
def test_one_seed_builds_one_model_and_another_seed_another(
    tmp_path: Path, built: Callable[[str], BuildReport]
) -> None:
    first = built("tiny-gpt2")
    again, other = (build(tmp_path / str(seed), "tiny-gpt2", seed) for seed in (SEED, SEED + 1))
    assert weights(first) == weights(again)
    assert first.starts == again.starts
    assert weights(first) != weights(other)


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.engine) for name in EMBEDDED]
)
def test_a_build_writes_a_card_with_every_task(name: str, built: Callable[[str], BuildReport]) -> None:
    card = (built(name).path / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{task}` |" in card for task in SAPO_TASKS)
    assert f"`swarm model build --names {name} --well-formed 0.02 --seed {SEED}` repeats it." in card


def test_only_a_few_per_cent_of_the_examples_close_the_answer_in_every_task_alike() -> None:
    drawn = list(itertools.islice(examples(5, profile="tiny-2", p_well_formed=P_WELL_FORMED), 9 * 200))
    closed = Counter(example.task for example in drawn if has_answer(example.target))
    assert sum(closed.values()) / len(drawn) == pytest.approx(P_WELL_FORMED, abs=0.015)
    assert max(closed.values()) / 200 < 2.5 * P_WELL_FORMED


def test_warmup_questions_come_from_seeds_that_runs_leave_alone() -> None:
    seeds = [draw_question(random.Random(i), "bf", "tiny-2").origin.seed for i in range(50)]
    assert all(WARMUP_SEEDS[0] <= seed < WARMUP_SEEDS[1] for seed in seeds)
    assert WARMUP_SEEDS[0] == 2**30


def test_models_of_one_first_stage_have_one_tokenizer_and_nearly_the_same_weights() -> None:
    first, *others = (embedded_path(f"tiny-2-qwen2{kind}") for kind in ("", "-rare", "-content"))
    for other in others:
        assert (first / "tokenizer.json").read_bytes() == (other / "tokenizer.json").read_bytes()
        ours, theirs = (load_file(path / "model.safetensors") for path in (first, other))
        assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 0.1


@pytest.mark.parametrize("architecture", MAX_NEW_TOKENS)
def test_the_tokenizer_is_lossless_survives_saving_and_leaves_room_for_every_answer(
    architecture: Architecture, tmp_path: Path
) -> None:
    drawn = list(itertools.islice(examples(7, profile="tiny-2", p_well_formed=P_WELL_FORMED), 600))
    tokenizer = build_tokenizer(architecture, [example.prompt for example in drawn])
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for example in drawn:
        for text in (example.prompt, example.target):
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert loaded.encode(text, add_special_tokens=False) == ids
            assert loaded.decode(ids) == text
        assert len(loaded.encode(example.target)) < MAX_NEW_TOKENS[architecture]


# ── the models of the package ───────────────────────────────────────────────────────────────────────────────────────
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
