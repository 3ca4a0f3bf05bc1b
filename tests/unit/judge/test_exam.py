"""The exam: one frozen paper, and models before and after their training."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.cli import judge as exam_command
from swarm.cli.flags import CommonFlags
from swarm.cli.judge import render
from swarm.config import Settings
from swarm.errors import CheckpointError, ModelError
from swarm.judge import exam
from swarm.judge.exam import Candidate, Paper, candidates, examine, make_paper
from swarm.policy.embedded import embedded_path
from swarm.records.files import read_exam
from swarm.store.run import Run
from swarm.types import Completion
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import NodeState
from tests.layout import Layout
from tests.unit.node.factories import FakeTaskSource, fake_rewards, put
from tests.unit.views.factories import run_of

pytestmark = pytest.mark.anyio


def save(layout: Layout, node: str, rounds_done: int, model: str = "tiny-qwen2") -> None:
    state = NodeState(node_id=node, rounds_done=rounds_done, seed=1, cumulative_reward=0.0, model=model)
    put(layout.checkpoint(rounds_done, node) / "node.json", encode(state))


def test_every_node_is_examined_at_its_newest_checkpoint_and_as_it_started(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for node, rounds_done in (("anna", 9), ("anna", 10), ("ben", 9)):
        save(layout, node, rounds_done)
    found = [(one.node_id, one.rounds_done, one.source) for one in candidates(run_of(layout), ["tiny-qwen2"])]
    assert found == [
        ("anna", 0, "tiny-qwen2"),
        ("anna", 10, str(layout.checkpoint(10, "anna") / "model")),
        ("ben", 0, "tiny-qwen2"),
        ("ben", 9, str(layout.checkpoint(9, "ben") / "model")),
    ]


def test_earlier_checkpoints_are_examined_if_asked_for(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for rounds_done in (5, 10, 15, 20, 25, 27):
        save(layout, "anna", rounds_done)
    found = candidates(run_of(layout), ["tiny-qwen2"], every=10)
    assert [one.rounds_done for one in found] == [0, 10, 20, 27]
    assert [one.source for one in found[1:3]] == [str(layout.checkpoint(done, "anna") / "model") for done in (10, 20)]


@given(samples=st.integers(1, 8), right=st.integers(0, 8), k=st.integers(1, 8))
def test_pass_at_k_is_the_share_of_draws_of_k_completions_with_a_right_one(samples: int, right: int, k: int) -> None:
    right, k = min(right, samples), min(k, samples)
    draws = [*combinations([True] * right + [False] * (samples - right), k)]
    assert exam.pass_at(k, right, samples) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_a_model_that_is_not_embedded_is_found_by_the_last_part_of_its_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    save(layout, "anna", 3, model="Qwen2.5-0.5B")
    assert candidates(run_of(layout), ["Qwen/Qwen2.5-0.5B"])[0].source == "Qwen/Qwen2.5-0.5B"
    with pytest.raises(ModelError, match="MODEL_NAME"):
        candidates(run_of(layout), ["tiny-qwen2"])


def test_what_strangers_leave_among_the_checkpoints_costs_no_node_its_exam(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    save(layout, "anna", 3)
    layout.checkpoint(10**9, "anna").mkdir(parents=True)
    layout.checkpoint(3, "mallory").mkdir(parents=True)
    save(layout, "nemo", 3, model="\x1b[2Jnobody-knows-it")
    put(layout.checkpoint(7, "anna") / "node.json", (layout.checkpoint(3, "anna") / "node.json").read_bytes())
    left_out: list[str] = []
    found = candidates(run_of(layout), ["tiny-qwen2"], left_out.append)
    assert [(one.node_id, one.rounds_done) for one in found] == [("anna", 0), ("anna", 3)]
    assert [said.split(":")[0] for said in left_out] == ["mallory", "nemo"]
    assert "\x1b" not in "".join(left_out)


@pytest.fixture
def sat(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that sit the exam, each with texts of its own; one that is hostile cannot be loaded."""
    models: list[str] = []

    def answer(model: str, trained: Path | None, paper: Paper, settings: Settings, samples: int, _: object) -> object:
        if trained == Path("hostile"):
            raise ModelError("hostile is a legacy pickle")
        models.append(model)
        return [{task: [texts(model, task, n, samples) for n in range(len(paper[task]))] for task in paper}]

    monkeypatch.setattr(exam, "answer", answer)
    return models


