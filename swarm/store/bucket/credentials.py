"""Finds the credentials of S3 again and again, where obstore does not: short-lived ones are renewed while a node runs.

    AWS_ACCESS_KEY_ID ... in the environment ─▶ read again every READ_EVERY seconds
    a profile with keys in ~/.aws            ─▶ its files are read again so often, as `aws sso` and others rewrite them
    a profile with `credential_process`      ─▶ the program is run again shortly before what it gave expires
    none of them                             ─▶ obstore: web identity, the role of a container or machine, renewed there

The program of a profile is the user's own, in the user's own file; AWS CLI and SDKs run it alike.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping
from configparser import ConfigParser, Error
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import S3Credential

READ_EVERY = timedelta(minutes=1)
BEFORE_THE_END = timedelta(minutes=2)
"""So long before credentials expire a program is asked for new ones."""
_PATIENCE = 60.0
"""Seconds that the program of a profile may take."""
_BY_OBSTORE = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Variables by which obstore finds and renews credentials itself."""
_KEY, _SECRET, _TOKEN = "aws_access_key_id", "aws_secret_access_key", "aws_session_token"


def now() -> datetime:
    return datetime.now(UTC)


class Credentials:
    """Gives obstore the credentials that are there now."""

    def __init__(self, environ: Mapping[str, str], now: Callable[[], datetime] = now) -> None:
        self._environ = environ
        self._now = now

    def __call__(self) -> S3Credential:
        """Raises StoreError: there are none."""
        environ = self._environ
        if environ.get("AWS_ACCESS_KEY_ID"):
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            return self._for_a_while(*(environ.get(name, "") for name in names))
        found = profile(environ)
        if found.get(_KEY):
            return self._for_a_while(*(found.get(name, "") for name in (_KEY, _SECRET, _TOKEN)))
        if program := found.get("credential_process"):
            return self._of_a_program(program)
        raise StoreError("the profile of AWS_PROFILE has no keys any more, and no credential_process")

    def _for_a_while(self, key: str, secret: str, token: str) -> S3Credential:
        end = self._now() + READ_EVERY
        return {"access_key_id": key, "secret_access_key": secret, "token": token or None, "expires_at": end}

    def _of_a_program(self, program: str) -> S3Credential:
        failed = f"the profile's credential_process {program.split(maxsplit=1)[0]!r}"
        try:
            ran = subprocess.run(shlex.split(program), capture_output=True, timeout=_PATIENCE, check=True)
            said: dict[str, Any] = json.loads(ran.stdout)
            until = said.get("Expiration")
            end = datetime.fromisoformat(until) - BEFORE_THE_END if until else None
            return {
                "access_key_id": said["AccessKeyId"],
                "secret_access_key": said["SecretAccessKey"],
                "token": said.get("SessionToken"),
                "expires_at": max(end, self._now() + timedelta(seconds=10)) if end else None,
            }
        except subprocess.CalledProcessError as error:
            words = error.stderr.decode("utf-8", "replace").strip()[-200:]
            raise StoreError(f"{failed} ended with {error.returncode}: {words}") from None
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{failed} gave no credentials: {type(error).__name__}") from None


def credentials(environ: Mapping[str, str]) -> Credentials | None:
    """Returns what finds the credentials; None: obstore does. Raises StoreError: a file of AWS's cannot be read."""
    if environ.get("AWS_ACCESS_KEY_ID"):
        return Credentials(environ)
    if any(environ.get(name) for name in _BY_OBSTORE):
        return None
    found = profile(environ)
    return Credentials(environ) if found.get(_KEY) or found.get("credential_process") else None


def profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what ~/.aws says of the profile in force; empty where there is none.

    Raises:
        StoreError: a file cannot be read.
    """
    home, name = Path("~/.aws").expanduser(), environ.get("AWS_PROFILE") or "default"
    found: dict[str, str] = {}
    for file, section in (
        (environ.get("AWS_CONFIG_FILE") or home / "config", name if name == "default" else f"profile {name}"),
        (environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials", name),
    ):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(file, "utf-8")
        except (Error, UnicodeDecodeError, OSError):
            raise StoreError(f"cannot read {file}: it is no file of AWS's form; correct it") from None
        found |= {
            key: value for key, value in (parser[section] if parser.has_section(section) else {}).items() if value
        }
    return found
