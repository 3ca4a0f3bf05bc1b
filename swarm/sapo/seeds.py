"""Every random choice of a run is a function of the run's seed and of what is being chosen.

So nothing has to be remembered across a restart: a node that comes back draws for round 17 what it would have drawn.
"""

from __future__ import annotations

import hashlib
import random

RUN_SEED_LIMIT = 2**30
"""Derived seeds are below this; the warm-up of the embedded models trains on question seeds from here upwards."""


def derive_seed(run_seed: int, *purpose: str | int) -> int:
    """A seed in [0, RUN_SEED_LIMIT) for one purpose, such as ("question", node, round, slot); always the same one."""
    text = "\x1f".join([str(run_seed), *(f"{type(part).__name__}:{part}" for part in purpose)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % RUN_SEED_LIMIT


def derive_random(run_seed: int, *purpose: str | int) -> random.Random:
    """A generator of its own for one purpose."""
    return random.Random(derive_seed(run_seed, *purpose))
