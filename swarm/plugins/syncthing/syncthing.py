"""Syncthing's REST interface on this machine, as far as a replicated folder needs it.

Where it listens, and its key, stand in its own configuration; STGUIADDRESS, STGUIAPIKEY and STHOMEDIR count above that,
as for Syncthing itself. The key is sent to this machine alone, and is in no message.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from swarm import forms
from swarm.errors import StoreError

if TYPE_CHECKING:
    from http.client import HTTPConnection

Form = TypeVar("Form")
CONFIG, CERTIFICATE = "config.xml", "https-cert.pem"
HOMES = (".local/state/syncthing", ".config/syncthing", "Library/Application Support/Syncthing")
"""Below the user's own folder: since version 1.27, before that, on a Mac."""
TIMEOUT = 20.0
LARGEST_ANSWER = 16 << 20
ANOTHER = "is it another program, or a version that is not known yet?"
HOW = "start it with `syncthing serve --no-browser`, or say where its configuration is with STHOMEDIR"


class _Status(msgspec.Struct):
    myID: str = ""  # noqa: N815 - Syncthing's name


class Syncthing(NamedTuple):
    """One running Syncthing."""

    host: str
    port: int
    key: str
    certificate: Path | None = None
    """Its own, where it listens with TLS."""

    def __repr__(self) -> str:
        return f"Syncthing({self.host}:{self.port})"

    @classmethod
    def found(cls, environ: Mapping[str, str]) -> Syncthing:
        """Returns the one of this user.

        Raises:
            StoreError: there is no configuration, or it listens somewhere else than on this machine.
        """
        home = next((each for each in _homes(environ) if (each / CONFIG).is_file()), None)
        address, key = environ.get("STGUIADDRESS", ""), environ.get("STGUIAPIKEY", "")
        tls = address.startswith("https://")
        if home is not None and not (address and key):
            told, told_key, told_tls = _configured(home / CONFIG)
            tls = tls or (told_tls and not address)
            address, key = address or told, key or told_key
        if not (address and key):
            raise StoreError(f"Syncthing has no configuration on this machine: {HOW}")
        host, _, port = address.rpartition("://")[2].strip("/").rpartition(":")
        host = _here(host.strip("[]"))
        if not port.isdecimal() or not host:
            raise StoreError(
                "Syncthing's interface listens elsewhere than on this machine, where its key is not sent to"
            )
        return cls(host, int(port), key, home / CERTIFICATE if tls and home else None)

    def ask(self, path: str, form: type[Form], **query: str) -> Form | None:
        """Returns the answer to a GET, as a form; None: there is no such thing. Raises StoreError: it fails."""
        said = self._answer("GET", path, **query)
        if said is None or said.strip() in (b"", b"null"):
            return None
        try:
            return forms.decode(said, form)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"Syncthing answers GET {path} otherwise than expected ({error}): {ANOTHER}") from None

    def _answer(self, method: str, path: str, body: object = None, **query: str) -> bytes | None:
        from http import client  # here, as what it imports, for commands that only look start without it

        target = f"/rest/{path}{'?' + urlencode(query) if query else ''}"
        connection = self._connection()
        try:
            data = None if body is None else msgspec.json.encode(body)
            connection.request(method, target, data, {"X-API-Key": self.key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read(LARGEST_ANSWER)
        except (OSError, client.HTTPException) as error:
            raise StoreError(
                f"Syncthing does not answer on {self.host}:{self.port} ({type(error).__name__}): {HOW}"
            ) from None
        finally:
            connection.close()
        if answer.status == client.NOT_FOUND:
            return None
        if answer.status != client.OK:
            raise StoreError(
                f"Syncthing answers {answer.status} to {method} {path}: {said[:200].decode(errors='replace')}"
            )
        return said

    def _connection(self) -> HTTPConnection:
        from http import client

        if self.certificate is None:
            return client.HTTPConnection(self.host, self.port, timeout=TIMEOUT)
        import ssl

        context = ssl.create_default_context(cafile=str(self.certificate))
        context.check_hostname = False  # it is this very certificate, whatever name it bears
        return client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT, context=context)

    def device(self) -> str:
        """Returns the id of this machine's device."""
        return (self.ask("system/status", _Status) or _Status()).myID

    def config_of(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns the settings of a `folder` or `device`, None where there is none."""
        return self.ask(f"config/{kind}s/{quote(name)}", dict[str, Any])

    def configure(self, kind: str, name: str, settings: Mapping[str, Any]) -> None:
        """Make a `folder` or `device`, or change it in these settings."""
        there = self.config_of(kind, name)
        base = there if there is not None else self.ask(f"config/defaults/{kind}", dict[str, Any]) or {}
        self._answer("PUT", f"config/{kind}s/{quote(name)}", {**base, **settings})


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if told := environ.get("STHOMEDIR"):
        yield Path(told)
        return
    if state := environ.get("XDG_STATE_HOME"):
        yield Path(state) / "syncthing"
    if config := environ.get("XDG_CONFIG_HOME"):
        yield Path(config) / "syncthing"
    yield from (Path.home() / home for home in HOMES)


def _configured(file: Path) -> tuple[str, str, bool]:
    """Address, key and whether it speaks TLS. Raises StoreError: it cannot be read."""
    from xml.etree import ElementTree

    try:
        gui = ElementTree.parse(file).getroot().find("gui")
    except (OSError, ElementTree.ParseError) as error:
        raise StoreError(f"Syncthing's configuration {file} cannot be read: {error}") from None
    if gui is None:
        return "", "", False
    return gui.findtext("address", ""), gui.findtext("apikey", ""), gui.get("tls") == "true"


def _here(host: str) -> str:
    """Returns the host by which this machine is reached; empty for another one."""
    if host in ("", "localhost", "0.0.0.0", "::"):  # it listens everywhere, so here too
        return "127.0.0.1"
    try:
        return host if ipaddress.ip_address(host).is_loopback else ""
    except ValueError:
        return ""