async def test_a_checkpoint_that_cannot_be_loaded_costs_no_other_node_its_exam(sat: list[str]) -> None:
    def opened(candidate: Candidate) -> AbstractContextManager[Path | None]:
        return nullcontext(Path(candidate.where) if candidate.where else None)

    paper = await make_paper(FakeTaskSource(), dict.fromkeys(["bf"], "tiny"), 2)
    who = [Candidate("anna", "m", 0, "m"), Candidate("anna", "m", 3, "m", "saved", "saved")]
    strangers = [Candidate("mallory", "m", 0, "m"), Candidate("mallory", "m", 9, "m", "hostile", "hostile")]
    left_out: list[str] = []
    sitting = partial(examine, paper=paper, scorer=FakeTaskSource(), settings=Settings(), opened=opened)
    rows = await sitting([*who, *strangers], leave_out=left_out.append)
    assert [(row.node_id, row.rounds_done) for row in rows] == [("anna", 0), ("anna", 3)]
    assert left_out == ["hostile: hostile is a legacy pickle"]
    with pytest.raises(ModelError, match="legacy pickle"):
        await sitting(strangers)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The experiments that `swarm judge exam` examines, each with the nodes of its candidates; no model is loaded."""
    runs: list[list[str]] = []

    async def sit(run: Run, settings: Settings, who: Sequence[Candidate], *_: int) -> list[exam.ExamRow]:
        runs.append([run.experiment, *(one.node_id for one in who)])
        return [make_row(0, "bf", 0.0), make_row(3, "bf", 0.5)]

    monkeypatch.setattr(exam_command, "_sit", sit)
    return runs


@pytest.mark.parametrize("record", [b"{", b'{"settings":{"model":5}}', b"[" * 5000], ids=["torn", "model", "deep"])
@pytest.mark.usefixtures("examined")
def test_a_study_record_of_a_stranger_costs_nobody_an_exam(tmp_path: Path, record: bytes) -> None:
    save(Layout(tmp_path, "exp"), "anna", 3)
    put(Layout(tmp_path, "exp").root / keys.STUDY_RUN, record)
    exam_command.exam(experiment_flags=CommonFlags(path=str(tmp_path), experiment="exp"))
    assert read_exam(run_of(Layout(tmp_path, "exp")))


def test_rows_of_an_exam_that_are_no_shares_are_left_out(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    rows = [make_row(3, "bf", 0.5), make_row(3, "bf", 1e308), make_row(3, "bf", -1.0)]
    put(layout.exam_file, msgspec.json.encode(rows))
    assert [row.pass_at_1 for row in read_exam(run_of(layout))] == [0.5]


def test_a_run_of_a_study_is_never_compared_with_another_start_of_the_same_last_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "ladder-a-s1")
    save(layout, "anna", 3, model="tiny-qwen2-rare")
    started = {"model": ["ladder/0.01/tiny-qwen2-rare"]}
    put(layout.root / keys.STUDY_RUN, msgspec.json.encode({"study": "ladder", "settings": started}))
    flags = CommonFlags(path=str(tmp_path), experiment="ladder-a-s1")
    with pytest.raises(ModelError, match=r"MODEL_NAME=ladder/0\.01/tiny-qwen2-rare"):
        exam_command.exam(experiment_flags=flags)


def test_lesson_a_run_whose_checkpoints_were_cleaned_away_cost_all_others_their_exam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examined: list[list[str]]
) -> None:
    for name in ("first", "third"):
        save(Layout(tmp_path, name), "anna", 3)
    runs = [Settings(path=str(tmp_path), experiment=name) for name in ("first", "second", "third")]
    monkeypatch.setattr(exam_command, "_runs", lambda settings, study: runs)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    with pytest.raises(CheckpointError, match="not examined: second"):
        exam_command.exam(study="any")
    assert examined == [["first", "anna", "anna"], ["third", "anna", "anna"]]


async def test_the_paper_is_frozen_held_out_and_grows_at_its_end() -> None:
    source = FakeTaskSource()
    paper = await make_paper(source, dict.fromkeys(("bf", "arc_1d"), "tiny"), 4)
    short = await make_paper(source, dict.fromkeys(("bf",), "tiny"), 2)
    assert short["bf"] == paper["bf"][:2]
    seeds = [question.origin.seed for questions in paper.values() for question in questions]
    assert len(set(seeds)) == 8
    assert all(HELD_OUT_SEEDS[0] <= seed < HELD_OUT_SEEDS[1] for seed in seeds)
    assert seeds[0] == 2147007729, "changing the paper makes all earlier exams incomparable"


async def test_a_row_holds_the_means_over_questions_and_samples_and_a_shared_model_sits_once(sat: list[str]) -> None:
    source = FakeTaskSource()
    paper = await make_paper(source, dict.fromkeys(("bf", "arc_1d"), "tiny"), 3)
    who = [Candidate("anna", "m", 0, "start"), Candidate("anna", "m", 5, "a"), Candidate("ben", "m", 0, "start")]
    rows = await examine(who, paper, source, Settings(), samples=2)
    assert sat == ["start", "a"]
    assert [(row.node_id, row.rounds_done, row.task) for row in rows] == [
        (one.node_id, one.rounds_done, task) for one in who for task in ("bf", "arc_1d")
    ]
    said = [completion.text for n in range(3) for completion in texts("a", "bf", n, 2)]
    assert rows[2].mean_reward == rows[2].pass_at_1 == sum(fake_rewards(said)) / 6
    assert (rows[2].n, rows[2].samples, rows[2].answered) == (3, 2, 1.0)
    passed = [any(reward >= 1 for reward in fake_rewards(said[2 * n : 2 * n + 2])) for n in range(3)]
    assert (rows[2].pass_at_2, rows[2].pass_at_4) == (sum(passed) / 3, msgspec.UNSET)
    assert 0 < rows[2].mean_reward < 1, "else the mean could be anything"


def texts(model: str, task: str, number: int, samples: int) -> tuple[Completion, ...]:
    return tuple(Completion(f"{model} {task} {number} {sample}", True) for sample in range(samples))


def test_the_table_tells_what_is_answered_from_what_is_right_when_answered() -> None:
    rows = [make_row(0, "bf", 0.0, 0.0), make_row(0, "arc_1d", 0.1, 0.2), make_row(7, "bf", 0.3, 0.6)]
    lines = render([*rows, make_row(7, "arc_1d", 0.4, 0.8)]).splitlines()
    assert lines[0].split("  ")[-2:] == ["pass@1 given answered: before", "after"]
    assert [line.split()[-4:] for line in lines[1:]] == [
        ["0.000", "0.600", "-", "0.500"],
        ["0.200", "0.800", "0.500", "0.500"],
        ["0.100", "0.700", "0.500", "0.500"],
    ]


def make_row(rounds_done: int, task: str, pass_at_1: float, answered: float = 1.0) -> exam.ExamRow:
    return exam.ExamRow(
        node_id="anna",
        model="m",
        rounds_done=rounds_done,
        task=task,
        n=4,
        pass_at_1=pass_at_1,
        mean_reward=pass_at_1,
        answered=answered,
    )


SHORT = Settings(max_new_tokens=4)


def made_paper(questions: int = 1) -> Paper:
    from tests.unit.tasks.gym import make_question

    return {"bf": [make_question("bf", "tiny", HELD_OUT_SEEDS[0] + number) for number in range(questions)]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The prompts of each call of a model."""
    from swarm.policy.generator import ModelGenerator

    calls: list[list[str]] = []
    generate = ModelGenerator.generate

    def noted(self: ModelGenerator, prompts: Sequence[str], *, group_size: int, seed: int) -> object:
        calls.append([*prompts])
        return generate(self, prompts, group_size=group_size, seed=seed)

    monkeypatch.setattr(ModelGenerator, "generate", noted)
    return calls


