"""The experiments of a place of whole objects: a bucket here, or what a plugin asks in the same verbs."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from swarm.config.place import BucketUrl
from swarm.errors import StoreError
from swarm.extras import lacking
from swarm.store.base import MOST_NAMES, Kind
from swarm.store.bucket.credentials import credentials, profile
from swarm.store.folder.beneath import EXPERIMENTS
from swarm.store.health import Health
from swarm.store.shared_place import Place
from swarm.wire import keys

if TYPE_CHECKING:
    from swarm.store.bucket.client import BucketClient
    from swarm.store.bucket.objects import Objects
    from swarm.store.bucket.store import BucketStore


class ObjectsPlace(Place):
    prefix = ""
    """Part of all names."""

    @abstractmethod
    def objects(self) -> Objects:
        """Opens a way to the objects, for trials of the place."""

    @abstractmethod
    def beside(self, folder: str, writer: str | None = None) -> BucketStore:
        """Opens what lies below a prefix of the place."""

    def problem(self) -> str:
        try:
            self.beside(EXPERIMENTS).list("", limit=1)
        except StoreError as error:
            return str(error)
        return ""

    def experiments(self) -> list[str]:
        there = self.beside(EXPERIMENTS).list("", limit=MOST_NAMES).entries
        return [entry.name for entry in there if entry.kind is Kind.PREFIX]

    def has(self, name: str) -> bool:
        return bool(self.store(name, None).list("", limit=1).entries)

    def remove(self, name: str) -> None:
        self.beside(keys.archive(name), "@remove").remove_prefix("")
        self.store(name, "@remove").remove_prefix("")

    def health(self, name: str) -> AbstractContextManager[Health]:
        from swarm.store.bucket.health import bucket_health

        return bucket_health(self.objects(), self.prefix, f"{EXPERIMENTS}/{name}")


class BucketPlace(ObjectsPlace):
    KIND = "a bucket"

    def __init__(self, url: BucketUrl) -> None:
        self._url, self.prefix = url, url.prefix
        self._bucket = open_bucket(url)
        self._uploads = open_bucket(url, retries=True)

    def describe(self) -> str:
        return self._url.address

    def beside(self, folder: str, writer: str | None = None) -> BucketStore:
        from swarm.store.bucket.store import BucketStore

        root = "/".join(filter(None, (self.prefix, folder)))
        return BucketStore(self.objects(), root, writer, packs=bool(self._url.compress))

    def objects(self) -> BucketClient:
        from swarm.store.bucket.client import BucketClient

        address = f"{self._url.scheme}://{self._url.bucket}"
        return BucketClient(self._bucket, address, uploads=self._uploads)


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────────
if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SILENCE = timedelta(seconds=30)
"""A server that says nothing for so long gives no answer."""
_CONNECT = timedelta(seconds=5)
_WHOLE = timedelta(days=1)
"""Longest time of one request; a large file takes long."""
_OF_PROFILE = {"region": "region", "endpoint": "endpoint_url"}
_RETRIES = 8
"""Retries of a part of a large file."""


def open_bucket(url: BucketUrl, environ: Mapping[str, str] = os.environ, *, retries: bool = False) -> ObjectStore:
    """Opens a bucket, and asks nothing of it yet.

    Args:
        retries: it tries again by itself.

    Raises:
        ConfigError: obstore is not installed.
        StoreError: it refuses the configuration.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise lacking(f"the bucket {url.address}", "obstore", "bucket", "name a folder with --path") from None
    config: Any = _config(url, environ)
    provider: Any = credentials(environ) if url.scheme == "s3" else None
    plain = str(config.get("endpoint", "")).startswith("http://")
    options: Any = {
        "allow_http": plain,
        "timeout": _WHOLE,
        "read_timeout": _SILENCE,
        "connect_timeout": _CONNECT,
    }
    try:
        return from_url(
            f"{url.scheme}://{url.bucket}",
            config=config,
            client_options=options,
            retry_config={"max_retries": _RETRIES if retries else 0},
            credential_provider=provider,
        )
    except (BaseError, ValueError):
        raise StoreError(
            f"cannot open {url.address}: obstore refuses the configuration; see its variables (AWS_..., GOOGLE_..., "
            "AZURE_...) in the environment"
        ) from None


def _config(url: BucketUrl, environ: Mapping[str, str]) -> Any:
    if url.scheme != "s3":
        return {"endpoint": url.endpoint} if url.endpoint else {}
    of_profile = {} if environ.get("AWS_ACCESS_KEY_ID") else profile(environ)
    found = {ours: value for ours, theirs in _OF_PROFILE.items() if (value := of_profile.get(theirs))}
    found |= {field: value for field in ("endpoint", "region") if (value := getattr(url, field))}
    if "endpoint" not in found and (named := environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")):
        found["endpoint"] = named
    if "region" not in found and not (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")):
        found["region"] = "us-east-1"
    return found
