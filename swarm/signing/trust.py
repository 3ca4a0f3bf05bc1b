"""Makes the Trust that the `signing` setting asks for."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from swarm.extras import lacking
from swarm.wire.trust import TRUSTING, Trust


def make_trust(
    signing: str, key_folder: Path, shared_folder: Path | str, experiment: str, expected: Set[str] = frozenset()
) -> Trust:
    """What a node does about signatures.

    Args:
        signing: `off`, `on` or `require`.
        expected: public keys of others that, as the own one, come before whoever was first seen under a name.

    Raises:
        ConfigError: there is no key, or the extra is not installed.
    """
    if signing == "off":
        return TRUSTING
    try:
        from swarm.signing.signatures import Signatures
    except ModuleNotFoundError:
        raise lacking("SWARM_SIGNING", "cryptography", "signing", "leave signing off") from None
    return Signatures(key_folder, shared_folder, experiment, required=signing == "require", expected=expected)
