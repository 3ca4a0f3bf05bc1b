"""A moment as people name one: so long ago, or a time of ISO 8601. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from swarm.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])"
_DURATION = re.compile(rf"(?:{_PART})+")

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def moment(text: str, now: float, asked_by: str) -> float:
    """Unix seconds of `10m`, `1h30m` or `2d` before now, or of a time such as `2026-07-01T12:30Z`.

    Args:
        now: Unix seconds.
        asked_by: the flag, for the message.

    Raises:
        ConfigError: it is neither.
    """
    clean = text.strip()
    if _DURATION.fullmatch(clean):
        return now - sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, clean))
    try:
        if not _DATE.match(clean):
            raise ValueError(clean)
        return datetime.fromisoformat(clean).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{asked_by} {text[:80]!r}: expected how long ago, such as 90s, 10m, 1h30m, 2d or 1w, or a time of "
            "ISO 8601, such as 2026-07-01, 2026-07-01T12:30 or 2026-07-01T12:30:00Z"
        ) from None
