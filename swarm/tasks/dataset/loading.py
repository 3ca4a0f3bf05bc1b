"""Loads the rows of a task: reads its files, checks every row, and parts those of training from held-out ones.

A question's text is made of a row by the name of a column, or by a text with columns in braces:

    question = "prompt"                        the column prompt
    question = "{question}\\n{choices}"         two columns; {{ and }} are braces

Text is put in as it is. A list becomes lines, "A. ", "B. " before them; all else is JSON.
"""

from __future__ import annotations

import array
import hashlib
import re
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swarm.tasks.dataset import files
from swarm.tasks.dataset.definition import DatasetDefinition
from swarm.tasks.dataset.reading import EXAMPLE, PackedRows, UnreadableError, rows_of
from swarm.tasks.dataset.scorers import CUSTOM, ScorerFunctions, ScorerRow, number
from swarm.tasks.definitions import malformed

ROWS_LIMIT = 1_000_000
MOST_FITTED = 20_000
"""Rows by whose answers a scorer is chosen."""
QUESTION_LIMIT = 20_000
"""Characters."""
MOST_FILLED = 10 * QUESTION_LIMIT
"""Characters at which the filling of a template ends, so that the length that is said is mostly the whole one."""
ROW_LIMIT = 200_000
"""Bytes of what is kept of a row, packed."""
_SHARES = 2**64
_PART = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")


class LoadedTask(NamedTuple):
    """A task, ready to be asked."""

    definition: DatasetDefinition
    rows: PackedRows
    training: array.array[int]
    """Numbers of the rows that runs ask."""
    held_out: array.array[int]
    """Numbers of those that judges and exams ask: the same where none are held out."""
    scorer: ScorerFunctions

    def row(self, number: int) -> ScorerRow:
        return as_row(self.definition, self.rows[number])

    def own(self, number: int) -> str:
        return self.scorer.own(self.row(number))


def load(definition: DatasetDefinition) -> LoadedTask:
    """Returns all rows of a task. Raises ConfigError naming the file and the line of what is wrong."""
    files.require(definition)
    scorer, training, held_out = _scorer(definition), array.array("L"), array.array("L")

    def packed() -> Iterator[bytes]:
        for count, (prompt, row) in enumerate(_checked_rows(definition, scorer)):
            (held_out if is_held_out(prompt, definition.held_out) else training).append(count)
            yield row

    with _named(definition):
        rows = PackedRows(packed())
    if not len(rows):
        raise malformed(definition.name, f"{definition.path} has no rows")
    if definition.held_out and not (training and held_out):
        missing = "held out" if training else "left to train on"
        raise malformed(
            definition.name,
            f"none of {len(rows)} rows is {missing} at held_out = {definition.held_out}; take another share",
        )
    return LoadedTask(definition, rows, training, held_out or training, scorer)


def fitting(definition: DatasetDefinition) -> str:
    """Returns the scorer that fits the answers of the first rows: `number` where all are numbers, else `exact`.

    Raises:
        ConfigError: a row cannot be asked; names the file, the line, and what was expected.
    """
    with _named(definition):
        packed = islice(_checked_rows(definition, _scorer(definition)), MOST_FITTED)
        rows = [as_row(definition, msgspec.msgpack.decode(row)) for _, row in packed]
    with suppress(ValueError):
        for row in rows:
            number.wanted(row)
        return "number"
    return "exact"


@contextmanager
def _named(definition: DatasetDefinition) -> Iterator[None]:
    """Raises ConfigError, which names the task, where a file of it cannot be read."""
    try:
        yield
    except UnreadableError as error:
        raise malformed(definition.name, str(error)) from None
    except OSError as error:
        raise malformed(definition.name, f"cannot read {definition.path}: {error}") from None


def as_row(definition: DatasetDefinition, columns: Mapping[str, Any]) -> ScorerRow:
    """Makes the row that a scorer sees of the columns. Raises ValueError: the answer lacks `answer_after`."""
    truth = columns[definition.answer]
    if definition.answer_after:
        _, mark, after = (truth if isinstance(truth, str) else "").rpartition(definition.answer_after)
        if not mark:
            raise ValueError(f"{definition.answer!r} holds no {definition.answer_after!r} (answer_after)")
        truth = after.strip()
    return ScorerRow(columns, truth, definition.options)


