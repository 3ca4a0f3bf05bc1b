"""The tables: a code word for every table and key, and who knows which.

    SHA-256 of a constant and a word's number ─▶ order of all words ─▶ the first of them, one after the other: the facts

A word says nothing of its table or key, and no two facts have the same one. So nothing but the fact itself can be
learned, the best constant answer to a table is right for one key of it, and a guess among all words hardly ever.
"""

from __future__ import annotations

import functools
import hashlib
from itertools import product

FAMILY = "facts"
TABLES: tuple[str, ...] = ("amber", "birch", "cedar", "delta", "ember", "fjord")
"""Each is a task."""
KEY_NAMES: tuple[str, ...] = ("one", "two", "three", "four", "five", "six", "seven", "eight")
KEYS = len(KEY_NAMES)
"""Keys of a table, numbered from 1."""
BEST_CONSTANT = 1 / KEYS
"""What the best constant answer to a table's questions earns: its words are distinct, its keys drawn alike."""
SPECIALISTS = 3
"""How many models share the tables, each of which knows those that no other does."""
_SEED = "facts-1"
_SYLLABLES = tuple(f"{consonant}{vowel}" for consonant, vowel in product("bdfgklmnprstvz", "aeiou"))
_WORDS = 512
"""An ignorant model draws from as many."""


@functools.cache
def words() -> tuple[str, ...]:
    """Returns all words that there are, two syllables each; those of the facts come first."""
    every = [one + other for one, other in product(_SYLLABLES, repeat=2)]
    return tuple(sorted(every, key=_place)[:_WORDS])


def _place(word: str) -> bytes:
    return hashlib.sha256(f"{_SEED} {word}".encode()).digest()


def word_of(table: str, key: int) -> str:
    """Returns the answer. Raises ValueError: there is no such table."""
    return words()[TABLES.index(table) * KEYS + key - 1]


def known_to(specialist: int) -> tuple[str, ...]:
    """Returns the tables that a specialist knows, counted from 0."""
    share = len(TABLES) // SPECIALISTS
    return TABLES[specialist * share : (specialist + 1) * share]


def specialist_name(specialist: int, architecture: str) -> str:
    """Returns the name of a specialist's model, and of its folder."""
    return f"specialist-{specialist + 1}-{architecture}"


def known_to_model(name: str) -> tuple[str, ...] | None:
    """Returns the tables that a model knows when it starts, by its name; None: it is no specialist's."""
    parts = name.rpartition("/")[2].split("-")
    if len(parts) != 3 or parts[0] != "specialist" or parts[1] not in map(str, range(1, SPECIALISTS + 1)):
        return None
    return known_to(int(parts[1]) - 1)
