"""Extracts the answer of a completion, the text of its last closed `<answer>...</answer>` pair, and a question's key.

Pure and linear in the text's length: a completion of megabytes of tags costs a few scans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swarm.instruction import END_TAG, TAG, last_pair

OPEN_TAG, CLOSE_TAG = TAG, END_TAG
ANSWER_LIMIT = 2_000
"""Longest answer that is handed to a scorer, in characters; the nine tasks' true answers are far shorter."""
_EXAMPLES = ("example_answer", "possible_answer", "example_correct_answer")
"""Where a question's metadata has one of several right answers."""


def key_of(answer: str | None, metadata: Mapping[str, Any]) -> str | None:
    """Returns a question's right answer, or one of several from its metadata; None where it tells none."""
    found = answer
    if found is None:
        found = next((metadata[name] for name in _EXAMPLES if metadata.get(name) is not None), None)
    return found if found is None or isinstance(found, str) else json.dumps(found)


def has_answer(text: str) -> bool:
    """Tells whether the text holds a closed <answer>...</answer> pair, whatever is in it."""
    return last_pair(text) is not None


def extract_answer(text: str) -> str | None:
    """Returns the stripped text of the last closed pair.

    Returns None, which is scored 0.0 without asking the task's scorer, where there is no closed pair, where the answer
    is longer than ANSWER_LIMIT, and where it is no valid Unicode (a lone surrogate, which no tokenizer writes).
    """
    pair = last_pair(text)
    if pair is None:
        return None
    answer = text[slice(*pair)].strip()
    return answer if len(answer) <= ANSWER_LIMIT and is_unicode(answer) else None


def before_answer(text: str) -> str:
    """Returns the text before the last closed pair; all of the text where there is none."""
    pair = last_pair(text)
    return text if pair is None else text[: pair[0] - len(TAG)]


def is_unicode(text: str) -> bool:
    """Tells whether it can be written down: no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
