"""Finds which variable of the owner's family a name that nobody knows was meant for. Pure.

SWARM_ names are ours alone, so any unknown one is refused (swarm.config.sources). MODEL_NAME and its kin stand among
the variables of everything else on a machine (NODE_VERSION, NODE_IP, MODEL_PATH, HUGGINGFACE_TOKEN), so only what
hardly another program's would be called is taken for a slip:

    known name of     first word     slips of the pen
    16 or more        any            2 at most: COORDINATR_ROUND_INTERVALL
    10 to 15          the same       1: MAX_ROUND, MODEL_NAMES
    9 or fewer        -              none: NODE_IP is no NODE_ID, SEEDS no SEED
    OURS, any length  the same       one word left out or added: ADAPTIVE_ALPHA

A slip is a letter too many, too few, another one, or two that have changed places. Secrets are left out: the names of
tokens are much alike, and each belongs to some tool.
"""

from __future__ import annotations

from swarm.config.constraints import PREFIX
from swarm.config.environment import RETIRED
from swarm.config.settings import FIELDS

OURS = ("ADAPTIVE", "COORDINATOR", "ROLLOUT")
"""First words that hardly any other program's variables have."""
_OWNERS = {name: f.metadata["secret"] for f in FIELDS.core.values() for name in f.metadata["env"] if name[:6] != PREFIX}
"""Variable -> whether it is a secret."""
_FAMILY = tuple(name for name, is_secret in _OWNERS.items() if not is_secret)


def meant(name: str) -> str | None:
    """Returns the variable that was meant by a name that is none; None: it is somebody else's."""
    if name.startswith(PREFIX) or name in _OWNERS or name in RETIRED:
        return None
    close = (known for known in _FAMILY if _is_slip(name, known))
    return min(close, key=lambda known: slips(name, known), default=None)


def _is_slip(name: str, known: str) -> bool:
    (first, *words), (known_first, *known_words) = name.split("_"), known.split("_")
    if first == known_first and first in OURS and 1 in (_more(words, known_words), _more(known_words, words)):
        return True
    allowed = 2 if len(known) >= 16 else 1 if len(known) >= 10 and first == known_first else 0
    return abs(len(name) - len(known)) <= allowed and slips(name, known) <= allowed


def _more(words: list[str], others: list[str]) -> int:
    """Returns by how many words `words` is more than `others`, which are among them in their order; 0: they are not."""
    rest = iter(words)
    return len(words) - len(others) if others and all(word in rest for word in others) else 0


def slips(text: str, other: str) -> int:
    """Letters too many, too few, or other ones, and neighbours that have changed places, between two texts (the
    restricted Damerau-Levenshtein distance)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(text, 1):
        row = [i]
        for j, theirs in enumerate(other, 1):
            best = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != theirs))
            if i > 1 and j > 1 and letter == other[j - 2] and theirs == text[i - 2]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
