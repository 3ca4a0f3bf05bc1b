"""Checks whether a dataset's own answers earn 1: what no model can earn is said with its row before a run asks it.

    rows, in any order ─▶ a confined child ─▶ reward of each row's own answer ─▶ what is said
                          at most SECONDS of processor time

Every row is looked at where that takes no longer, as of the cheap scorers' 100,000 rows. Of a file that takes
longer as many rows as the time allows are looked at, from all over it, and their number is said. A row that ends the
child ends the look. What is scored is what a completion could say: the answer between its tags, of which a scorer reads
so many characters.
"""

from __future__ import annotations

import functools
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swarm.tasks import sandbox
from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, extract_answer
from swarm.tasks.bounded import Emit, Limits, at_most, run_bounded
from swarm.tasks.definitions import malformed

if TYPE_CHECKING:
    from swarm.tasks.dataset.loading import LoadedTask

SECONDS = 5.0
"""Processor time, of all tasks together."""
BUSY = 4.0
"""Times as long it may take on a machine that does other things."""
ROW_SECONDS = 1.0
"""What an answer's child has."""
FULL = 0.999
NAMED = 5
"""Rows that are named; the others are counted."""
MOST_WRONG = 0.5
"""Share above which a scorer does not fit its column."""
_END = "\0"
"""Last word of a child that has looked at as many as it had time for."""


def check(task: LoadedTask, seconds: float) -> None:
    """Score the rows' own answers, and say on stderr which do not earn 1. Raises ConfigError: most of them do not."""
    kind, name = task.definition.kind, task.definition.name
    if not kind.answers:
        return  # the column holds a pattern or tests
    looked_at = _problems(task, seconds)
    wrong = {number: problem for number, problem in looked_at.items() if problem}
    if wrong:
        text = _told(task, wrong, len(looked_at))
        if len(wrong) > MOST_WRONG * len(looked_at) and kind.strict:
            raise malformed(name, text)
        sys.stderr.write(f"[tasks.{name}]: {text}\n")
        sys.stderr.flush()


def _problems(task: LoadedTask, seconds: float) -> dict[int, str]:
    """Returns row -> why its own answer does not earn 1, empty where it does; as many rows as the time allows."""
    numbers = list(range(len(task.rows)))
    random.Random(0).shuffle(numbers)
    job = functools.partial(_score, task, numbers, seconds)
    found = [frame.decode() for frame in run_bounded(job, Limits(math.ceil(seconds) + 1, 2 * BUSY * seconds))]
    ended = found[-1:] != [_END]
    if ended and found:  # where no child works at all, which is said later, no row is to blame
        found.append("its scoring had to be ended: it takes too much time or memory")
    return dict(zip(numbers, found if ended else found[:-1], strict=False))


def _score(task: LoadedTask, numbers: Sequence[int], seconds: float, emit: Emit) -> None:
    """Scores some rows' own answers, in the child."""
    until = time.monotonic() + BUSY * seconds
    with sandbox.enter().scoring():
        for number in numbers:
            emit(_problem(task, number).encode())
            if time.process_time() > seconds or time.monotonic() > until:
                break
    emit(_END.encode())


def _problem(task: LoadedTask, number: int) -> str:
    row = task.row(number)
    own = task.own(number).strip()
    answer = extract_answer(f"{OPEN_TAG}{own}{CLOSE_TAG}")
    if answer is None:
        return f"has {len(own):,} characters, and of a completion's {ANSWER_LIMIT:,} are read"
    try:
        with at_most(ROW_SECONDS):
            reward = float(task.scorer.score(row, answer))
    except TimeoutError as error:
        return f"needs {error}"
    except Exception as error:  # noqa: BLE001 - the boundary: a scorer may raise anything
        return f"raises {type(error).__name__}: {error!s:.200}"
    return "" if reward >= FULL else f"earns {reward:g}"


def _told(task: LoadedTask, wrong: Mapping[int, str], looked_at: int) -> str:
    named, rows = sorted(wrong)[:NAMED], len(task.rows)
    each = "; ".join(f"row {one + 1}: {task.own(one)!r:.50} {wrong[one]}" for one in named)
    more = f"; and {len(wrong) - len(named):,} more" if len(wrong) > len(named) else ""
    of = "" if looked_at == rows else f" (of {rows:,} in all)"
    return (
        f"of {looked_at:,} rows{of} the own answer of {len(wrong):,} does not earn 1 by "
        f"{task.definition.scorer}, so no model can learn it: {each}{more}; mend these rows, leave them out, or "
        "take another scorer"
    )
