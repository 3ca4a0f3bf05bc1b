"""Makes the Trust that the `signing` setting asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from pathlib import Path

from swarm.extras import lacking
from swarm.wire.trust import TRUSTING, Trust


def make_trust(
    signing: str,
    key_folder: Path,
    shared_folder: Path | str,
    experiment: str,
    born: Callable[[], str | None] = lambda: None,
    wall: Callable[[], float] = time.time,
    *,
    expected: Set[str] = frozenset(),
) -> Trust:
    """Makes what a node does about signatures.

    Args:
        signing: `off`, `on` or `require`.
        born: reads the experiment's id, empty where it has none; None: nobody has begun it yet.
        wall: Unix seconds.
        expected: public keys of others that, as the own one, come before whoever was first seen under a name.

    Raises:
        ConfigError: there is no key, or the extra is not installed.
        ExperimentError: the experiment is another one than this machine began in.
    """
    if signing == "off":
        return TRUSTING
    try:
        from swarm.signing.signatures import Signatures
    except ModuleNotFoundError:
        raise lacking("SWARM_SIGNING", "cryptography", "signing", "leave signing off") from None
    required = signing == "require"
    return Signatures(key_folder, shared_folder, experiment, born, wall, required=required, expected=expected)
