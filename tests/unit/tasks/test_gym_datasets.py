"""Tasks that a run defines of reasoning-gym's datasets: through real scorers, as a node asks them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from benchmarks.gym_datasets import EXAMPLES, SMALLER, examine
from swarm.errors import ConfigError
from swarm.tasks.answer import key_of
from swarm.tasks.bounded import Limits
from swarm.tasks.definitions import profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym import entries
from swarm.tasks.gym.entries import GymDefinition
from swarm.tasks.gym.family import GYM
from swarm.tasks.gym.names import REFUSED, dataset_names, modules
from swarm.tasks.gym.plain import plain
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import Question
from tests.hostile.exploits import EXPLOITS
from tests.patience import PATIENCE

T = TypeVar("T")
Tasks = Mapping[str, Mapping[str, Any]]
ROOM = Limits(wall_s=60.0)
HERE = Path()
KINDS: dict[str, dict[str, Any]] = {
    "spell_backward": {},  # reads a file at each question
    "word_ladder": {},
    "bitwise_arithmetic": {},  # evaluates its questions
    "gsm_symbolic": {},
    "spiral_matrix": {},  # evaluates answers
    "countdown": {},
    "simple_equations": {},  # imports as it goes
    "knights_knaves": {},  # numpy's texts in the metadata
    "list_functions": {},  # draws from the state of the process
    "small_sums": {"gym": "chain_sum", "min_terms": 2, "max_terms": 2, "max_digits": 1},
}
"""One dataset for each difficulty that they make."""


def run(tasks: Tasks, body: Callable[[Scorer], Awaitable[T]]) -> T:
    """The body's result with a scorer that serves these tasks."""

    async def main() -> T:
        with anyio.fail_after(PATIENCE):
            async with Scorer(1, tasks=tasks, limits=ROOM) as scorer:
                return await body(scorer)

    return anyio.run(main)


def request(tasks: Tasks, name: str, seed: int) -> QuestionRequest:
    return QuestionRequest(name, profile_of(name, tasks[name]), seed)


def questions(tasks: Tasks, *wanted: QuestionRequest) -> list[Question]:
    return run(tasks, lambda scorer: scorer.make(wanted))


async def score(scorer: Scorer, question: Question, *answers: str) -> GroupScore:
    assert question.origin
    return await scorer.score(question.origin, question.prompt, [f"<answer>{answer}</answer>" for answer in answers])


def refusal(tasks: Tasks) -> str:
    with pytest.raises(ConfigError) as refused:
        run(tasks, lambda scorer: scorer.make([]))
    return str(refused.value)


# ── they work ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.engine
def test_datasets_of_all_kinds_are_made_again_bit_for_bit_and_score_their_own_answers() -> None:
    wanted = [request(KINDS, name, seed) for name in KINDS for seed in (23_762, 2**31 - 1)]

    async def body(scorer: Scorer) -> tuple[list[Question], list[GroupScore]]:
        made = await scorer.make(wanted)
        return made, [await score(scorer, question, str(question.answer), "no idea") for question in made]

    made, scores = run(KINDS, body)
    assert questions(KINDS, *wanted[::-1])[::-1] == made
    assert [(group.killed, group.errors) for group in scores] == [(0, 0)] * len(made)
    assert [group.rewards[0] for group in scores] == [1.0] * len(made)
    assert max(group.rewards[1] for group in scores) < FULL_ANSWER


def test_parameters_are_the_dataset_s_own_and_level_is_the_librarys_below_them() -> None:
    tasks = {
        "easy": {"gym": "chain_sum", "level": 0},
        "hard": {"gym": "chain_sum", "level": 3},
        "mine": {"gym": "chain_sum", "level": 3, "min_terms": 2, "max_terms": 2},
        "chain_sum": {"weight": 3},
    }
    made = questions(tasks, *(request(tasks, name, 1) for name in tasks))
    easy, hard, mine, plainly = (question.metadata["difficulty"] for question in made)
    assert hard["num_terms"][1] > easy["num_terms"][1]
    assert mine == hard | {"num_terms": [2, 2]}
    assert plainly != easy
    assert [question.origin.task for question in made if question.origin] == [*tasks]


def test_the_nine_tasks_are_asked_beside_them_as_ever() -> None:
    ours = QuestionRequest("bf", "tiny-2", 5)
    tasks = {"chain_sum": {}}
    assert questions(tasks, ours, request(tasks, "chain_sum", 5))[:1] == questions({}, ours)


@pytest.mark.engine
def test_more_questions_than_one_child_has_time_for_are_made_by_several() -> None:
    """Each takes some 70 ms of the child's second."""
    tasks = {"arc_agi": {}}
    assert len(questions(tasks, *(request(tasks, "arc_agi", seed) for seed in range(20)))) == 20


