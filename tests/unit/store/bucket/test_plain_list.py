"""Listing S3 without obstore: signed as S3 asks, with any credentials, and whatever names there are."""

from __future__ import annotations

import hashlib
import hmac
import xml.etree.ElementTree as ElementTree
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from obstore.exceptions import GenericError

from swarm.config.place import bucket_url
from swarm.store.bucket import plain_list
from swarm.store.bucket.names import is_odd, odd_root
from swarm.store.bucket.opening import open_bucket
from tests.unit.store.endless import FAR_TOO_MUCH, endless

KEYS = {"AWS_ACCESS_KEY_ID": "anna", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_SESSION_TOKEN": "passing/="}
PAGE = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>
<Contents><Key>p/a%01%FF+b%2B.json</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>
<ETag>&quot;77&quot;</ETag><Size>5</Size></Contents></ListBucketResult>"""


def signature(url: str, secret: str) -> str:
    """AWS's Signature Version 4 of a GET whose parameters stand in the query, as its documentation tells."""
    parts = urlsplit(url)
    query = sorted((name, value) for name, value in parse_qsl(parts.query) if name != "X-Amz-Signature")
    asked = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query)
    request = f"GET\n{parts.path}\n{asked}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    day, scope = dict(query)["X-Amz-Date"], dict(query)["X-Amz-Credential"].partition("/")[2]
    text = f"AWS4-HMAC-SHA256\n{day}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for step in (*scope.split("/"), text):
        key = hmac.digest(key, step.encode(), "sha256")
    return key.hex()


@pytest.mark.parametrize(
    ("place", "start"),
    [
        ("s3://mine", "https://s3.us-east-1.amazonaws.com/mine/?"),
        ("s3://mine?region=eu-north-1", "https://s3.eu-north-1.amazonaws.com/mine/?"),
        ("s3://mine?endpoint=http://127.0.0.1:9/anna", "http://127.0.0.1:9/anna/mine/?"),
    ],
)
def test_a_page_is_asked_for_with_the_signature_that_s3_demands(
    monkeypatch: pytest.MonkeyPatch, place: str, start: str
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    bucket = open_bucket(bucket_url(place))
    url = plain_list._signed(bucket, "run/peers", "run/peers/a\udcff \x01+")  # type: ignore[arg-type]
    asked = dict(parse_qsl(urlsplit(url).query, errors="surrogateescape"))
    assert url.startswith(start)
    assert (asked["prefix"], asked["start-after"]) == ("run/peers/", "run/peers/a\udcff \x01+")
    assert asked["X-Amz-Security-Token"] == KEYS["AWS_SESSION_TOKEN"]
    assert "hunter2" not in url


def test_the_signature_is_that_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anna")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    bucket = open_bucket(bucket_url("s3://mine?endpoint=http://127.0.0.1:9"))
    url = plain_list._signed(bucket, "run/peers", "run/peers/a b+c&d=e\x01")  # type: ignore[arg-type]
    assert dict(parse_qsl(urlsplit(url).query))["X-Amz-Signature"] == signature(url, "hunter2")


def test_names_that_xml_cannot_hold_come_out_as_they_are() -> None:
    page = plain_list._parsed(PAGE)
    assert page.more
    assert [meta["path"] for meta in page.objects] == ["p/a\x01\udcff b+.json"]
    assert (page.objects[0]["size"], page.objects[0]["e_tag"]) == (5, '"77"')


BOMB = b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 9))


@pytest.mark.parametrize(
    "page",
    [
        PAGE.replace(b"?>", b'?><!DOCTYPE l [<!ENTITY a0 "aaaaaaaaaa">' + BOMB + b"]>").replace(b"p/a", b"&a8;"),
        PAGE.decode().replace("?>", ' encoding="utf-16"?>').encode("utf-16"),
        PAGE.replace(b">5<", b">-5<"),
        PAGE.replace(b">5<", b">" + b"5" * 5000 + b"<"),
        PAGE.replace(b"2026-01-02T03:04:05.000Z", b"0001-01-01T00:00:00+14:00"),
        PAGE.replace(b"2026-01-02T03:04:05.000Z", b"yesterday"),
        PAGE[:-5],
    ],
)
def test_a_page_that_no_s3_writes_is_none(page: bytes) -> None:
    with pytest.raises((ElementTree.ParseError, ValueError, OverflowError)):
        plain_list._parsed(page)


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("/x", ""),
        ("a//b", "a/"),
        ("a/../b/c", "a/.."),
        ("a/b\x01/c", "a/b\x01"),
        ("a/b\x01", None),
        ("a/", None),
        ("\udcff/x", "\udcff"),
    ],
)
def test_what_lies_below_an_odd_part_is_odd(name: str, root: str) -> None:
    assert is_odd(name)
    assert odd_root(name) == root


@pytest.mark.parametrize("name", ["anna.json", "a/b c/%25", "a/...", "\U0001f600"])
def test_names_that_requests_can_hold_are_not_odd(name: str) -> None:
    assert not is_odd(name)


def test_a_page_without_end_is_none() -> None:
    with endless() as (port, sent):
        bucket = open_bucket(bucket_url("s3://mine"), KEYS | {"AWS_ENDPOINT": f"http://127.0.0.1:{port}"})
        listing = plain_list.plain_list(bucket)
        assert listing
        with pytest.raises(GenericError):
            listing("p", "")
    assert sent.bytes < FAR_TOO_MUCH
