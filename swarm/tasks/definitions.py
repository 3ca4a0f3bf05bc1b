"""Tasks that a run defines for itself: a name, the family that asks them, and its parameters; part of the experiment.

    [tasks.chain_sum]                a table of the settings file, read by who begins the run
    max_terms = 4
         │ complete                  sizes checked, files found and hashed, by the family
         ▼
    experiment.json ─▶ every node    the same table, files by name and SHA-256
         │ define
         ▼
    Families ─▶ Origin.profile       the digest of family, name and parameters: another parameter, file or source is
                                     another profile, and its questions are refused

Parameters are the experiment's, never a peer's: an origin names a task and this digest, nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swarm.config.own_code import plain
from swarm.config.task_table import FILE_KEYS, MOST_WEIGHT, WEIGHT, is_weight, recorded
from swarm.config.task_table import Parameters as Parameters
from swarm.errors import ConfigError
from swarm.spelling import did_you_mean
from swarm.types import FIRST_FAMILY, full_task

FAMILY_OF_KEY = {
    "gym": FIRST_FAMILY,
    "dataset": "dataset",
    "python": "python",
    "verifiers": "verifiers",
}
"""Which family asks a defined task: the one whose key its table has; with none it is reasoning-gym's of that name."""
SETTING = "[tasks.{}]"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PREFIX = "own-"


def family_of(name: str, parameters: Parameters) -> str:
    """Returns the family of a defined task. Raises ConfigError: it has keys of two."""
    keys = [key for key in FAMILY_OF_KEY if key in parameters]
    if len(keys) > 1:
        raise malformed(name, f"expected one of {', '.join(FAMILY_OF_KEY)}, got {' and '.join(keys)}")
    return FAMILY_OF_KEY[keys[0]] if keys else FIRST_FAMILY


def full_name(name: str, parameters: Parameters) -> str:
    """Returns a defined task's name among those of all families."""
    return full_task(family_of(name, parameters), name)


def profile_of(name: str, parameters: Parameters) -> str:
    """Returns the text that stands for the definition in an origin: `own-` and 16 hexadecimal digits."""
    asked = {key: value for key, value in recorded(parameters).items() if key not in (WEIGHT, *FILE_KEYS)}
    text = msgspec.json.encode([family_of(name, parameters), name, plain(asked)], order="deterministic")
    return _PREFIX + hashlib.sha256(text).hexdigest()[:16]


def is_defined(profile: str) -> bool:
    """Tells whether a profile is a definition's digest, and none of the names that come with a family."""
    return profile.startswith(_PREFIX)


def check(name: str, parameters: Parameters) -> None:
    """See that a table can be a definition, whatever its family makes of it. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise malformed(name, "expected a name of letters, digits, '_', '-' and '.', 64 at most")
    if not is_weight(weight := parameters.get(WEIGHT, 1)):
        raise malformed(name, f"{WEIGHT} must be a number above 0, up to {MOST_WEIGHT:g}, got {weight!r:.80}")
    for key in FILE_KEYS:
        if key in parameters and not isinstance(parameters[key], str):
            raise malformed(name, f"{key} must be a path, got {parameters[key]!r:.80}")
    family_of(name, parameters)
    try:
        msgspec.msgpack.encode(plain(parameters))
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise malformed(name, f"expected whole numbers of 64 bits, and values as JSON has them: {error}") from None


def refuse_unknown(name: str, parameters: Parameters, known: Mapping[str, object] | set[str]) -> None:
    """Refuse parameters that a family does not have. Raises ConfigError."""
    for key in parameters:
        if key not in known and key not in (WEIGHT, *FAMILY_OF_KEY):
            raise malformed(name, f"unknown parameter {key!r}{did_you_mean(key, [*known], '')}")


def refuse_other(name: str, what: str, wanted: str, got: str) -> None:
    """Refuse a file that has another digest than the definition says. Raises ConfigError."""
    if wanted != got:
        raise malformed(
            name,
            f"{what} has SHA-256 {got}, expected {wanted}; get the file that the run began with; "
            "to begin a run of your own with this one, leave sha256 out",
        )


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def malformed(name: str, problem: str) -> ConfigError:
    """Returns the error of a definition that cannot be used."""
    return ConfigError(f"{SETTING.format(name)}: {problem}")
