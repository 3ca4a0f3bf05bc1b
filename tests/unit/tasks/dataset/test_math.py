"""Answers that are mathematics: scored by a real server, whose children may import, open and execute nothing."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from swarm.errors import ConfigError
from swarm.tasks.dataset.family import DATASETS
from swarm.tasks.registry import complete
from tests.unit.tasks.dataset.making import json_lines
from tests.unit.tasks.serving import serving, tagged

pytest.importorskip("math_verify")

ANSWERS = {
    "1/2": {
        r"\frac{1}{2}": 1,
        "0.5": 1,
        r"\boxed{\dfrac12}": 1,
        "$0.50$": 1,
        "2": 0,
        "": 0,
        "half": 0,
        r"\frac{1}{": 0,
    },
    "x^2+2x+1": {"(x+1)^2": 1, "1+2x+x^2": 1, "(x+2)^2": 0, "$(1+x)(x+1)$": 1},
    r"\sqrt{8}": {r"2\sqrt{2}": 1, "2.8": 0, r"2\sqrt{3}": 0},
    r"\{1,2,3\}": {r"\{3,2,1\}": 1, r"\{1,2\}": 0},
    r"(-\infty,3)": {r"(-\infty, 3)": 1, "(3, 5)": 0, r"\{x | x < 3\}": 0},
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}": {
        r"\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}": 1,
        r"\begin{pmatrix}1&2\\3&5\end{pmatrix}": 0,
    },
    "55": {r"\sum_{i=1}^{10} i": 1, r"\lim_{x\to 0}\frac{\sin x}{x}": 0, r"\int_0^1 x^2 dx": 0, "x^2-5x+6=0": 0},
    r"\$18": {"18": 1, r"\$18": 1, "$18": 1, r"$\$18$": 1, "$18$": 1, r"\$18.00": 1, "19": 0, r"\$": 0},
    r"\frac{1}{2}": {
        **dict.fromkeys(("0.5,0.5", "0.5;0.5", r"\{0.5,0.5\}", "[0.5,0.5]", r"0.5\text{ and }0.5", r"0.5\pm 0"), 0),
        **dict.fromkeys(("1:2", "0.5 : 1", "0.4999999999", "x=0.4999999999", "0.50000001", "0.4=0.5"), 0),
        **dict.fromkeys(("0.5", "x=0.5", "0.50000000", "1/4+1/4=0.5", r"\{0.5\}", ".5"), 1),
    },
    r"\frac13": {"0.3333333333": 1, "0.333333": 1, "0.333": 0, "0.33333349": 0, "0.3333333334": 0},
    "2:3": {"2:3": 1, "4:6": 1, r"\frac{2}{3}": 1, "3:2": 0},
    r"\{1,2\}": {"1,2": 1, "2,1": 1, "1": 0, "1,2,3": 0},
    "9900": {r"\frac{100!}{98!}": 1, "9900": 1, "52!": 0, "34!": 0, r"\frac{99!}{98!}": 0},
    "2": {r"\sum_{i=0}^{\infty}\frac{1}{2^i}": 1, r"\sum_{i=1}^{\infty}\frac{1}{2^i}": 0, r"\prod_{i=1}^{2} i": 1},
    r"\sum_{k=1}^{n} k": {r"\frac{n(n+1)}{2}": 1, r"\sum_{i=0}^{\infty}\frac{1}{2^i}": 0, "n": 0},
    "52!": {"52!": 1, "51!": 0, r"52\cdot 51!": 1},
    "Monday": {"monday": 1, r"\text{Monday}": 1, r"\boxed{\text{Monday}}": 1, "yadnoM": 0, "Tuesday": 0, "星期一": 0},
    "-1": {r"\cos\pi": 1, r"\tan(\pi/8)": 0, r"\ln e^2": 0, r"|x|": 0, "7!": 0, r"\binom{5}{2}": 0},
}
HOSTILE = ("__import__('os').system('true')", "9**9**9**9", "9^{9^{9^{9}}}", "{" * 900, r"\frac" * 300, "x.__class__")


@pytest.mark.engine
def test_answers_of_the_same_value_earn_one_in_a_confined_child_and_hostile_ones_nothing(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", [{"question": truth, "answer": truth} for truth in ANSWERS])
    defined = complete({"maths": {"dataset": "q.jsonl", "scorer": "math"}}, tmp_path)
    with serving(defined) as served:
        questions = [served.question("maths", 0, index) for index in range(len(ANSWERS))]
        found = {one.prompt: served.score(one, *tagged(*ANSWERS[one.prompt])) for one in questions}
        hostile = served.score(questions[-1], *tagged(*HOSTILE, questions[-1].prompt))
    wanted = {truth: tuple(map(float, answers.values())) for truth, answers in ANSWERS.items()}
    assert {truth: score.rewards for truth, score in found.items()} == wanted
    assert [score.killed for score in found.values()] == [0] * len(found)
    assert hostile.rewards == (*(0.0,) * len(HOSTILE), 1.0)


def test_the_libraries_that_decide_are_part_of_the_version_and_named_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_lines(tmp_path / "q.jsonl", [{"question": "a", "answer": "1"}])
    tasks = complete({"maths": {"dataset": "q.jsonl", "scorer": "math"}}, tmp_path)
    assert f"+math-verify-{importlib.metadata.version('math-verify')}+sympy-" in DATASETS.define(tasks).version

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ConfigError, match=r"the scorer 'math' needs math-verify, not installed: .*math-verify"):
        DATASETS.define(tasks)
