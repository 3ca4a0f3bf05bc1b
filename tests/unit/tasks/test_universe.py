"""What a run may ask, from its settings; what a node asks of it; and who is refused for asking anything else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm.config import Settings, load_settings
from swarm.errors import ConfigError
from swarm.node.sharing.admission import Admission, AssignedQuestions
from swarm.tasks.universe import Universe, check_tasks, completed, own_mixture, universe_of
from swarm.types import Completion, Question, RolloutGroup, RoundKey

KEY = RoundKey(3)
OWN = "def draw(rng):\n    return '1?', '1'\ndef score(question, answer):\n    return 1.0\n"
LINES = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "swarm.toml").write_text(
        "[tasks.sums]\ndataset = 'sums.jsonl'\nscorer = 'number'\nweight = 3\n"
        "[tasks.chain_sum]\nmax_terms = 4\n[tasks.easy]\ngym = 'chain_sum'\n[tasks.own]\npython = 'own.py'\n"
    )
    return tmp_path


def loaded(folder: Path, **flags: Any) -> Settings:
    return completed(load_settings(flags, {}, str(folder / "swarm.toml")), folder)


def test_the_tables_of_a_settings_file_are_the_tasks_of_the_run(folder: Path) -> None:
    universe = universe_of(loaded(folder))
    assert list(universe.profiles) == ["chain_sum", "dataset/sums", "easy", "python/own"]
    assert len(set(universe.profiles.values())) == 4, "each has a digest of its own"
    assert universe.weights == {"dataset/sums": 3.0, "chain_sum": 1.0, "easy": 1.0, "python/own": 1.0}


def test_the_experiment_says_what_is_asked_and_no_path_of_anybodys_machine(folder: Path) -> None:
    table = loaded(folder).experiment_identity()["task_table"]
    assert table["sums"]["dataset"] == "sums.jsonl"
    assert len(table["sums"]["sha256"]) == 64
    assert str(folder) not in json.dumps(table)
    assert "task_table" not in Settings().experiment_identity(), "as in files of earlier versions"


def test_another_process_has_the_same_tasks(folder: Path) -> None:
    settings = loaded(folder)
    again = completed(load_settings({}, settings.as_environment()), folder / "elsewhere")
    assert universe_of(again) == universe_of(settings)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("sums.jsonl", lambda text: text.replace("3 + 3", "3 + 4")),
        ("sums.jsonl", lambda text: text + "\n"),
        ("own.py", lambda text: text.replace("1.0", "0.5")),
        ("swarm.toml", lambda text: text.replace("max_terms = 4", "max_terms = 5")),
        ("swarm.toml", lambda text: text.replace("'number'", "'exact'")),
    ],
)
def test_one_byte_makes_it_another_question(folder: Path, file: str, change: Any) -> None:
    before = universe_of(loaded(folder)).profiles
    (folder / file).write_text(change((folder / file).read_text()))
    after = universe_of(loaded(folder)).profiles
    assert sum(before[task] != after[task] for task in before) == 1


def test_tables_in_another_order_are_the_same_run(folder: Path) -> None:
    first, *others = (folder / "swarm.toml").read_text().split("[")[1:]
    before = loaded(folder)
    (folder / "swarm.toml").write_text("".join(f"[{table}" for table in (*others, first)))
    after = loaded(folder)
    assert list(universe_of(after).profiles) == list(universe_of(before).profiles), "in the order of the draws"
    assert after.experiment_identity() == before.experiment_identity()


def test_weights_change_what_is_drawn_and_not_what_is_asked(folder: Path) -> None:
    before = universe_of(loaded(folder))
    (folder / "swarm.toml").write_text((folder / "swarm.toml").read_text().replace("weight = 3", "weight = 1"))
    after = universe_of(loaded(folder))
    assert (after.profiles, after.mixture.shares) == (before.profiles, None)


# ── who asks anything else ──────────────────────────────────────────────────────────────────────────────────────────
def refusals(run: Universe, asked: Universe, mixture: Mapping[str, float] | None = None) -> set[str]:
    """Why the groups of a peer that draws from another universe are refused."""
    drawn = asked.mixture_of(mixture) if mixture else None
    groups = [
        RolloutGroup("bob", *KEY, slot, Question("?", request.origin("1")), (Completion("a", True),) * 2)
        for slot, request in enumerate(AssignedQuestions(42, asked).questions("bob", KEY, 8, drawn))
    ]
    found = Admission(Settings(), AssignedQuestions(42, run)).refusals("bob", KEY, groups, drawn)
    return {refusal.reason if refusal else "" for refusal in found}


def test_a_peer_whose_file_differs_by_one_byte_is_refused(folder: Path) -> None:
    run = universe_of(loaded(folder, tasks="sums"))
    assert refusals(run, run) == {""}
    (folder / "sums.jsonl").write_text((folder / "sums.jsonl").read_text().replace("0 + 0", "0 + 1"))
    assert refusals(run, universe_of(loaded(folder, tasks="sums"))) == {"other_profile"}


def test_a_peer_that_asks_outside_of_the_run_is_refused(folder: Path) -> None:
    everything, sums = universe_of(loaded(folder)), universe_of(loaded(folder, tasks="sums"))
    assert refusals(sums, universe_of(loaded(folder, tasks="easy"))) == {"other_profile"}
    run = Universe.of(["bf", "arc_1d"], "tiny-2")
    assert refusals(run, Universe.of(["binary_matrix"], "tiny-2")) == {"outside_universe"}
    assert refusals(everything, sums) >= {"not_drawn"}, "tasks of the run, and not those that it draws for this peer"


# ── mixtures ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_mixture_names_tasks_of_the_run_by_either_name(folder: Path) -> None:
    settings = loaded(folder, mixture="sums=2+chain_sum")
    mixture = own_mixture(settings, universe_of(settings))
    assert mixture
    assert mixture.weights == {"dataset/sums": 2.0, "chain_sum": 1.0}
    whole = loaded(folder, mixture="dataset/sums=3+chain_sum+easy+python/own")
    assert own_mixture(whole, universe_of(whole)) is None, "that is everybody's"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"mixture": "sumz"}, r"no task 'sumz'; did you mean"),
        ({"mixture": "sums=0"}, r"weights above 0"),
        ({"mixture": "sums+sums"}, r"each once"),
        ({"mixture": "sums=x"}, r"weights above 0"),
        ({"tasks": "chess"}, r"no task 'chess'.*no dataset 'chess'"),
    ],
)
def test_what_a_run_cannot_ask_is_refused_with_what_it_can(folder: Path, flags: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_tasks(loaded(folder, **flags))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[tasks.'a b']\n", r"expected a name of letters"),
        ("[tasks.sums]\ndataset = 'sums.jsonl'\npython = 'own.py'\n", r"expected one of gym, dataset, python"),
        ("[tasks.sums]\ndataset = 5\n", r"dataset must be a path, got 5"),
        ("[tasks.bf]\nweight = 0\n", r"weight must be a number above 0"),
        ("[tasks.bf]\nweight = true\n", r"weight must be a number above 0"),
        ("[tasks.no_such]\n", r"no dataset 'no_such'"),
    ],
)
def test_a_table_that_is_no_task_is_refused(folder: Path, table: str, said: str) -> None:
    (folder / "swarm.toml").write_text(table)
    with pytest.raises(ConfigError, match=said):
        loaded(folder)


def test_any_dataset_of_the_library_is_a_task_by_its_name() -> None:
    settings = completed(Settings(tasks=("bf", "leg_counting")), Path())
    assert settings.task_table == {"leg_counting": {"scoring": 2}}
    assert completed(settings, Path()) == settings
    with pytest.raises(ConfigError, match="scoring must be 2"):  # as of a run that an earlier version began
        completed(replace(settings, task_table={"leg_counting": {}}), Path())
    assert universe_of(settings).profiles["bf"] == "tiny-3"
