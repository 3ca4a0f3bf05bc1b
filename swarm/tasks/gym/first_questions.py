"""Checks whether the first questions of a definition can be made and scored within the limits of a scoring child.

A definition comes from whoever began the experiment, a stranger to most nodes, and its sizes may be meant to hang a
server or to fill it. So a server makes none of its questions before children have made TRIALS of them.
"""

from __future__ import annotations

import functools
import time

import msgspec

from swarm.tasks import sandbox
from swarm.tasks.bounded import Emit, Limits, run_bounded
from swarm.tasks.definitions import malformed
from swarm.tasks.gym.entries import GymDefinition, entry, plain, score

TRIALS = 12
MOST_CPU_S = 0.7
"""Share of the second that a child has: other nodes may be slower."""
LONGEST_PROMPT = 50_000
"""Characters."""
LIMITS = Limits()


_UNFINISHED = (
    f"a question needs more than {LIMITS.cpu_s} s of processor time, {LIMITS.wall_s:g} s or "
    f"{LIMITS.memory_bytes >> 20} MiB, or files, imports or programs, which are closed to it"
)


def check(definition: GymDefinition) -> None:
    """Make the first questions. Raises ConfigError."""
    made = 0
    while made < TRIALS:
        frames = run_bounded(functools.partial(_try, definition, range(made, TRIALS)), LIMITS)
        if problem := next(filter(None, frames), b"" if frames else _UNFINISHED.encode()):
            how = ", ".join(f"{key}={value!r:.40}" for key, value in definition.options.items())
            asked = f"asked was {definition.dataset}({how:.300}): take smaller sizes, or another dataset"
            raise malformed(definition.name, f"{problem.decode(errors='replace')}; {asked}")
        made += len(frames)


def _try(definition: GymDefinition, seeds: range, emit: Emit) -> None:
    """Emits what is wrong with each question, empty where nothing is; in a bounded child, until its limits end it."""
    sandbox.enter()
    for seed in seeds:
        emit(_problem(definition, seed).encode(errors="replace"))


def _problem(definition: GymDefinition, seed: int) -> str:
    begun = time.process_time()
    try:
        made = entry(definition, seed)
        found = made[1]
        msgspec.msgpack.encode(plain(found["metadata"]))
        score(definition, made, found["answer"] or "")
    except Exception as error:  # noqa: BLE001 - the boundary: what the library raises at these parameters
        return f"reasoning-gym says: {type(error).__name__}: {error!s:.300}"
    if (seconds := time.process_time() - begun) > MOST_CPU_S:
        return f"a question takes {seconds:.2f} s of processor time, more than {MOST_CPU_S} s"
    if (characters := len(found["question"])) > LONGEST_PROMPT:
        return f"a question has {characters:,} characters, more than {LONGEST_PROMPT:,}"
    return ""
