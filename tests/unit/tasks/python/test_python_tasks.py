"""A task in a Python file of one's own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError
from swarm.tasks.registry import Families, complete
from tests.unit.tasks.dataset.making import prepared, request

SUMS = """
def draw(rng, top=9):
    a, b = rng.randrange(top), rng.randrange(top)
    return f"{a} + {b} = ?", str(a + b), {"terms": [a, b]}

def score(question, answer):
    return 1.0 if answer == question.answer else 0.1 * (answer == str(question.metadata["terms"][0]))
"""


def test_a_file_draws_and_scores_with_the_parameters_of_its_table(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    families, parameters = prepared(tmp_path, python="sums.py", top=1_000)
    questions = [families.make(request("mine", parameters, seed)) for seed in (1, 2, 1)]
    assert questions[0] == questions[2] != questions[1]
    assert max(max(question.metadata["terms"]) for question in questions) > 100
    first = questions[0]
    assert families.score(first, first.answer or "") == 1
    assert families.score(first, str(first.metadata["terms"][0])) == 0.1
    assert parameters["sha256"] == hashlib.sha256(SUMS.encode()).hexdigest()


def test_another_file_is_refused_and_not_imported(tmp_path: Path) -> None:
    file, trace = tmp_path / "sums.py", tmp_path / "imported"
    file.write_text(SUMS)
    tasks = complete({"mine": {"python": OwnCode("sums.py")}}, tmp_path)
    file.write_text(SUMS + f"open({str(trace)!r}, 'w')\n")
    for attempt in (lambda: complete(tasks, tmp_path), lambda: Families((), tasks).prepare()):
        with pytest.raises(ConfigError, match=r"has SHA-256 .* expected"):
            attempt()
    assert complete({"mine": {"python": OwnCode("sums.py")}}, tmp_path), "completed, which imports nothing"
    assert not trace.exists()
    file.unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*sums\.py: No such file"):
        complete(tasks, tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def draw(rng:", r"cannot be imported: line 1: SyntaxError"),
        ("import no_such_module_anywhere", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(7)", "line 1: SystemExit: 7"),
        ("def draw(rng): return 'a', 'b'", "has no function score; see docs/tasks.md"),
        (SUMS.replace("top=9", "most=9"), "draw failed: TypeError: .*'top'"),
        (SUMS.replace("str(a + b)", "a + b"), r"ValueError: expected of draw \(question, answer\) as text"),
        (SUMS.replace("str(a + b)", "str(a / 0)"), "draw failed: line 4: ZeroDivisionError"),
        (SUMS.replace("[a, b]", "draw"), "TypeError: Encoding objects of type function"),
        (SUMS.replace("str(a + b)", "'x' * 20_001"), "the answer has 20001 characters"),
        (SUMS.replace("1.0 if", "no if"), "score failed: line 7: NameError"),
    ],
)
def test_what_a_file_lacks_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "sums.py").write_text(text)
    with pytest.raises(ConfigError, match=rf"(?s)^\[tasks\.mine\]: .*{problem}"):
        prepared(tmp_path, python="sums.py", top=9)
