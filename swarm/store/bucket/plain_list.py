"""One page of a listing of S3 as the server gives it: obstore refuses a page that holds one name which it cannot parse.

    S3Store whose endpoint carries the query ─▶ obstore.sign, with whatever credentials ─▶ GET ─▶ XML ─▶ PlainPage

Names come with `encoding-type=url`, for XML cannot hold control characters; bytes that are no UTF-8 as surrogates.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus, urlencode

import obstore
from obstore.exceptions import GenericError
from obstore.store import S3Store

from swarm.store.base import PAGE

if TYPE_CHECKING:
    from obstore import ObjectMeta

_LARGEST = 16 * 2**20
"""Bytes of a page: a thousand names of 1,024 bytes, each up to three times as long in its encoding."""
_SILENCE = 30.0
_VALID = timedelta(minutes=5)


class PlainPage(NamedTuple):
    """Holds some objects of a listing."""

    objects: Sequence[ObjectMeta]
    more: bool
    """The server has others behind the last one."""


ListPlainly = Callable[[str, str], PlainPage]
"""Prefix without its slash, and the name behind which to begin -> a page. Raises as obstore does."""


def plain_list(bucket: object) -> ListPlainly | None:
    """Returns a function that lists a bucket that obstore opened, page by page; None where it does not speak S3."""
    return (lambda prefix, after: _page(_signed(bucket, prefix, after))) if isinstance(bucket, S3Store) else None


def _signed(bucket: S3Store, prefix: str, after: str) -> str:
    """Returns the URL of one page. obstore signs paths alone, so the query is part of the endpoint; servers ignore
    `x-id`."""
    config = dict(bucket.config)
    region = config.get("region") or "us-east-1"
    endpoint = str(config.get("endpoint") or f"https://s3.{region}.amazonaws.com").rstrip("/")
    if str(config.get("virtual_hosted_style_request")).lower() != "true" or not config.get("endpoint"):
        endpoint += f"/{config['bucket']}"
    asked = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE), "prefix": f"{prefix}/"}
    query = urlencode(asked | ({"start-after": after} if after else {}), errors="surrogateescape")
    config |= {"endpoint": f"{endpoint}/?{query}&x-id=", "virtual_hosted_style_request": "true"}
    asking = S3Store(config=config, client_options=bucket.client_options)  # type: ignore[arg-type]
    return obstore.sign(asking, "GET", "list", _VALID)


def _page(url: str) -> PlainPage:
    try:
        with urllib.request.build_opener(_NoRedirect).open(url, timeout=_SILENCE) as answer:
            return _parsed(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(4096).decode("utf-8", "replace")
        raise GenericError(f"status code: {error.code}: {said}") from None
    except (OSError, http.client.HTTPException) as error:
        raise GenericError(f"error sending request: {type(error).__name__}") from None
    except (ElementTree.ParseError, ValueError, OverflowError) as error:
        raise GenericError(f"request or response body error: {type(error).__name__}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a signed request goes to nobody else. The answer that redirects becomes an error with its
    status."""

    def redirect_request(self, *_: object) -> None:
        return None


def _parsed(data: bytes) -> PlainPage:
    """Raises ElementTree.ParseError, ValueError, OverflowError: it is no page."""
    if b"<!DOCTYPE" in data or b"\0" in data:  # S3 writes UTF-8 without entities, which could stand for gigabytes
        raise ValueError("expected XML without a document type")
    root = ElementTree.fromstring(data)
    url_encoded = root.findtext("{*}EncodingType") == "url"
    found = [_meta(there, url_encoded) for there in root.iterfind("{*}Contents")]
    return PlainPage(found, root.findtext("{*}IsTruncated") == "true" and bool(found))


def _meta(there: ElementTree.Element, url_encoded: bool) -> ObjectMeta:
    def text(name: str) -> str:
        return there.findtext(f"{{*}}{name}") or ""

    if (size := int(text("Size"))) < 0:
        raise ValueError("expected a size of 0 bytes or more")
    return {
        "path": unquote_plus(text("Key"), errors="surrogateescape") if url_encoded else text("Key"),
        "last_modified": datetime.fromisoformat(text("LastModified")).astimezone(UTC),
        "size": size,
        "e_tag": text("ETag") or None,
        "version": None,
    }
