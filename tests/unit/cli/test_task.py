"""`swarm task`: what somebody sees who writes a task of his own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Typed
from tests.unit.tasks.dataset.making import json_lines

SUMS = """
import os, random, time
def draw(rng, top=9):
    a, b = rng.randrange(top), rng.randrange(top)
    return f"{a} + {b} = ?", str(a + b)
def score(question, answer):
    return 1.0 if answer == question.answer else 0.0
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path / "place"))
    return tmp_path


def test_what_is_written_works_as_it_is_and_its_lines_are_a_settings_file(folder: Path, typed: Typed) -> None:
    said = typed("task", "new", "riddles").out
    (folder / "swarm.toml").write_text(said[said.index("[tasks.riddles]") :])
    shown = typed("task", "try", "riddles", "--config", "swarm.toml", "--answer", "30", "--answer", "7").out
    assert "What is 6 times 5?\nanswer: 30" in shown
    assert "reward 1 for '30'\nreward 0 for '7'" in shown
    assert "a question and 8 answers: median" in shown
    assert "python/riddles: nothing is wrong with 20 questions" in shown
    listed = typed("task", "list", "--config", "swarm.toml").out
    assert "python/riddles" in listed
    assert '"python":"riddles.py"' in listed
    assert "basic_arithmetic" in listed


def test_a_file_that_is_there_is_not_written_over(folder: Path, typed: Typed) -> None:
    (folder / "riddles.py").write_text("mine")
    assert "cannot write riddles.py: File exists" in typed("task", "new", "riddles", code=2).err
    assert (folder / "riddles.py").read_text() == "mine"
    typed("task", "new", "../riddles", code=2)


RANDOM = ("rng.randrange(top), rng", "random.randrange(10**9), rng")
SAME = ("rng.randrange(top), rng.randrange(top)", "1, 1")
LISTS = ("    a, b =", "    if rng.random() < 0.5: os.listdir()\n    a, b =")
OPENS = ("    return 1.0 if", "    if not answer: open('x', 'w')\n    return 1.0 if")
HEARD = 'return "That is no whole number. Guess again."'


@pytest.mark.parametrize(
    ("turns", "changes", "problems"),
    [
        (False, [RANDOM], ["not deterministic: one process made"]),
        (False, [("return 1.0 if", "return 2.0 if")], ["20 times scoring a question's own answer raised, or gave no"]),
        (
            False,
            [SAME, ("return 1.0 if", "return 0.5 if")],
            ["all 20 seeds give", "20 do not give 1 for thei"],
        ),
        (False, [OPENS], ["an odd answer was ended", "scoring child ended: it tried open"]),
        (False, [LISTS], ["no question: generation_failed: the question's generator failed"]),
        (True, [("return None", "return None if rng() else 'x'")], ["reply failed"]),
        (True, [(HEARD, "return str(id(answers))")], ["not deterministic"]),
        (True, [(HEARD, "return next(COUNT)")], ["depends on what was asked before"]),
        (True, [(HEARD, "1 / 0")], ["times a reply raised, or was neither"]),
        (True, [("0.0\n    return 0.3", "2.0\n    return 0.3")], ["times scoring a conversation raised, or gave no"]),
        (True, [("return 1.0 - 0.2", "return 0.9 - 0.2")], ["its own answer in the first turn does not give 1"]),
    ],
)
def test_what_a_run_would_suffer_from_is_said(
    folder: Path, typed: Typed, turns: bool, changes: list[tuple[str, str]], problems: list[str]
) -> None:
    file, text = folder / "tried.py", SUMS
    if turns:
        typed("task", "new", "tried", "--turns")
        text = file.read_text() + "\nCOUNT = map(str, __import__('itertools').count())\n"
    for changed, by in changes:
        assert changed in text
        text = text.replace(changed, by)
    file.write_text(text)
    said = typed("task", "try", "tried.py", codes=(1, 2))
    assert [problem for problem in problems if problem not in said.out + said.err] == []


def test_what_cannot_be_asked_at_all_is_one_line(folder: Path, typed: Typed) -> None:
    (folder / "sums.py").write_text(SUMS.replace("str(a + b)", "a + b"))
    assert "expected of draw (question, answer) as text" in typed("task", "try", "sums.py", code=2).err
    assert "did you mean 'basic_arithmetic'?" in typed("task", "try", "basic_arithmetik", code=2).err


@pytest.mark.engine
def test_a_dataset_and_a_task_of_a_family_are_tried_by_name(folder: Path, typed: Typed) -> None:
    json_lines(folder / "q.jsonl", [{"question": f"q{n}", "answer": f"a{n}"} for n in range(9)])
    said = typed("task", "try", "q.jsonl", "--answer", "a3").out
    assert "dataset/q: nothing is wrong with 20 questions, 7 of them different" in said
    typed("task", "try", "chain_sum")
    assert "seed 5\n" in typed("task", "try", "binary_matrix", "--seed", "5").out


def test_a_conversation_is_written_and_played_by_hand(folder: Path, typed: Typed) -> None:
    typed("task", "new", "guess", "--turns")
    answers = [word for answer in "9467" for word in ("--answer", answer)]
    shown = typed("task", "try", "guess.py", *answers).out
    assert (
        "turn 1: '9'\nIt is lower. Guess again.\nturn 2: '4'\nIt is higher. Guess again.\nturn 3: '6'\n(it is" in shown
    )
    assert "reward 0.6 for 3 of 3 turns" in shown
    assert "python/guess: nothing is wrong with 20 questions" in shown
