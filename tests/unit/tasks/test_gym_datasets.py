"""Tasks that a run defines of reasoning-gym's datasets."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gym_datasets import SMALLER
from swarm.config.task_table import newest
from swarm.errors import ConfigError
from swarm.tasks.answer import ANSWER_LIMIT, key_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym import entries
from swarm.tasks.gym.entries import GymDefinition, Scoring, plain
from swarm.tasks.gym.family import GYM
from swarm.tasks.gym.names import REFUSED, dataset_names, modules
from swarm.tasks.registry import Families
from swarm.tasks.scoring import FULL_ANSWER
from swarm.types import FIRST_FAMILY, Question
from tests.hostile.exploits import EXPLOITS
from tests.patience import PATIENCE, part_of_today
from tests.unit.tasks.dataset.making import request
from tests.unit.tasks.serving import Serving, serving, tagged

Tasks = Mapping[str, Mapping[str, Any]]


def as_asked(tasks: Tasks) -> dict[str, dict[str, Any]]:
    return {name: newest(parameters) for name, parameters in tasks.items()}


def serve(tasks: Tasks) -> AbstractContextManager[Serving]:
    return serving(as_asked(tasks), (FIRST_FAMILY,))


def made_here(tasks: Tasks, *others: QuestionRequest) -> list[Question]:
    """The first questions of tasks, and others, made in this process, without a scorer."""
    defined = as_asked(tasks)
    families = Families(tasks=defined)
    return [families.make(one) for one in (*(request(name, of, 1) for name, of in defined.items()), *others)]


# ── they work ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_parameters_are_the_dataset_s_own_and_level_is_the_librarys_below_them() -> None:
    tasks = {
        "easy": {"gym": "chain_sum", "level": 0},
        "hard": {"gym": "chain_sum", "level": 3},
        "mine": {"gym": "chain_sum", "level": 3, "min_terms": 2, "max_terms": 2},
        "chain_sum": {"weight": 3},
    }
    made = made_here(tasks)
    easy, hard, mine, plainly = (question.metadata["difficulty"] for question in made)
    assert hard["num_terms"][1] > easy["num_terms"][1]
    assert mine == hard | {"num_terms": [2, 2]}
    assert plainly != easy
    assert [question.origin.task for question in made if question.origin] == [*tasks]


def test_the_nine_tasks_are_asked_beside_them_as_ever() -> None:
    ours = QuestionRequest("bf", "tiny-2", 5)
    assert made_here({"chain_sum": {}}, ours)[1:] == made_here({}, ours)


def test_where_a_generator_raises_the_question_is_another_seed_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_once(_dataset: str, *, seed: int, size: int, **_options: object) -> list[dict[str, int]]:
        if seed == 2**31 - 1:
            raise ValueError("no puzzle found")
        return [{"seed": seed}] * size

    monkeypatch.setattr("reasoning_gym.create_dataset", fails_once)
    assert entries.entry(GymDefinition("a", "a", {}, Scoring()), 2**31 - 1)[1] == {"seed": entries.SEED_STEP - 1}


def test_metadata_is_plain_whatever_a_dataset_puts_there() -> None:
    assert plain({(1, 2): {3, 1}, 4: object(), "x": (2**70, None, True, 0.5)}) == {
        "[1, 2]": [1, 3],
        "4": "object",
        "x": [str(2**70), None, True, 0.5],
    }


def test_a_server_imports_the_modules_of_the_datasets_that_are_asked_alone() -> None:
    """Each megabyte is paid again at every fork."""
    code = """
import sys
import swarm.tasks.scoring_server as server
server.Families(tasks={'sums': {'gym': 'chain_sum', 'scoring': 2}, 'spell_backward': {'scoring': 2}}).prepare()
from reasoning_gym.factory import DATASETS
print(sorted(DATASETS), {'numpy', 'sympy', 'matplotlib', 'torch', 'transformers'} & set(sys.modules))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    nine_and_two = [*GYM.profiles()["tiny"], "chain_sum", "spell_backward", "composite"]
    assert out.stdout.strip() == f"{sorted(nine_and_two)} set()"


