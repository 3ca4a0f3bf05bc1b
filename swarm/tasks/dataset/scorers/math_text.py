"""`math`: the answer is mathematics of the same value as the column's, in LaTeX or plain, boxed or not.

Read and compared by math-verify (https://github.com/huggingface/Math-Verify), which knows fractions, roots, sets,
intervals, matrices, equations and more. It reads LaTeX with a grammar and executes no text, but sympy does: what does
is replaced as for reasoning-gym (swarm.tasks.gym.disarm), what it imports late is imported here, and its time-outs,
which are signals, give way to the limits of swarm.tasks.bounded.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from swarm.tasks.dataset.scorers import Row
from swarm.tasks.gym import safe_sympy
from swarm.tasks.gym.disarm import disarm
from swarm.tasks.gym.imports import make_sympy_ready

_LOGGERS = ("math_verify", "latex2sympy2_extended")
_WARM = (
    *((r"\boxed{x^2+2x+1}", "(x+1)^2"), (r"\frac{1}{2}", "0.5"), (r"\{1,2\}", r"\{2,1\}"), (r"(1,\infty)", "x>1")),
    *((r"\sqrt{8}", r"2\sqrt{2}"), ("x=5", "5"), (r"10\%", "0.1"), (r"\sin^2 x+\cos^2 x", "1"), ("1,024", "2^{10}")),
    *((r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",) * 2, (r"\int_0^1 x dx", r"\frac12"), (r"\log_2 8", "3")),
    *((r"\binom52", "10"), ("5!", "120"), ("x^2-5x+6=0", "(x-2)(x-3)=0"), (r"\text{Monday}", "Monday")),
)
"""What is compared once, as tables are made and classes defined by then."""


def score(row: Row, answer: str) -> float:
    """1 for the same value."""
    import math_verify  # seconds, and an extra: only who asks such a task has it, since `prepare`

    given = _read(answer)
    return float(bool(given) and math_verify.verify(_read(row.text), given, timeout_seconds=None))


def check(row: Row) -> None:
    """Raises ValueError where there is nothing to compare with; that it can be read is not looked at: it takes long."""
    if not row.text.strip():
        raise ValueError("the answer is empty, which no completion's may be")


@functools.lru_cache(maxsize=16)
def _read(text: str) -> list[Any]:
    """What math-verify finds: text without any mark of LaTeX's mathematics is mathematics as a whole."""
    import math_verify

    whole = text if "$" in text or r"\boxed" in text or r"\[" in text or r"\(" in text else f"${text}$"
    found: list[Any] = math_verify.parse(whole, parsing_timeout=None)
    return found


def prepare() -> None:
    """Import and warm up all that `score` needs, and take away what executes text, in a scoring server."""
    import math_verify.parser

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what is logged of an error is read from source files
    make_sympy_ready()
    for one, other in _WARM:
        score(Row({}, one, {}), other)
    disarm()
    vars(math_verify.parser)["parse_expr"] = safe_sympy.parse
    for cached in (_read, math_verify.parser.parse_latex_cached, math_verify.parser.parse_expr_cached):
        cached.cache_clear()
