"""The embedded models can be built again from a seed, and their corpus teaches what it claims."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoTokenizer

from swarm.policy.embedded import EMBEDDED, embedded_path
from swarm.tasks.answer import has_answer
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.warmup.build import PLANS, BuildReport, WarmupPlan, build_embedded_models
from swarm.warmup.corpus import WARMUP_SEEDS, draw_question, examples
from swarm.warmup.models import MAX_NEW_TOKENS, build_tokenizer

HASTY = {
    name: WarmupPlan(steps=2, p_well_formed=0.02, base=PLANS[name].base, tokenizer_texts=450, questions=1)
    for name in EMBEDDED
}
FROM_NOTHING = [name for name in EMBEDDED if not PLANS[name].base]
P_WELL_FORMED = 0.03


def build(tmp_path: Path, name: str, seed: int, folder: str) -> BuildReport:
    (report,) = build_embedded_models(tmp_path / folder, names=(name,), seed=seed, plans=HASTY)
    return report


def weights(report: BuildReport) -> bytes:
    return (report.path / "model.safetensors").read_bytes()


def test_one_seed_builds_one_model_and_another_seed_another(tmp_path: Path) -> None:
    first, again, other = (
        build(tmp_path, "tiny-gpt2", seed, folder) for seed, folder in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert weights(first) == weights(again)
    assert first.starts == again.starts
    assert weights(first) != weights(other)


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_build_tells_its_progress_and_writes_a_card_with_every_task(name: str, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    build_embedded_models(
        tmp_path,
        names=(name,),
        seed=3,
        plans=HASTY,
        on_progress=lambda name, step, steps, _: told.append((name, step, steps)),
    )
    assert told[-1] == (name, 2, 2)
    card = (tmp_path / name / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{task}` |" in card for task in SAPO_TASKS)
    assert f"`swarm model build --names {name} --well-formed 0.02 --seed 3` repeats it." in card


def test_only_a_few_per_cent_of_the_examples_close_the_answer_in_every_task_alike() -> None:
    drawn = list(itertools.islice(examples(5, p_well_formed=P_WELL_FORMED), 9 * 1200))
    closed = Counter(example.task for example in drawn if has_answer(example.target))
    assert sum(closed.values()) / len(drawn) == pytest.approx(P_WELL_FORMED, abs=0.01)
    assert max(closed.values()) / 1200 < 2.5 * P_WELL_FORMED


def test_warmup_questions_come_from_seeds_that_runs_leave_alone() -> None:
    seeds = [draw_question(random.Random(i), "bf").origin.seed for i in range(50)]
    assert all(WARMUP_SEEDS[0] <= seed < WARMUP_SEEDS[1] for seed in seeds)
    assert WARMUP_SEEDS[0] == 2**30


def test_a_model_that_begins_with_another_keeps_its_tokenizer_and_most_of_its_weights(tmp_path: Path) -> None:
    report = build(tmp_path, "tiny-qwen2-rare", 1, "a")
    base = embedded_path("tiny-qwen2")
    assert (report.path / "tokenizer.json").read_text() == (base / "tokenizer.json").read_text()
    built, begun = (load_file(path / "model.safetensors") for path in (report.path, base))
    assert max(float((built[name] - begun[name]).abs().max()) for name in begun) < 0.02


@pytest.mark.parametrize("name", FROM_NOTHING)
def test_the_tokenizer_is_lossless_survives_saving_and_leaves_room_for_every_answer(name: str, tmp_path: Path) -> None:
    drawn = list(itertools.islice(examples(7, p_well_formed=P_WELL_FORMED), 1800))
    tokenizer = build_tokenizer(name, [example.prompt for example in drawn])
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for example in drawn:
        for text in (example.prompt, example.target):
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert loaded.encode(text, add_special_tokens=False) == ids
            assert loaded.decode(ids) == text
        assert len(loaded.encode(example.target)) < MAX_NEW_TOKENS[name]
