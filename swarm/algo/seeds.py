"""Derives seeds and random generators from the run's seed and a purpose, by hashing.

So nothing has to be remembered across a restart: a node that comes back draws for round 17 what it would have drawn.
"""

from __future__ import annotations

import hashlib
import random

RUN_SEED_LIMIT = 2**30
"""Derived seeds are below this; the warm-up of the embedded models trains on question seeds from here upwards."""
HELD_OUT_SEEDS = (2**31 - 2**20, 2**31)
"""Half-open range of the question seeds that only a judge asks; no run draws them.

The warm-up of an embedded model drew some 220,000 seeds evenly from 2**30 to 2**31, so it has read a given held-out
question with a chance of 1 in 4,900. (Small tasks have few distinct questions, and repeat some by their text.)
"""


def derive_seed(run_seed: int, *purpose: str | int) -> int:
    """Returns a seed in [0, RUN_SEED_LIMIT) for one purpose, such as ("question", node, round, slot); always the same
    one."""
    text = purpose_text(run_seed, *purpose)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % RUN_SEED_LIMIT


def purpose_text(run_seed: int, *purpose: str | int) -> str:
    """Returns the text that is hashed for one purpose: no two purposes share one."""
    return "\x1f".join([str(run_seed), *(f"{type(part).__name__}:{part}" for part in purpose)])


def derive_random(run_seed: int, *purpose: str | int) -> random.Random:
    """Returns a generator of its own for one purpose."""
    return random.Random(derive_seed(run_seed, *purpose))


def held_out_seed(seed: int, *purpose: str | int) -> int:
    """Returns a question seed in HELD_OUT_SEEDS for one purpose; always the same one."""
    first, end = HELD_OUT_SEEDS
    return first + derive_seed(seed, *purpose) % (end - first)
