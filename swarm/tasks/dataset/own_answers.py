"""Checks whether a dataset's own answers earn 1: what no model can earn is said with file and line before a run asks
it.

    rows, spread over the file ─▶ confined children, one after another ─▶ reward of each row's own answer ─▶ OwnAnswers
                                    at most SECONDS of processor time

Every row is looked at where that takes no longer, as of the cheap scorers' 100,000 rows. Of a file that takes
longer as many rows as the time allows are looked at, spread evenly over all of it, and their number is said. What is
scored is what a completion could say: the answer between its tags, of which a scorer reads so many characters.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from swarm.tasks import sandbox
from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, extract_answer
from swarm.tasks.bounded import Emit, Limits, at_most, run_bounded
from swarm.tasks.dataset import files
from swarm.tasks.dataset.reading import rows_of
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
AT_ONCE = 1_000
"""Rows of one child, between two words of progress."""
SAID_EVERY_S = 5.0
_PHI = 0.6180339887498949

Say = Callable[[str], None]


class OwnAnswer(msgspec.Struct, frozen=True):
    """Says for one row whether its own answer earns 1."""

    number: int
    problem: str = ""
    """Why its own answer does not earn 1."""


class OwnAnswers(msgspec.Struct, frozen=True):
    """Says for one task which rows' own answers do not earn 1."""

    rows: int
    looked_at: int
    wrong: tuple[OwnAnswer, ...] = ()

    @property
    def share(self) -> float:
        """Returns the share, among the rows looked at, of those whose own answer does not earn 1."""
        return len(self.wrong) / max(self.looked_at, 1)


def check(task: LoadedTask, say: Say, seconds: float = SECONDS) -> None:
    """Score the rows' own answers, and say which do not earn 1. Raises ConfigError: most of them do not."""
    if not task.definition.kind.answers or task.definition.options.get("schema"):
        return  # the column holds a pattern, a schema or tests, and no answer
    found = look(task, say, seconds)
    if found.wrong:
        text = _told(task, found)
        if found.share > MOST_WRONG and task.definition.kind.strict:
            raise malformed(task.definition.name, text)
        say(f"[tasks.{task.definition.name}]: {text}")


def look(task: LoadedTask, say: Say, seconds: float) -> OwnAnswers:
    """Scores the rows' own answers, as many as the time allows."""
    rows, left = len(task.rows), seconds
    numbers = list(spread(rows))
    found: list[OwnAnswer] = []
    said, ends = time.monotonic(), time.monotonic() + BUSY * seconds
    while len(found) < rows and left > 0 and (now := time.monotonic()) < ends:
        some = numbers[len(found) : len(found) + AT_ONCE]
        before = _seconds_of_children()
        frames = run_bounded(functools.partial(_score, task, some), Limits(math.ceil(left), ends - now))
        left -= _seconds_of_children() - before
        found += [msgspec.msgpack.decode(frame, type=OwnAnswer) for frame in frames]
        if not found:
            break  # no child works here, which is said later: no row is to blame
        if len(frames) < len(some) and left > 0 and time.monotonic() < ends:
            found.append(OwnAnswer(some[len(frames)], "its scoring had to be ended: it takes too much time or memory"))
        if now - said > SAID_EVERY_S:
            said = now
            say(f"[tasks.{task.definition.name}]: {len(found):,} of {rows:,} rows' own answers are scored")
    return OwnAnswers(rows, len(found), tuple(one for one in found if one.problem))


def spread(count: int) -> Iterator[int]:
    """Yields all numbers below `count`, each once, so that the first few are spread evenly over all of them."""
    step = max(1, round(count * _PHI))
    while math.gcd(step, count) > 1:
        step += 1
    return (number * step % count for number in range(count))


def _seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _score(task: LoadedTask, numbers: Sequence[int], emit: Emit) -> None:
    """Scores some rows' own answers, in the child."""
    with sandbox.enter().scoring():
        for number in numbers:
            emit(msgspec.msgpack.encode(OwnAnswer(number, _problem(task, number))))


def _problem(task: LoadedTask, number: int) -> str:
    row = task.row(number)
    own = task.own(number).strip()
    answer = extract_answer(f"{OPEN_TAG}{own}{CLOSE_TAG}")
    if answer is None:
        return f"has {len(own):,} characters, and of a completion's {ANSWER_LIMIT:,} are read"
    if answer != own:
        return f"holds {OPEN_TAG} or {CLOSE_TAG}, which end a completion's"
    try:
        with at_most(ROW_SECONDS):
            reward = float(task.scorer.score(row, answer))
    except TimeoutError as error:
        return f"needs {error}"
    except Exception as error:  # noqa: BLE001 - the boundary: a scorer may raise anything
        return f"raises {type(error).__name__}: {error!s:.200}"
    return "" if reward >= FULL else f"earns {reward:g}"


def _told(task: LoadedTask, found: OwnAnswers) -> str:
    """Returns all of it as one text."""
    named = found.wrong[:NAMED]
    places = _places(task, [one.number for one in named])
    each = "; ".join(
        f"{places.get(one.number, f'row {one.number + 1}')}: {task.own(one.number)!r:.50} {one.problem}"
        for one in named
    )
    more = f"; and {len(found.wrong) - len(named):,} more" if len(found.wrong) > len(named) else ""
    of = "" if found.looked_at == found.rows else f" (of {found.rows:,} in all, spread over them)"
    return (
        f"of {found.looked_at:,} rows{of} the own answer of {len(found.wrong):,} does not earn 1 by "
        f"{task.definition.scorer}, so that no model can learn it: {each}{more}; mend these rows, leave them out, or "
        "take another scorer"
    )


def _places(task: LoadedTask, numbers: Sequence[int]) -> dict[int, str]:
    """Row -> file and line, which are read once more for it."""
    lines: Iterable[tuple[Path, int]] = (
        (path, line) for path in files.files_of(task.definition) for line, _ in rows_of(path, None)
    )
    wanted, last = set(numbers), max(numbers, default=-1)
    first = itertools.islice(lines, last + 1)
    return {number: f"{path.name}:{line}" for number, (path, line) in enumerate(first) if number in wanted}


def say_on_stderr(text: str) -> None:
    """A line for the node's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
