"""Honest answers in ten scripts to every dataset and scorer that a run may ask: how many are taken for an attack?

    python -m tests.hostile.honest [DATASET ...]        all of them: some ten minutes of one core

Each goes through real scoring servers, some datasets in one. Printed is what was not scored in peace: a breach, which
the server says on stderr, an answer that had to be killed, one that was slow. Ends with 1 if there was a breach.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
from structlog.testing import capture_logs

from benchmarks.gym_datasets import SMALLER
from swarm.config.task_table import newest
from swarm.errors import ProtocolError
from swarm.tasks.answer import ANSWER_LIMIT
from swarm.tasks.bounded import Limits
from swarm.tasks.definitions import full_name, profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.names import REFUSED, modules
from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from swarm.tasks.registry import complete
from swarm.tasks.scoring import Scorer
from tests.unit.tasks.serving import tagged

SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "Latin": ("é", "Ergebnis: fünf", "l’été à 15 h 30", "İstanbul’da ğüşöç", "№ 5", "½", "12 cm²", "1.234,56", "«oui»"),
    "Greek": ("απάντηση", "π/2", "Η απάντηση είναι 42", "α+β=γ", "Δευτέρα"),
    "Cyrillic": ("ответ", "Ответ: 42", "понедельник", "да", "х = 5", "П ∧ Р"),
    "Han": ("答案", "答案是42", "星期一", "是", "五十", "(P ∧ Q)。", "４２", "[[0,1],[1,0]]。", "(１, ２)"),
    "Kana": ("こたえ", "答えは42です", "月曜日", "はい", "ｶﾞ"),
    "Hangul": ("답", "답은 42입니다", "월요일", "예"),
    "Arabic": ("الجواب", "الجواب هو ٤٢", "الاثنين", "نعم", "٣٫١٤", "س = ٥"),
    "Hebrew": ("תשובה", "התשובה היא 42", "יום שני", "כן"),
    "Devanagari": ("उत्तर", "उत्तर ४२ है", "सोमवार", "हाँ", "क्षि"),
    "Thai": ("คำตอบ", "คำตอบคือ ๔๒", "วันจันทร์", "ใช่"),
    "marks": ("🙂", "👍🏽 42", "e\u0301", "42\u200b", "\u00a042", "→ 42", "“42”", "−42", "4\u202f200", "\ufeff42"),
}
"""Ten scripts, and what stands between letters in all of them."""
ENGLISH = (
    *("", "0", "1", "-1", "42", "3.14", "1/2", "-7/3", "1e3", "1,234", "$18", r"\$18", "5%", "x", "P", "(P ∧ Q)", "¬P"),
    *("P → Q", "yes", "Yes.", "no", "True", "None", "Monday", "The answer is 42.", "42 because 6*7=42", "[1, 2, 3]"),
    *("[[0, 1], [1, 0]]", "0 1\n1 0", "[1, 2", "[1,2,]", '{"a": 1}', "{'a': 1}", "(1, 2)", "A", "(B)", "hello world"),
    *("R U R' U'", "```python\nprint(42)\n```", "```\n0 1\n```", "x = 5", "x=5, y=3", "x**2 + 2*x + 1", "(x+1)**2"),
    *("sin(x)", "exp(x)/2 + C", "3 * 8 = 24", "(3 + 5) * 3", "8 / (3 - 8/3)", "log(x)", "factorial(5)", "five", "N/A"),
    *("I don't know", "nan", "inf", "1e400", "0x1F", "1_000", "007", "--5", "a" * 300, "1" * 50, "1 " * 200, "[]"),
    *('"42"', "b'42'", "lambda x: x", "import os", "def f(x):\n    return x", "12:30 PM", "2024-05-01", "A->B->C"),
    *("('A', 'B')", "(0,0)", "Nf3", "AA-1", "F+3", "dog, cat", "2 + 2 * 3", "...", "tab\there", "line\r\nbreak"),
    *("{}", "\x00"),
)
MATHEMATICS = (
    *("5!", "52!", "34!", r"\frac{100!}{98!}", r"\frac{1}{2}", r"\boxed{5}", r"\boxed{\frac{3}{4}}", r"$\frac{1}{2}$"),
    *(r"\(x=5\)", r"\sqrt{2}", r"2\sqrt{3}", r"\pi", r"\infty", r"\sum_{i=1}^{10} i", r"\sum_{k=1}^{n} k", r"17^{17}"),
    *(r"\sum_{i=0}^{\infty} \frac{1}{2^i}", r"\prod_{i=1}^{5} i", r"\int_0^1 x^2 dx", r"\int x dx", r"\binom{52}{5}"),
    *(r"\lim_{x\to 0}\frac{\sin x}{x}", r"\log_2 8", r"\ln e^2", r"\tan(\pi/8)", r"\cos\pi", r"30^\circ", r"|x|"),
    *(r"(-\infty, 3]", r"\{1,2,3\}", r"x>3", r"1<x<2", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "3+4i", r"e^{i\pi}"),
    *(r"2^{1000}", r"x^{100}", r"(x+1)^{20}", r"\text{Monday}", r"12\text{ cm}", r"5\%", r"0.\overline{3}", "13!"),
    *(r"\lfloor 3.7\rfloor", r"7 \bmod 3", r"\gcd(12,18)", r"\Gamma(5)", r"\frac{d}{dx}x^2", "y=mx+b", r"\sqrt[3]{27}"),
    *(r"3\frac{1}{2}", "1:2", r"\frac{1}{2", "$$", "$$5$$", r"x^2-5x+6=0", r"\sqrt{1000003}", r"\zeta(2)", r"x=\pm 2"),
    *(r"\mathbb{R}\setminus\{0\}", r"(-\infty,-2)\cup(2,\infty)", r"\frac{n(n+1)}{2}", r"n\equiv 1\pmod 3"),
    *("n!", "123456789^2"),
)
FRAMES = (
    *("%s", "The answer is %s.", "**%s**", "$%s$", r"\boxed{%s}", "答案是 %s。", "Ответ: %s", "%s ✅", "[%s]", "%s é"),
)
"""How a right answer may be worded."""
ROWS: Mapping[str, tuple[str, Any, dict[str, Any]]] = {
    "exact": ("exact", "Paris", {"ignore_case": True}),
    "number": ("number", "1,234", {"tolerance": 0.5}),
    "choice": ("choice", "B", {}),
    "json": ("json", '{"a": [1, 2]}', {}),
    "regex": ("regex", r"\w+ é?[0-9]+", {"ignore_case": True}),
    "math": ("math", r"\frac{1}{2}", {}),
    "sums": ("math", r"\sum_{k=1}^{n} k", {}),
}
"""Scorers of datasets: name -> scorer, answer, options."""
LIMITS = Limits(wall_s=120.0)
AT_ONCE = 16
OF_ONE_SERVER = 13


@dataclass
class Met:
    """What honest answers met."""

    answers: int = 0
    breaches: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    slow: Counter[str] = field(default_factory=Counter)


def answers_to(own: str | None) -> list[str]:
    """Honest answers to a question."""
    known = own or "42"
    spelt = (known.upper(), known.replace(" ", "\u00a0"), known.replace("0", "٠"))
    changed = (*spelt, known[:-1], known[::-1], f"{known}é")
    texts = (*(text for script in SCRIPTS.values() for text in script), *ENGLISH, *MATHEMATICS)
    worded = (form % known for form in FRAMES)
    return list(dict.fromkeys(text[: ANSWER_LIMIT - 1] for text in (*worded, *changed, *texts)))


async def met(
    requests: Sequence[QuestionRequest], tasks: Mapping[str, Any], part: slice = slice(None), found: Met | None = None
) -> Met:
    """What the answers to some questions, or a part of them, meet in one server, added to what was found."""
    found = found or Met()
    with capture_logs() as said:
        async with Scorer(1, tasks=tasks, limits=LIMITS) as scorer:
            for request in requests:
                try:
                    (question,) = await scorer.make([request])
                except ProtocolError as error:
                    found.breaches.append(f"{request.full_task}: no question: {error}")
                    continue
                rest = iter(answers_to(question.answer)[part])
                while some := list(islice(rest, AT_ONCE)):
                    score = await scorer.score(question.known_origin(), None, tagged(*some))
                    found.answers += len(some)
                    found.killed[request.full_task] += score.killed
                    found.slow[request.full_task] += score.slow  # type: ignore[assignment]
    lines = [str(line.get("line")) for line in said]
    found.breaches += [f"{', '.join(tasks) or 'the nine'}: {line}" for line in lines if "it tried" in line]
    return found


def of_scorers(folder: Path, names: Sequence[str] = tuple(ROWS)) -> tuple[list[QuestionRequest], dict[str, Any]]:
    """A question for each of the datasets' scorers."""
    tables = {}
    for name in names:
        scorer, answer, options = ROWS[name]
        (folder / f"{name}.jsonl").write_text(json.dumps({"question": name, "answer": answer}) + "\n")
        tables[name] = {"dataset": f"{name}.jsonl", "scorer": scorer, **options}
    return _requests(complete(tables, folder))


