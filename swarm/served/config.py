"""ServerConfig: which generation server, and what of a node's settings it can do. Opens nothing.

A node that asks a server for its completions trains an adapter: servers take those over HTTP, under a name; whole
weights they take in ways of their own, or not at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from swarm.config import Settings, variable
from swarm.endpoint.config import check_url
from swarm.endpoint.key import Key, checked_key
from swarm.errors import ConfigError
from swarm.harmless import quoted

API = "/v1"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
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
    key: Key | None = None
    seed: int = 0
    """Seed of the pauses between tries."""

    @property
    def request_timeout(self) -> float:
        """Returns the seconds for one request, from the connection to the last byte."""
        return self.patience / 2


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
        key=_key(settings, url),
        seed=settings.seed,
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


def _key(settings: Settings, url: str) -> Key | None:
    if not (value := (settings.generation_server.key or "").strip()):
        return None
    name = variable("generation_server_key")
    holder, key = f"{name}: what it holds", f"{name}: the key"
    return checked_key(value, url, holder=holder, key=key, ways="or a tunnel to 127.0.0.1")
