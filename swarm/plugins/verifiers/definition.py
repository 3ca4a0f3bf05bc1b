"""The parameters of one task, checked without importing anything of its environment."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from swarm.tasks.definitions import Parameters, malformed, refuse_unknown
from swarm.types import MOST_TURNS

KEY = "verifiers"
MOST_ROWS = 100_000
_ID = re.compile(r"([A-Za-z0-9_-]+/)?[A-Za-z0-9_-]+(@[A-Za-z0-9_.+-]+)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class VerifiersDefinition(msgspec.Struct, frozen=True):
    """One task: which environment, at which settings."""

    name: str
    id: str
    """Name of a package that exports a Taskset, as `verifiers` finds it."""
    args: dict[str, Any] = {}
    """Arguments of the taskset's configuration, `--env.taskset.*` of the library's own command."""
    env: dict[str, Any] = {}
    """Arguments of the environment's, `--env.*`."""
    turns: int = 0
    """Turns of the model, at most; 0: what the agent's `max_turns` says."""
    rows: int = 0
    """So many of the taskset's first tasks; 0: all, and of an endless taskset ENDLESS_ROWS."""
    held_out: float = 0.0
    """Share of the rows that judges and exams alone ask."""
    best: float = 0.0
    """What the best episode earns; 0: the sum of the positive weights of its rewards."""
    source_sha256: str = ""
    """SHA-256 of the package's Python files."""
    sha256: str = ""
    """SHA-256 of the rows."""

    @property
    def known(self) -> bool:
        """Tells whether both digests are there."""
        return bool(self.sha256 and self.source_sha256)


def read_definition(name: str, parameters: Parameters) -> VerifiersDefinition:
    """Returns the definition that a table is. Raises ConfigError."""
    keys = {field for field in VerifiersDefinition.__struct_fields__ if field not in ("name", "id")}
    refuse_unknown(name, parameters, keys)
    known = {key: value for key, value in parameters.items() if key in keys}
    try:
        found = msgspec.convert({"name": name, "id": parameters[KEY], **known}, VerifiersDefinition, strict=True)
    except msgspec.ValidationError as error:
        raise malformed(name, str(error)) from None
    for problem in _problems(found):
        raise malformed(name, problem)
    return found


def _problems(found: VerifiersDefinition) -> list[str]:
    digests = {"sha256": found.sha256, "source_sha256": found.source_sha256}
    checks = {
        f"verifiers must be the id of an installed environment, such as wordle or owner/wordle, got {found.id!r:.80}": (
            _ID.fullmatch(found.id)
        ),
        f"turns must be 1 to {MOST_TURNS}, got {found.turns}": 0 <= found.turns <= MOST_TURNS,
        f"rows must be 1 to {MOST_ROWS}, got {found.rows}": 0 <= found.rows <= MOST_ROWS,
        f"held_out must be a share, 0 <= held_out < 1, got {found.held_out}": 0 <= found.held_out < 1,
        f"best must be a number above 0, got {found.best}": 0 <= found.best < float("inf"),
        "id of the taskset is what `verifiers` says, got args.id": "id" not in found.args,
        "the taskset's settings stand in args, got env.taskset": "taskset" not in found.env,
        **{
            f"{key} must be 64 hexadecimal digits, got {value!r:.80}": not value or _SHA256.fullmatch(value)
            for key, value in digests.items()
        },
    }
    return [problem for problem, fine in checks.items() if not fine]