def is_held_out(prompt: str, share: float) -> bool:
    """Tells by the question's text alone whether it is held out, so that rows that ask the same are on one side."""
    digest = hashlib.sha256(prompt.encode()).digest()[:8]
    return int.from_bytes(digest) < share * _SHARES


def _checked_rows(definition: DatasetDefinition, scorer: ScorerFunctions) -> Iterator[tuple[str, bytes]]:
    """Yields the question of each row of all files, and the row, packed. Raises UnreadableError."""
    needed = needed_columns(definition)
    rows = ((path, *row) for path in files.files_of(definition) for row in rows_of(path, needed))
    for count, (path, line, columns) in enumerate(rows):
        if count >= ROWS_LIMIT:
            raise UnreadableError(f"{path}:{line}: more than {ROWS_LIMIT} rows")
        kept = columns if needed is None else _kept(columns, needed, path, line)
        try:
            packed = msgspec.msgpack.encode(kept)
            if len(packed) > ROW_LIMIT:
                raise ValueError(f"the row has more than {ROW_LIMIT} bytes")
            prompt = fill(definition.question, kept, MOST_FILLED)
            if not 0 < len(prompt.strip()) <= len(prompt) <= QUESTION_LIMIT:
                raise ValueError(f"the question has {len(prompt)} characters, expected 1 to {QUESTION_LIMIT}")
            scorer.check(as_row(definition, kept))
        except OverflowError:
            problem = "a whole number of more than 64 bits; write it as a text"
            raise UnreadableError(f"{path}:{line}: {problem}") from None
        except ValueError as error:
            raise UnreadableError(f"{path}:{line}: {error}") from None
        yield prompt, packed


def _scorer(definition: DatasetDefinition) -> ScorerFunctions:
    """Returns the scorer, prepared."""
    if definition.kind is CUSTOM:
        from swarm.tasks.dataset.scorers import custom

        return custom.load(definition)
    module, _, name = definition.kind.functions.partition(":")
    found: ScorerFunctions = getattr(import_module(module), name)
    found.prepare()
    return found


def needed_columns(definition: DatasetDefinition) -> tuple[str, ...] | None:
    """Returns columns that questions and scores are made of; None: all, which a function of the user's is given."""
    if definition.kind is CUSTOM:
        return None
    named = (definition.options[option] for option in definition.kind.columns if option in definition.options)
    return tuple(dict.fromkeys((*columns_of(definition.question), definition.answer, *named)))


def _kept(columns: Mapping[str, Any], needed: tuple[str, ...], path: Path, line: int) -> dict[str, Any]:
    for name in needed:
        if name not in columns:
            raise UnreadableError(
                f"{path}:{line}: expected the column {name!r:.80}, got {', '.join(columns)!r:.300}; a line is such as "
                f'{EXAMPLE}; other columns are named in a settings file: question = "..." and answer = "..." in '
                "[tasks.NAME] (docs/tasks.md)"
            )
        if columns[name] is None:
            raise UnreadableError(f"{path}:{line}: the column {name!r:.80} is null; leave such rows out")
    return {name: columns[name] for name in needed}


def columns_of(template: str) -> tuple[str, ...]:
    """Returns the columns that a template needs, each once."""
    if "{" not in template:
        return (template,)
    return tuple(dict.fromkeys(found[1] for found in _PART.finditer(template) if found[1]))


def fill(template: str, row: Mapping[str, Any], most: int = MOST_FILLED) -> str:
    """Returns the text. Raises ValueError: it is longer than `most`, however often a template repeats a long column."""
    if "{" not in template:
        return text_of(row[template])
    size = len(template)

    def part(found: re.Match[str]) -> str:
        nonlocal size
        text = text_of(row[found[1]]) if found[1] else found[0][0]
        if (size := size + len(text) - len(found[0])) > most:
            raise ValueError(f"the question has more than {most} characters")
        return text

    return _PART.sub(part, template)


def text_of(value: Any) -> str:
    """Returns the text that stands for a column's value in a question."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) <= len(string.ascii_uppercase):
        return "\n".join(
            f"{letter}. {text_of(item)}" for letter, item in zip(string.ascii_uppercase, value, strict=False)
        )
    return msgspec.json.encode(value).decode()