def test_where_a_generator_raises_the_question_is_another_seed_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_once(_definition: GymDefinition, seed: int, _index: int) -> entries.Entry:
        if seed == 2**31 - 1:
            raise ValueError("no puzzle found")
        return None, {"seed": seed}

    monkeypatch.setattr(entries, "_entry", fails_once)
    assert entries.entry(GymDefinition("a", "a", {}), 2**31 - 1)[1] == {"seed": entries.SEED_STEP - 1}


def test_metadata_is_plain_whatever_a_dataset_puts_there() -> None:
    assert plain({(1, 2): {3, 1}, 4: object(), "x": (2**70, None, True, 0.5)}) == {
        "[1, 2]": [1, 3],
        "4": "object",
        "x": [str(2**70), None, True, 0.5],
    }


def test_a_server_imports_the_modules_of_the_datasets_that_are_asked_alone() -> None:
    code = """
import sys
import swarm.tasks.scoring_server as server
server._prepare(server.Families(tasks={'sums': {'gym': 'chain_sum'}, 'spell_backward': {}}))
from reasoning_gym.factory import DATASETS
print(sorted(DATASETS), {'numpy', 'sympy', 'matplotlib', 'torch'} & set(sys.modules))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    nine_and_two = [*GYM.profiles()["tiny"], "chain_sum", "spell_backward", "composite"]
    assert out.stdout.strip() == f"{sorted(nine_and_two)} set()"


# ── definitions that cannot be used ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("chain_sums", {}, "no dataset 'chain_sums'; did you mean 'chain_sum'?; `python -P -m swarm.tasks.gym` lists"),
        ("own", {"gym": "os.system"}, "has no dataset 'os.system'"),
        ("own", {"gym": 3}, "gym must be the name of a dataset of reasoning-gym, got 3"),
        ("chain_sum", {"seed": 1}, "seed is given by each question's origin and cannot be set"),
        ("chain_sum", {"level": -1}, "level must be a whole number from 0, got -1"),
        ("chain_sum", {"level": True}, "level must be a whole number from 0, got True"),
        ("chain_sum", {"scoring": 3}, "scoring must be 1 to 2, got 3"),
        ("chain_sum", {"scoring": True}, "scoring must be 1 to 2, got True"),
        ("codeio", {}, "cannot be asked: it runs Python programs"),
    ],
)
def test_what_can_be_told_without_the_library_is_refused_where_the_run_begins(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        GYM.complete(name, parameters, HERE)
    assert str(refused.value).startswith(f"[tasks.{name}]: ")
    assert said in str(refused.value)


def test_completing_a_definition_imports_nothing_of_the_library() -> None:
    code = """
import sys
from pathlib import Path
from swarm.tasks.gym.family import GYM
assert GYM.complete("sums", {"gym": "chain_sum", "level": 1}, Path()) == {"gym": "chain_sum", "level": 1}
print([name for name in ("reasoning_gym", "numpy", "torch", "asyncio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"max_term": 3}, "unknown parameter 'max_term'; did you mean 'max_terms'?"),
        ({"hostility": 3}, "unknown parameter 'hostility'; it has min_terms, max_terms, "),
        ({"max_terms": "four"}, "max_terms: expected int, got str, namely 'four'"),
        ({"min_terms": 9}, "reasoning-gym says: AssertionError: max_terms must be >= min_terms"),
        ({"level": 99}, "level must be a whole number from 0 to 10 for this dataset, got 99"),
        ({"gym": "acre", "level": 1}, "this dataset has no difficulty levels; leave 'level' out"),
    ],
)
def test_parameters_that_the_library_does_not_take_end_the_start_of_a_scorer(
    parameters: dict[str, Any], said: str
) -> None:
    name = "chain_sum"
    assert said in (message := refusal({name: parameters}))
    assert message.startswith(f"[tasks.{name}]: ")


@pytest.mark.parametrize(
    "parameters",
    [
        {"gym": "chain_sum", "max_terms": 10**9, "min_terms": 10**9},
        {"gym": "rotate_matrix", "min_n": 20_000, "max_n": 20_000},
        {"gym": "spell_backward", "data_file": "/etc/passwd"},
    ],
    ids=["hangs", "bloats", "reads"],
)
def test_sizes_that_would_hang_or_fill_a_server_and_files_of_the_machine_are_refused(
    parameters: dict[str, Any],
) -> None:
    message = refusal({"evil": parameters})
    assert "a question needs more than 1 s of processor time" in message or "MemoryError" in message
    assert parameters["gym"] in message


# ── hostile answers ─────────────────────────────────────────────────────────────────────────────────────────────────
def hostile(marker: Path) -> list[str]:
    return sorted({exploit.filled(str(marker), 9) for exploit in EXPLOITS.values() if exploit.where == "answer"})


@pytest.mark.parametrize("name", ["spiral_matrix", "string_insertion", "n_queens", "number_sorting", "countdown"])
def test_an_answer_that_is_code_is_read_and_not_run(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f"exec({f'open({str(marker)!r}, chr(119)).close()'!r})"
    tasks: Tasks = {name: {}}

    async def body(scorer: Scorer) -> GroupScore:
        (question,) = await scorer.make([request(tasks, name, 1)])
        return await score(scorer, question, code, str(question.answer))

    found = run(tasks, body)
    assert found.rewards[0] < 0.1
    assert (found.rewards[1], found.killed) == (1.0, 0)
    assert not marker.exists()


@pytest.mark.engine
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("game_of_life_halting", ["True", "False"]),
        ("complex_arithmetic", ["nan"]),
        ("puzzle24", ["6*4*1*1", "24*1*1*1"]),
    ],
)
def test_what_the_library_pays_in_full_for_any_answer_earns_nothing(name: str, wrong: list[str]) -> None:
    tasks: Tasks = {name: {}}

    async def body(scorer: Scorer) -> tuple[Question, GroupScore]:
        (question,) = await scorer.make([request(tasks, name, 1)])
        return question, await score(scorer, question, str(question.answer), *wrong)

    question, found = run(tasks, body)
    assert found.rewards == (1.0, *(float(text == question.answer) for text in wrong))


