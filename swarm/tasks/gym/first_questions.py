"""Checks whether the first questions of a definition can be made and scored within the limits of a scoring child.

A definition comes from whoever began the experiment, a stranger to most nodes, and its sizes may be meant to hang a
server or to fill it. So a server makes none of its questions before children have made TRIALS of them.
"""

from __future__ import annotations

import functools
import time

import msgspec

from swarm.errors import ConfigError
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


class Outcome(msgspec.Struct, frozen=True):
    seconds: float = 0.0
    prompt: int = 0
    """Characters."""
    problem: str = ""
    """What was raised."""


def check(definition: GymDefinition) -> None:
    """Make the first questions. Raises ConfigError."""
    made = 0
    while made < TRIALS:
        found = _outcomes(definition, range(made, TRIALS))
        if problem := next(filter(None, map(_problem, found)), None if found else _UNFINISHED):
            raise _refused(definition, problem)
        made += len(found)


_UNFINISHED = (
    f"a question needs more than {LIMITS.cpu_s} s of processor time, {LIMITS.wall_s:g} s or "
    f"{LIMITS.memory_bytes >> 20} MiB, or files, imports or programs, which are closed to it"
)


def _problem(found: Outcome) -> str | None:
    if found.problem:
        return f"reasoning-gym says: {found.problem}"
    if found.seconds > MOST_CPU_S:
        return f"a question takes {found.seconds:.2f} s of processor time, more than {MOST_CPU_S} s"
    if found.prompt > LONGEST_PROMPT:
        return f"a question has {found.prompt:,} characters, more than {LONGEST_PROMPT:,}"
    return None


def _refused(definition: GymDefinition, problem: str) -> ConfigError:
    how = ", ".join(f"{key}={value!r:.40}" for key, value in definition.options.items())
    return malformed(
        definition.name,
        f"{problem}; asked was {definition.dataset}({how:.300}): take smaller sizes, or another dataset",
    )


def _outcomes(definition: GymDefinition, seeds: range) -> list[Outcome]:
    """Returns what a bounded child found before it came to its end, or to that of its limits."""
    frames = run_bounded(functools.partial(_try, definition, seeds), LIMITS)
    return [msgspec.msgpack.decode(frame, type=Outcome) for frame in frames]


def _try(definition: GymDefinition, seeds: range, emit: Emit) -> None:
    sandbox.enter()
    for seed in seeds:
        begun = time.process_time()
        found = _tried(definition, seed)
        emit(msgspec.msgpack.encode(msgspec.structs.replace(found, seconds=time.process_time() - begun)))


def _tried(definition: GymDefinition, seed: int) -> Outcome:
    try:
        made = entry(definition, seed)
        found = made[1]
        msgspec.msgpack.encode(plain(found["metadata"]))
        score(definition, made, found["answer"] or "")
    except Exception as error:  # noqa: BLE001 - the boundary: what the library raises at these parameters
        return Outcome(problem=f"{type(error).__name__}: {error!s:.300}")
    return Outcome(prompt=len(found["question"]))
