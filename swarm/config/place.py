"""Parses what names a shared place: a folder, or the URL of a bucket with all that is needed to find it, and no secret.

    s3://bucket/prefix                                      Amazon's S3, or what AWS_ENDPOINT_URL says
    s3://bucket/prefix?endpoint=https://host                any server that speaks S3: R2, MinIO, one's own
    hf://user/bucket/prefix                                 Hugging Face: s3://bucket/prefix?endpoint=https://s3.hf.co/user
    gs://bucket/prefix                                      Google Cloud Storage
    az://container/prefix                                   Azure Blob Storage
    s3://bucket/prefix?compress=zstd                        what this node writes there is packed
    https://host/folder                                     what a plugin opens that registered this scheme

Credentials come from the environment and the usual files alone: a URL is printed, logged, and seen in a process list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from swarm import entry_points
from swarm.errors import ConfigError

SCHEMES = ("s3", "gs", "az")
HUB, GATEWAY = "hf", "https://s3.hf.co"
"""Scheme of buckets of the Hugging Face Hub, and what speaks S3 before them, to each user's at the user's name
(https://huggingface.co/docs/hub/storage-buckets-s3)."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_OPTIONS = ("endpoint", "region", "compress")
_FORM = (
    "expected s3://BUCKET/PREFIX (or az://), with ?endpoint=URL for another server than the provider's, or gs://, or "
    "hf://USER/BUCKET/PREFIX"
)


CADENCE = {"heartbeat_interval": 60.0, "liveness_timeout": 240.0, "reconcile_interval": 10.0}
"""Seconds. Defaults in a bucket, where requests are paid for: a beat costs two, and one for each of its readers."""


class BucketUrl(NamedTuple):
    scheme: str
    bucket: str
    prefix: str
    """Without slashes at its ends; empty for the whole bucket."""
    endpoint: str = ""
    """URL of a server; empty: the provider's own."""
    region: str = ""
    compress: str = ""
    """`zstd`: files are packed; empty: they are not."""

    @property
    def address(self) -> str:
        """Returns the address as people find it, without how to get there; for messages."""
        return "/".join(filter(None, (f"{self.scheme}://{self.bucket}", self.prefix)))

    def __str__(self) -> str:
        options = [f"{name}={value}" for name in _OPTIONS if (value := getattr(self, name))]
        return f"{self.address}?{'&'.join(options)}" if options else self.address


def is_url(text: str) -> bool:
    """Tells whether this names something else than a folder."""
    return bool(_URL.match(text.strip()))


def place_of(text: str) -> str:
    """Returns the name by which every process finds the same place: a bucket's URL, or the absolute path of a folder.

    Raises:
        ConfigError: it is a URL that nobody here opens, or one that holds a secret.
    """
    if not is_url(text):
        return str(Path(text).expanduser().absolute())
    return _plain_url(text) if plugin_of(text) else str(bucket_url(text))


def plugin_of(text: str) -> str:
    """Returns the entry point of `swarm.places` that opens a URL, which is called as its scheme; empty: none does."""
    found = _URL.match(text.strip())
    scheme = found[1].lower() if found else ""
    if not scheme or scheme in (*SCHEMES, HUB):
        return ""
    there = scheme in entry_points.bundled(entry_points.PLACES) or scheme in entry_points.found(entry_points.PLACES)
    return scheme if there else ""


def _plain_url(text: str) -> str:
    """Returns a URL of a plugin's as every process has it. Raises ConfigError: it may hold a secret."""
    try:
        parts = urlsplit(text.strip())
        secret = "@" in parts.netloc or parts.query or parts.fragment
    except ValueError:
        raise ConfigError("the shared place is no URL that can be read: expected https://HOST/FOLDER") from None
    if secret or not parts.hostname:
        raise ConfigError(
            "the URL of the shared place holds a user, a password, a token or an option, or no host, and URLs "
            "are printed and logged. Expected https://HOST/FOLDER; credentials come from the environment"
        )
    return f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/')}"


def bucket_url(text: str) -> BucketUrl:
    """Returns the parts of a URL.

    Raises:
        ConfigError: it is none of a bucket, or holds a user, a password or a token, which the message does not repeat.
    """
    try:
        parts = urlsplit(text.strip())
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint = urlsplit(options.get("endpoint", ""))
        secret = "@" in parts.netloc or "@" in endpoint.netloc or endpoint.query or endpoint.fragment or parts.fragment
    except ValueError:
        raise ConfigError(f"the shared place is no URL that can be read: {_FORM}") from None
    if secret or not {*options} <= {*_OPTIONS}:
        raise ConfigError(
            "the URL of the shared place holds a user, a password, a token or an option that is none of "
            f"{', '.join(_OPTIONS)}, and URLs are printed and logged: {_FORM}; credentials come from the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...) or the provider's usual files"
        )
    found = BucketUrl(parts.scheme.lower(), parts.netloc, parts.path.strip("/"), **options)
    if found.scheme == HUB:
        found = _of_the_hub(found)
        endpoint = urlsplit(found.endpoint)
    _check(found, endpoint.scheme, endpoint.netloc)
    return found


def _of_the_hub(url: BucketUrl) -> BucketUrl:
    """Returns hf://user/bucket/prefix, or hf://buckets/user/bucket/prefix as its own tools have it, as the S3 that it
    is."""
    user, rest = url.bucket, url.prefix
    if user == "buckets":
        user, _, rest = rest.partition("/")
    bucket, _, prefix = rest.partition("/")
    if url.endpoint or not (_BUCKET.fullmatch(user) and bucket):
        raise ConfigError("expected hf://USER/BUCKET/PREFIX, with the user or organization whose bucket it is")
    return url._replace(scheme="s3", bucket=bucket, prefix=prefix, endpoint=f"{GATEWAY}/{user}")


def _check(url: BucketUrl, scheme: str, host: str) -> None:
    if url.scheme not in SCHEMES:
        raise ConfigError(
            f"the shared place {url.scheme}://{url.bucket} is no folder and no bucket: {_FORM}, or https://HOST/FOLDER"
        )
    if not _BUCKET.fullmatch(url.bucket):
        raise ConfigError(f"the shared place names the bucket {url.bucket!r}, which is no bucket's name: {_FORM}")
    names = url.prefix.split("/") if url.prefix else []
    if not {"", ".", ".."}.isdisjoint(names) or not url.prefix.isprintable() or "~" in url.prefix:
        raise ConfigError(
            f"the shared place names the prefix {url.prefix!r}: expected names between single slashes, none of them "
            "`.` or `..`, without `~`"
        )
    if url.endpoint and (url.scheme == "gs" or scheme not in ("http", "https") or not host):
        raise ConfigError(f"the shared place names the endpoint {url.endpoint!r}: {_FORM}")
    if not re.fullmatch(r"[a-z0-9-]*", url.region):
        raise ConfigError(f"the shared place names the region {url.region!r}: expected one such as eu-central-1")
    if url.compress not in ("", "zstd"):
        raise ConfigError(f"the shared place says compress={url.compress!r}: expected compress=zstd, or nothing of it")