def test_an_embedded_model_answers_a_whole_task_in_one_go(asked: list[list[str]]) -> None:
    first, again = (exam.answer("tiny-qwen2", None, made_paper(3), SHORT, 2) for _ in range(2))
    assert [len(prompts) for prompts in asked] == [3, 3]
    assert [len(group) for group in first[0]["bf"]] == [2, 2, 2]
    assert first == again, "the same exam gives the same result"


def test_of_a_strangers_checkpoint_nothing_but_weights_is_opened(tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"):
        os.mkfifo(tmp_path / name)  # who opens it waits for ever
    shutil.copy(embedded_path("tiny-qwen2") / "model.safetensors", tmp_path)
    answers = exam.answer("tiny-qwen2", tmp_path, made_paper(), SHORT, 2)
    assert answers == exam.answer("tiny-qwen2", None, made_paper(), SHORT, 2)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        exam.answer("tiny-qwen2", tmp_path, made_paper(), SHORT, 2)


def test_a_model_of_a_run_with_stages_is_asked_again_with_its_own_answers(asked: list[list[str]]) -> None:
    revise = {"templates": ["I said:\n{answers}\n{question}"]}
    stages = exam.answer("tiny-qwen2", None, made_paper(), replace(SHORT, max_stages=2, revise=revise), 2)
    assert len(stages) == 2
    assert stages[0] == exam.answer("tiny-qwen2", None, made_paper(), SHORT, 2)[0], "the first is that of before"
    assert asked[1][0].startswith("I said:\n1. ")
    assert asked[1][0].endswith(asked[0][0])