# ── definitions that cannot be used ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        (
            "chain_sums",
            {},
            r"no dataset 'chain_sums'; did you mean 'chain_sum'\?; `python -P -m swarm.tasks.gym` lists",
        ),
        ("own", {"gym": "os.system"}, "has no dataset 'os.system'"),
        ("own", {"gym": 3}, "gym must be the name of a dataset of reasoning-gym, got 3"),
        ("chain_sum", {"seed": 1}, "seed is given by each question's origin and cannot be set"),
        ("chain_sum", {"level": -1}, "level must be a whole number from 0, got -1"),
        ("chain_sum", {"level": True}, "level must be a whole number from 0, got True"),
        *(("chain_sum", {"scoring": one}, f"scoring must be 2, .* got {one}") for one in (1, 3, True, None)),
        *((dataset, {}, re.escape(f"cannot be asked: {reason}")) for dataset, reason in REFUSED.items()),
    ],
)
def test_what_can_be_told_without_the_library_is_refused_where_the_run_begins(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^\[tasks.{name}\]: .*{said}"):
        GYM.complete(name, parameters, Path())


def test_completing_a_definition_imports_nothing_of_the_library() -> None:
    code = """
import sys
from pathlib import Path
from swarm.tasks.gym.family import GYM
assert GYM.complete("sums", {"gym": "chain_sum", "scoring": 2}, Path()) == {"gym": "chain_sum", "scoring": 2}
print([name for name in ("reasoning_gym", "numpy", "torch", "asyncio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"max_term": 3}, "unknown parameter 'max_term'; did you mean 'max_terms'?"),
        ({"hostility": 3}, "unknown parameter 'hostility'; it has min_terms, max_terms, "),
        ({"max_terms": "four"}, "max_terms: Expected `int`, got `str`, namely 'four'"),
        ({"level": 99}, "level must be a whole number from 0 to 10 for this dataset, got 99"),
        ({"gym": "acre", "level": 1}, "this dataset has no difficulty levels; leave 'level' out"),
    ],
)
def test_parameters_that_the_library_does_not_take_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\[tasks.chain_sum\]: .*{re.escape(said)}"):
        made_here({"chain_sum": parameters})


@pytest.mark.parametrize(
    "parameters",
    [
        {"gym": "chain_sum", "max_terms": 10**9, "min_terms": 10**9},
        {"gym": "rotate_matrix", "min_n": 20_000, "max_n": 20_000},
        {"gym": "spell_backward", "data_file": "/etc/passwd"},
        {"gym": "chain_sum", "min_terms": 9},
    ],
    ids=["hangs", "bloats", "reads", "contradicts"],
)
def test_sizes_that_would_hang_or_fill_a_server_and_files_of_the_machine_end_the_start_of_a_scorer(
    parameters: dict[str, Any],
) -> None:
    says = "(a question needs more than 1 s of processor time|.*MemoryError|.*max_terms must be >= min_terms)"
    with (
        pytest.raises(ConfigError, match=rf"^\[tasks.evil\]: {says}.*{parameters['gym']}"),
        serve({"evil": parameters}),
    ):
        pass


# ── hostile answers ─────────────────────────────────────────────────────────────────────────────────────────────────
def hostile(marker: Path) -> list[str]:
    return sorted({exploit.filled(str(marker), 9) for exploit in EXPLOITS.values() if exploit.where == "answer"})


@pytest.mark.parametrize(
    "evaluated",
    [
        ("spiral_matrix", "string_insertion", "n_queens", "number_sorting"),
        pytest.param(("countdown",), marks=pytest.mark.engine),
    ],
    ids=["eval", "sympy"],
)
def test_an_answer_that_is_code_is_read_and_not_run(evaluated: Sequence[str], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f"exec({f'open({str(marker)!r}, chr(119)).close()'!r})"
    tasks: Tasks = {name: {} for name in evaluated}

    with serve(tasks) as served:
        for name in tasks:
            question = served.question(name, 1)
            found = served.score(question, *tagged(code, str(question.answer)))
            assert found.rewards[0] < 0.1
            assert (found.rewards[1], found.killed) == (1.0, 0)
    assert not marker.exists()


# ── every dataset ───────────────────────────────────────────────────────────────────────────────────────────────────
NO_ANSWER = {"boxnet", "rush_hour"}
"""Neither a single answer, nor an example in the metadata."""
NOT_ALL = {"intermediate_integration"}
"""Some of its keys are integrals left as they are, which earn nothing here."""
PARTS = 20
"""All datasets in as many days."""


def works(datasets: Sequence[str], folder: Path) -> None:
    """Asserts all that a dataset owes as a task.

    Another process makes its questions again, bit for bit; own answers earn 1, scraps nothing, and no hostile answer
    runs or earns.
    """
    tasks: Tasks = {name: SMALLER.get(name, {}) for name in datasets}
    wanted = [request(name, of, seed) for name, of in as_asked(tasks).items() for seed in (1, 2**31 - 1)]
    marker = folder / "marker"

    with serve(tasks) as served:
        made = served.make(*wanted)
        for question in made:
            answers_earn_what_they_should(served, question, hostile(marker))
    with serve(tasks) as served:
        assert served.make(*wanted[::-1])[::-1] == made
    assert not marker.exists()


def answers_earn_what_they_should(served: Serving, question: Question, evil: Sequence[str]) -> None:
    assert question.origin
    dataset = question.origin.task
    own = key_of(question.answer, question.metadata)
    assert (own is None) <= (dataset in NO_ANSWER)
    found = served.score(question, *tagged(own or "", "", "x", "nan", "None", "[]", "0 1"))
    assert found.killed == 0, dataset
    if own is not None and len(own) <= ANSWER_LIMIT and not (dataset in NOT_ALL and "Integral" in own):
        assert found.rewards[0] >= FULL_ANSWER, (dataset, own)
    assert max(found.rewards[1:]) < 0.001, dataset
    if question.origin.seed == 1:
        assert max(served.score(question, *tagged(*evil)).rewards) < FULL_ANSWER, dataset


@pytest.mark.engine
def test_some_datasets_another_each_day_work_as_tasks(tmp_path: Path) -> None:
    works(dataset_names()[part_of_today(PARTS)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_dataset_works_as_a_task(part: int, tmp_path: Path) -> None:
    works(dataset_names()[part::PARTS], tmp_path)


def test_what_cannot_be_asked_is_in_the_library_and_in_no_list_of_what_can() -> None:
    assert modules().keys() - {*dataset_names()} == REFUSED.keys()
