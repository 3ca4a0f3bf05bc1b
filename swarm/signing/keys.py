"""This user's own key, in a file of this machine that nobody else can read."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from swarm.errors import ConfigError
from swarm.signing.known_keys import read_regular

KEY_FILE = "key.pem"
LARGEST_KEY = 64 * 1024
"""Bytes; one has some 120."""


def make_key(folder: Path) -> Ed25519PrivateKey:
    """Make a key and write it, readable for this user alone.

    Raises:
        ConfigError: there is one already, which is left as it is, or the folder cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = folder / KEY_FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(pem)
            os.fsync(stream.fileno())
    except FileExistsError:
        raise ConfigError(
            f"{file} is there already, and peers may know this node by it; move it away to make another"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}; name another SWARM_KEY_FOLDER") from None
    return key


def load_key(folder: Path) -> Ed25519PrivateKey:
    """Returns the key that `make_key` wrote.

    Raises:
        ConfigError: there is none, it is damaged, or others may read it.
    """
    file = folder / KEY_FILE
    try:
        mode, pem = file.stat().st_mode, read_regular(file, LARGEST_KEY)
    except FileNotFoundError:
        raise ConfigError(f"there is no key {file} to sign with: make one with `swarm keys new`") from None
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigError(f"{file} can be read by others (mode {mode & 0o777:o}): `chmod 600 {file}`")
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{file} holds no private key without a password: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{file} holds a key of another kind; expected Ed25519, as `swarm keys new` makes it")
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """Returns the public key as peers see it: base64 of 32 bytes."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