# ── every dataset ───────────────────────────────────────────────────────────────────────────────────────────────────
NO_ANSWER = {"boxnet", "rush_hour"}
"""Neither a single answer, nor an example in the metadata."""
NOT_ALL = {"intermediate_integration"}
"""Some of its keys are integrals left as they are, which earn nothing here."""


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(name, marks=pytest.mark.engine if number % 4 == 0 else pytest.mark.slow)
        for number, name in enumerate(dataset_names())
    ],
)
def test_every_dataset_works_as_a_task(dataset: str) -> None:
    found = anyio.run(examine, dataset, 8)
    assert found.refused == ""
    assert (found.questions, found.same) == (8, 8)
    assert found.parameters == SMALLER.get(dataset, {})
    if dataset in NO_ANSWER:
        assert found.own is None
    elif dataset in NOT_ALL:
        assert (found.own or 0) >= 0.5
    else:
        assert found.own == 1.0 or dataset in EXAMPLES
        assert found.too_long < found.questions


@pytest.mark.engine
@pytest.mark.parametrize("dataset", dataset_names())
def test_under_scoring_2_every_own_answer_earns_1_and_what_is_none_nothing(dataset: str) -> None:
    tasks: Tasks = {dataset: {**SMALLER.get(dataset, {}), "scoring": 2}}

    async def body(scorer: Scorer) -> list[tuple[str | None, GroupScore]]:
        made = await scorer.make([request(tasks, dataset, seed) for seed in (100, 101, 102, 103)])
        owns = [key_of(question.answer, question.metadata) for question in made]
        return [
            (own, await score(scorer, question, own or "", "", "x", "nan", "None", "[]", "0 1"))
            for question, own in zip(made, owns, strict=True)
        ]

    for own, found in run(tasks, body):
        assert found.rewards[0] == (0.0 if own is None else 1.0) or (dataset in NOT_ALL and "Integral" in str(own))
        assert {*found.rewards[1:]} <= {0.0}
        assert found.killed == 0


@pytest.mark.engine
@pytest.mark.parametrize("dataset", REFUSED)
def test_what_cannot_be_asked_is_refused_by_name_with_the_reason(dataset: str) -> None:
    assert dataset in modules()
    assert dataset not in dataset_names()
    assert refusal({"own": {"gym": dataset}}).endswith(REFUSED[dataset])


@pytest.mark.engine
@pytest.mark.parametrize("dataset", dataset_names())
def test_no_hostile_answer_to_any_dataset_runs_or_earns(dataset: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    tasks: Tasks = {dataset: SMALLER.get(dataset, {})}

    async def body(scorer: Scorer) -> tuple[GroupScore, GroupScore | None]:
        (question,) = await scorer.make([request(tasks, dataset, 1)])
        evil = await score(scorer, question, *hostile(marker))
        own = key_of(question.answer, question.metadata)
        return evil, None if own is None else await score(scorer, question, own)

    evil, right = run(tasks, body)
    assert not marker.exists()
    assert max(evil.rewards) < FULL_ANSWER
    assert right is None or right.killed == 0
