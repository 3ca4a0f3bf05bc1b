"""A file of the user's own questions is a task by its name alone: `--tasks mine.jsonl`."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.flags import settings_from
from swarm.cli.run_flags import RunFlags
from swarm.config import load_settings
from swarm.errors import ConfigError
from swarm.tasks.universe import universe_of

NUMBERS = '{"question": "What is 2 + 3?", "answer": "5"}\n{"question": "What is 900 + 300?", "answer": 1200}\n'
WORDS = NUMBERS + '{"question": "What is the capital of France?", "answer": "Paris"}\n'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("rows", "scorer"), [(NUMBERS, "number"), (WORDS, "exact")])
def test_a_file_is_asked_alone_and_scored_by_what_its_answers_are(tmp_path: Path, rows: str, scorer: str) -> None:
    (tmp_path / "my questions.jsonl").write_text(rows)
    settings = settings_from(RunFlags(tasks="my questions.jsonl"), {})
    assert list(universe_of(settings).profiles) == ["dataset/my_questions"]
    found = (settings.task_table or {})["my_questions"]
    assert (found["dataset"], found["scorer"]) == (str(tmp_path / "my questions.jsonl"), scorer)


def test_files_stand_beside_names_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,answer\nWho?,I\n")
    (tmp_path / "riddles.py").write_text("def draw(rng): return 'Why?', 'so'\ndef score(q, answer): return 1.0\n")
    settings = settings_from(RunFlags(tasks="mine.csv,binary_matrix,riddles.py"), {})
    assert list(universe_of(settings).profiles) == ["dataset/mine", "binary_matrix", "python/riddles"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a/mine.jsonl").write_text(NUMBERS)
    with pytest.raises(ConfigError, match=r"the task mine, .* rename"):
        settings_from(RunFlags(tasks="mine.csv,a/mine.jsonl"), {})


def test_a_settings_file_names_files_beside_itself(tmp_path: Path) -> None:
    folder = tmp_path / "far"
    folder.mkdir()
    (folder / "mine.jsonl").write_text(NUMBERS)
    for text in ('tasks = ["mine.jsonl"]', 'tasks = "mine.jsonl"'):
        (folder / "swarm.toml").write_text(text)
        settings = settings_from(RunFlags(config="far/swarm.toml"), {})
        assert (settings.task_table or {})["mine"]["dataset"] == str(folder / "mine.jsonl")


def test_a_place_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(NUMBERS)
    settings = load_settings({}, {}, base={"tasks": (["mine.jsonl"], "the experiment")})
    assert settings.task_table is None
    with pytest.raises(ConfigError, match=r"mine\.jsonl"):
        universe_of(settings)
    chosen = load_settings({}, {}, base={"task_table": ({"a": {"dataset": "mine.jsonl", "scorer": "auto"}}, "a place")})
    assert chosen.task_table == {"a": {"dataset": "mine.jsonl", "scorer": "auto"}}, "what a place has is not completed"


def test_a_task_of_the_settings_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(NUMBERS)
    (tmp_path / "swarm.toml").write_text('[tasks."mine.csv"]\ndataset = "q.jsonl"\n')
    settings = settings_from(RunFlags(config="swarm.toml", tasks="mine.csv"), {})
    assert list(universe_of(settings).profiles) == ["dataset/mine.csv"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"question": "a", "answer": "1"', "truncated"),
        ("What is 2 + 3?", r"'What is 2 \+ 3\?': .*\(byte 0\)"),
        ('["a", "1"]', "got"),
    ],
)
def test_a_bad_line_is_said_with_what_is_wrong_before_anything_starts(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "mine.jsonl").write_text(f"{NUMBERS}\n{line}\n")
    with pytest.raises(ConfigError, match=rf"mine\.jsonl:4: .*{why}") as refused:
        settings_from(RunFlags(tasks="mine.jsonl"), {})
    assert '{"question": "What is 2 + 3?", "answer": "5"}' in str(refused.value), "a line as it should be"


def test_who_joins_takes_a_file_of_any_language() -> None:
    from swarm.config.task_table import foreign_files

    def named(file: str) -> bool:
        return not list(foreign_files({"a": {"dataset": file, "sha256": "0" * 64}}))

    assert all(map(named, ["mine.jsonl", "Fragen f\u00fcr uns (2).jsonl", "\u554f\u984c.csv"]))
    wrong = ["../a.jsonl", "/etc/passwd", ".a", "-a", "a\\b", "C:a", "a\n", "a\u202eb", "", "\u554f" * 100]
    assert not any(map(named, wrong))