def of_gym(datasets: Sequence[str]) -> tuple[list[QuestionRequest], dict[str, Any]]:
    """A question of each of these datasets."""
    return _requests({name: newest(SMALLER.get(name, {})) for name in datasets})


def of_the_nine(profiles: Sequence[str] = tuple(PROFILES)) -> tuple[list[QuestionRequest], dict[str, Any]]:
    """A question of each default task."""
    return [QuestionRequest(task, profile, 5) for profile in profiles for task in SAPO_TASKS], {}


def _requests(tasks: Mapping[str, Any]) -> tuple[list[QuestionRequest], dict[str, Any]]:
    requests = [QuestionRequest.named(full_name(name, of), profile_of(name, of), 7) for name, of in tasks.items()]
    return requests, dict(tasks)


def batches(folder: Path, chosen: Sequence[str]) -> Iterator[tuple[list[QuestionRequest], dict[str, Any]]]:
    """All that is asked, a server's at a time."""
    if not chosen:
        yield of_the_nine()
        yield of_scorers(folder)
    datasets = iter(chosen or [name for name in modules() if name not in REFUSED])
    while some := list(islice(datasets, OF_ONE_SERVER)):
        yield of_gym(some)


def main(chosen: Sequence[str]) -> int:
    """Print what was met."""
    whole = Met()
    with tempfile.TemporaryDirectory() as folder:
        for requests, tasks in batches(Path(folder), chosen):
            anyio.run(met, requests, tasks, slice(None), whole)
            print(f"{len(requests)} questions; {whole.answers} answers: {whole.breaches or 'no breach'}", flush=True)  # noqa: T201
    killed, slow = ({k: round(v, 2) for k, v in of.items() if v} for of in (whole.killed, whole.slow))
    print(f"{whole.answers} answers, {len(whole.breaches)} breaches, killed {killed}, slow {slow}")  # noqa: T201
    return bool(whole.breaches)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
