"""What is refused of settings that were read in a shared place, where anybody may have written them."""

from __future__ import annotations

from swarm.config.settings import FUNCTIONS, variable
from swarm.config.sources import Given
from swarm.errors import ConfigError

MOST = {
    "local_groups": 64,
    "external_groups": 256,
    "generations": 64,
    "max_rounds": 1_000_000,
    "max_new_tokens": 32_768,
    "max_file_bytes": 2**28,
    "pool_bytes": 2**31,
}
"""The largest values that are taken; who wants more says so."""


def refuse_unsafe(found: Given) -> None:
    """See that no setting of a shared place is beyond what is taken from one, or names code to import.

    Raises:
        ConfigError: one is.
    """
    _refuse_too_much(found)
    _refuse_foreign_code(found)


def _refuse_too_much(found: Given) -> None:
    for name, most in MOST.items():
        value, source = found.get(name, (0, ""))
        if isinstance(value, int | float) and value > most:
            raise ConfigError(
                f"{variable(name)} ({name}) = {value} from {source} is more than the {most} that a node takes from a "
                f"folder that anybody may write to: if it is meant, say {variable(name)}={value} yourself"
            )


def _refuse_foreign_code(found: Given) -> None:
    """Who can write there could choose it."""
    for name in (*FUNCTIONS, "task_families"):
        value, source = found.get(name, ("", ""))
        texts = value if isinstance(value, list | tuple) else [value]
        if own := next((text for text in texts if ":" in str(text)), None):
            raise ConfigError(
                f"{variable(name)} ({name}) = {own!r} from {source} names code of its user's own, and what is read in "
                f"a shared folder is never imported: if you know that code, say {variable(name)}={own} yourself"
            )
