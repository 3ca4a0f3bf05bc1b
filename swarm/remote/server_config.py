"""ServerConfig: which generation server, and what of a node's settings it can do. Opens nothing.

A node that asks a server for its completions trains an adapter: servers take those over HTTP, under a name; whole
weights they take in ways of their own, or not at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.harmless import quoted
from swarm.remote.generation import Terms
from swarm.remote.key import Key, check_url, checked_key

API = "/v1"
AT_ONCE = 64
"""Requests that one call has under way."""
MOST_UNUSABLE = 3
"""Replies to one request that are of another form, or cannot be of this policy."""
LONGEST_PAUSE = 15.0
"""Seconds between two tries."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Times are seconds."""

    url: str
    """Without `/v1`."""
    folder: Path
    """Where adapters are written: of this node alone."""
    prefix: str
    """What the names of this node's adapters begin with, and no other's: experiment, node, digest of the shared place.
    """
    patience: float = 600.0
    """Without a usable reply; then the server is away."""
    plays_on: bool = False
    """Whether the node then generates by itself."""
    pause: float = 0.5
    """Before the second try of a request; twice as long each time."""
    key: Key | None = None

    @property
    def request_timeout(self) -> float:
        """Returns the seconds for one request, from the connection to the last byte."""
        return self.patience / 2

    @property
    def terms(self) -> Terms:
        """Returns how it is asked: all groups come, or the call has failed; one that is away is waited for."""
        return Terms(
            concurrency=AT_ONCE,
            patience=self.patience,
            renewed=True,
            whole=True,
            repeats=MOST_UNUSABLE - 1,
            counted=frozenset({"unreadable"}),
            pause=self.pause,
            longest_pause=LONGEST_PAUSE,
        )


def server_config(settings: Settings, node_id: str) -> ServerConfig | None:
    """Returns the server that writes this node's completions; None: it has none.

    Raises:
        ConfigError: the settings ask for what cannot be had of one.
    """
    if settings.generation_server.url is None or settings.role == "coordinator":
        return None  # a coordinator may have the settings of its workers
    _refuse_unsuited(settings)
    url = check_url(settings.generation_server.url, variable("generation_server")).rstrip("/").removesuffix(API)
    folder = Path(settings.generation_server.folder or settings.private_folder / "adapters").expanduser().absolute()
    own = f"{settings.experiment}.{node_id}.{hashlib.sha256(settings.place.encode()).hexdigest()[:8]}"
    return ServerConfig(
        url=url,
        folder=folder / own,
        prefix=own,
        patience=settings.generation_server.patience,
        plays_on=settings.generation_server.away == "own",
        key=checked_key(
            settings.generation_server.key or "",
            url,
            holder=f"{variable('generation_server_key')}: what it holds",
            key=f"{variable('generation_server_key')}: the key",
            ways="or a tunnel to 127.0.0.1",
        ),
    )


def _refuse_unsuited(settings: Settings) -> None:
    asked = f"{variable('generation_server')} ({quoted(settings.generation_server.url)})"
    if settings.role != "worker":
        raise ConfigError(
            f"{asked}: only a worker has it, got {variable('role')} {settings.role!r}; for a node that trains nothing "
            f"use {variable('endpoint')}"
        )
    if settings.adapter.kind == "none":
        raise ConfigError(
            f"{asked}: expected {variable('adapter')}=lora, got none: a server takes an adapter over HTTP, and whole "
            "weights it does not. Set it, or let the node generate by itself"
        )
    if settings.max_reasoning_tokens:
        raise ConfigError(
            f"{asked}: expected no {variable('max_reasoning_tokens')}, got {settings.max_reasoning_tokens}: a server "
            "does not force the end of a thought as this program does. Unset one of them"
        )
    if settings.temperature != 1.0 and (settings.top_p < 1 or settings.top_k or settings.min_p):
        raise ConfigError(
            f"{asked}: expected {variable('temperature')}=1, or neither {variable('top_p')}, {variable('top_k')} nor "
            f"{variable('min_p')}, got {settings.temperature:g} with some of them: a server gives log-probs before "
            "temperature and cut, or after both, and training needs them between"
        )
